"""From what a handler did to what is reported: an outcome, always.

Handlers raise anything. Whatever it is, it becomes plain text of bounded size, also when the exception itself is
broken.
"""

from __future__ import annotations

import asyncio
import traceback
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol, assert_never

from rota.core.outcome import Failed, Outcome, Released, Snoozed, Stopped, Unknown
from rota.core.settlement import JobError
from rota.worker.frames import shown
from rota.worker.signals import Cancelled, GiveUp, OutcomeUnknown, RetryLater

_LONGEST_MESSAGE: Final = 4_000
_LONGEST_TRACEBACK: Final = 16_000


class Stop(StrEnum):
    """Why a run is told to stop."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    DRAIN = "drain"
    #: By our own count the lease has run out and could not be renewed.
    LAPSED = "lapsed"
    #: The store said that the job belongs to someone else.
    LOST = "lost"


class Permanent(Exception):
    """A failure of ours about the user's code that trying again cannot mend."""


class Judge(Protocol):
    """Which exceptions mean what: a handler says so."""

    @property
    def give_up_on(self) -> tuple[type[BaseException], ...]:
        """What is permanent."""
        ...

    @property
    def retry_on(self) -> tuple[type[BaseException], ...]:
        """What may be tried again; all else is permanent."""
        ...


def outcome_of(raised: BaseException, judge: Judge) -> Outcome:
    """Say what an exception means when nobody told the handler to stop."""
    match raised:
        case RetryLater():
            return Snoozed(raised.delay)
        case Cancelled():
            return Stopped()
        case OutcomeUnknown():
            return Unknown(error_of(raised))
        case GiveUp() | Permanent():
            return Failed(error_of(raised), permanent=True)
        case asyncio.CancelledError():
            return Failed(error_of(raised, "the handler was cancelled by its own code"))
        case _:
            is_permanent = isinstance(raised, judge.give_up_on) or not (
                isinstance(raised, judge.retry_on) or not isinstance(raised, Exception)
            )
            return Failed(error_of(raised), permanent=is_permanent)


def outcome_of_stop(why: Stop, limit: timedelta | None, judge: Judge, raised: BaseException | None) -> Outcome | None:
    """Say what becomes of a run that was told to stop and did, or was left behind; None when nobody wants to know."""
    match why:
        case Stop.TIMEOUT:
            seconds = limit.total_seconds() if limit is not None else 0
            told = JobError("HandlerTimedOut", f"ran past its limit of {seconds:g} s", _traceback(raised))
            return Failed(told, permanent=_is_timeout_permanent(judge))
        case Stop.CANCEL:
            return Stopped()
        case Stop.DRAIN | Stop.LAPSED:
            return Released(started=True)
        case Stop.LOST:
            return None
        case _:
            assert_never(why)


def _is_timeout_permanent(judge: Judge) -> bool:
    return any(issubclass(TimeoutError, one) for one in judge.give_up_on)


def error_of(raised: BaseException, message: str | None = None) -> JobError:
    """Write an exception down as plain text."""
    told = message if message is not None else _message(raised)
    return JobError(_kind(raised), plain(told, _LONGEST_MESSAGE), _traceback(raised))


def plain(text: str, longest: int) -> str:
    """Make text that every store and every JSON reader takes."""
    clean = text[: longest + 1].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def _kind(raised: BaseException) -> str:
    kind = type(raised)
    name = str(kind.__qualname__)
    return name if kind.__module__ in {"builtins", "rota.worker.signals"} else f"{kind.__module__}.{name}"


def _message(raised: BaseException) -> str:
    try:
        return str(raised)
    except BaseException as error:  # noqa: BLE001 - whatever the exception's own code does, the attempt failed
        return f"(its message cannot be shown: str() raised {type(error).__qualname__})"


def _traceback(raised: BaseException | None) -> str:
    """Show where it was raised, without our own frame at the top."""
    if raised is None:
        return ""
    try:
        frames = raised.__traceback__
        told = traceback.TracebackException(type(raised), raised, frames and frames.tb_next, limit=50, compact=True)
        text = shown(told)
    except BaseException:  # noqa: BLE001 - as above
        return "(the traceback cannot be shown)"
    return plain(text[-_LONGEST_TRACEBACK:], _LONGEST_TRACEBACK)
