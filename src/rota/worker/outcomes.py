"""Outcomes of attempts: from what a handler raised to what is reported, stored and logged.

Handlers raise anything. Every exception becomes plain text of bounded size, also one whose own code is broken.

To format one frame of a traceback, Python parses its line again, to find what to underline: that is most of what a
failed attempt costs a worker. Handlers fail at the same few places, so the text of a frame is cached.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sysconfig
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, assert_never

from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.outcome import Failed, Outcome, Released, Snoozed, Stopped, Suspended, Unknown
from rota.core.settlement import JobError
from rota.telemetry.logs import about
from rota.worker.exceptions import Cancelled, ExceptionTypes, GiveUp, OutcomeUnknown, RetryLater, Suspend

_log: Final = logging.getLogger("rota.worker")
_LONGEST_MESSAGE: Final = 4_000
_LONGEST_TRACEBACK: Final = 16_000
_LONGEST_LOGGED_MESSAGE: Final = 500
#: Size of the cache of frames; when it is full it is emptied, which costs little and seldom happens.
CACHED_FRAMES: Final = 1_000
_LONGEST_CACHED_FRAME: Final = 2_000
#: Log lines a minute for one job type and one error kind; further failures are counted.
MOST_A_MINUTE: Final = 30
_BARE_MODULES: Final = frozenset({"builtins", "rota.worker.exceptions"})
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_NOT_USER_CODE: Final = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(__file__).parent.parent),
    "<",
)


class StopReason(StrEnum):
    """Why a running attempt is asked to stop."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    DRAIN = "drain"
    #: By the worker's own clock the lease has lapsed and could not be renewed.
    LAPSED = "lapsed"
    #: The store answered that the job belongs to another worker.
    LOST = "lost"


class PermanentError(Exception):
    """A failure found by Rota in the user's code or payload that another attempt cannot repair."""


class ErrorPolicy(Protocol):
    """Which exceptions are permanent; a handler says so."""

    @property
    def give_up_on(self) -> ExceptionTypes:
        """Exceptions that are permanent."""
        ...

    @property
    def retry_on(self) -> ExceptionTypes:
        """Exceptions that are retried; all others are permanent."""
        ...

    @property
    def dependency_errors(self) -> ExceptionTypes:
        """Exceptions by which the dependency of a circuit breaker fails."""
        ...


def outcome_of(raised: BaseException, policy: ErrorPolicy) -> Outcome:
    """Return the outcome of a handler that raised without a stop request."""
    match raised:
        case RetryLater():
            return Snoozed(raised.delay, limit=raised.limit)
        case Suspend():
            return Suspended(raised.key)
        case BaseExceptionGroup() if (key := _suspended_for(raised)) is not None:
            return Suspended(key)
        case Cancelled():
            return Stopped()
        case OutcomeUnknown():
            return Unknown(error_of(raised))
        case GiveUp() | PermanentError():
            return Failed(error_of(raised), permanent=True)
        case asyncio.CancelledError():
            return Failed(error_of(raised, "the handler was cancelled by its own code"))
        case _:
            is_permanent = isinstance(raised, policy.give_up_on) or not (
                isinstance(raised, policy.retry_on) or not isinstance(raised, Exception)
            )
            is_of_dependency = isinstance(raised, policy.dependency_errors)
            return Failed(error_of(raised), permanent=is_permanent, dependency=is_of_dependency)


def _suspended_for(group: BaseExceptionGroup[BaseException]) -> str | None:
    """Return the key of the first wait if the tasks of a group were left by waits only; None if one of them failed."""
    waits, others = group.split(Suspend)
    if waits is None or (others is not None and others.split(asyncio.CancelledError)[1] is not None):
        return None
    first: BaseException = waits
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first.key if isinstance(first, Suspend) else None


def outcome_of_stop(
    reason: StopReason, limit: timedelta | None, policy: ErrorPolicy, raised: BaseException | None
) -> Outcome | None:
    """Return the outcome of an attempt that stopped on request or was abandoned; None if nothing is to be reported."""
    match reason:
        case StopReason.TIMEOUT:
            seconds = limit.total_seconds() if limit is not None else 0
            error = JobError("HandlerTimedOut", f"ran past its limit of {seconds:g} s", _traceback(raised))
            is_permanent = any(issubclass(TimeoutError, one) for one in policy.give_up_on)
            is_of_dependency = any(issubclass(TimeoutError, one) for one in policy.dependency_errors)
            return Failed(error, permanent=is_permanent, dependency=is_of_dependency)
        case StopReason.CANCEL:
            return Stopped()
        case StopReason.DRAIN | StopReason.LAPSED:
            return Released(started=True)
        case StopReason.LOST:
            return None
        case _:
            assert_never(reason)


def error_of(raised: BaseException, message: str | None = None) -> JobError:
    """Convert an exception to the text that is stored."""
    text = message if message is not None else _message(raised)
    return JobError(_kind(raised), storable(text, _LONGEST_MESSAGE), _traceback(raised))


def storable(text: str, longest: int) -> str:
    """Cut text to a length, and escape what a store or a JSON reader would refuse."""
    clean = text[: longest + 1].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def _kind(raised: BaseException) -> str:
    kind = type(raised)
    name = str(kind.__qualname__)
    return name if kind.__module__ in _BARE_MODULES else f"{kind.__module__}.{name}"


def _message(raised: BaseException) -> str:
    try:
        return str(raised)
    except BaseException as error:  # noqa: BLE001 - whatever the exception's own code does, the attempt failed
        return f"(its message cannot be shown: str() raised {type(error).__qualname__})"


def _traceback(raised: BaseException | None) -> str:
    """Format a traceback without Rota's own frame at the top."""
    if raised is None:
        return ""
    try:
        frames = raised.__traceback__
        summary = traceback.TracebackException(type(raised), raised, frames and frames.tb_next, limit=50, compact=True)
        text = format_traceback(summary)
    except BaseException:  # noqa: BLE001 - as above
        return "(the traceback cannot be shown)"
    return storable(text[-_LONGEST_TRACEBACK:], _LONGEST_TRACEBACK)


#: By the frame's position and the text of its line: the file may be edited while the worker runs.
_frame_texts: Final[dict[tuple[Any, ...], str]] = {}


class _CachedStack(traceback.StackSummary):
    """A stack whose frames are formatted once."""

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **more: Any) -> str:  # noqa: ANN401 - its own
        if any(more.values()):
            # Colours, from Python 3.13 on; never used here.
            return super().format_frame_summary(frame_summary, **more)
        frame = frame_summary
        key = (frame.filename, frame.name, frame.line, frame.lineno, frame.colno, frame.end_lineno, frame.end_colno)
        text = _frame_texts.get(key)
        if text is None:
            text = super().format_frame_summary(frame, **more)
            if len(_frame_texts) >= CACHED_FRAMES:
                _frame_texts.clear()
            if len(text) <= _LONGEST_CACHED_FRAME:
                _frame_texts[key] = text
        return text


def format_traceback(summary: traceback.TracebackException) -> str:
    """Format a traceback as Python prints it, with its causes and contexts."""
    left = [summary]
    while left:
        one = left.pop()
        one.stack = _CachedStack(one.stack)
        left += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
    return "".join(summary.format())


class FailureLog:
    """Logs each failed attempt: the error, and the line of the user's code that raised it.

    Called from every thread without a lock: two failures at the same moment may be counted as one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, has_messages: bool = True) -> None:
        self._clock = clock
        #: Whether messages are logged: not where payloads are encrypted, since a message may quote one.
        self._has_messages = has_messages
        #: By job type and error kind: start of the current minute, lines written, failures not written.
        self._seen: dict[tuple[str, str], tuple[float, int, int]] = {}

    def write(self, job: Job, error: JobError) -> None:
        key, now = (job.type, error.kind), self._clock()
        since, written, left_out = self._seen.get(key, (now, 0, 0))
        if now - since >= 60:  # noqa: PLR2004 - a minute
            since, written = now, 0
        if written >= MOST_A_MINUTE:
            self._seen[key] = since, written, left_out + 1
            return
        self._seen[key] = since, written + 1, 0
        where = f" at {frame}" if (frame := last_frame(error.traceback)) else ""
        more = f" (and {left_out} others like it)" if left_out else ""
        message = error.message[:_LONGEST_LOGGED_MESSAGE] if self._has_messages else "(encrypted)"
        _log.warning(
            "job %s (%s) failed in attempt %d of %d with %s: %s%s%s",
            to_text(job.id), job.type, job.attempts, job.max_attempts, error.kind,
            message, where, more, extra=about(job),
        )  # fmt: skip


def last_frame(traceback_text: str) -> str:
    """Return the innermost frame of the user's own code, as file:line in function; empty if there is none."""
    frames = [
        (path, line, function)
        for path, line, function in _FRAME.findall(traceback_text)
        if not path.startswith(_NOT_USER_CODE)
    ]
    if not frames:
        return ""
    path, line, function = frames[-1]
    return f"{path}:{line} in {function}"
