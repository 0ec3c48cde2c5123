"""What a handler can know and say about its job while it runs.

A handler stays a plain function: it asks for its context instead of being given it. Progress and log are kept here
and sent along with the next heartbeat; nothing a handler says costs it a round trip.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final, Protocol, TypeVar

from rota.core.errors import InvalidRequest
from rota.core.finite import require_finite
from rota.core.identity import JobId, to_text
from rota.core.step import Doubt
from rota.core.trace import trace_of
from rota.worker.signals import Cancelled
from rota.worker.steps import Happened, Kinds, Steps, policy_of

R = TypeVar("R")

#: How much of what an attempt logs is kept: the end of it.
LOG_TAIL_CHARACTERS: Final = 8192
_LONGEST_MESSAGE: Final = 1000


class Facts(Protocol):
    """What is known of a job. A `Job` knows it, and so does what a child process is told."""

    @property
    def id(self) -> JobId:
        """Which job."""
        ...

    @property
    def type(self) -> str:
        """What kind of job."""
        ...

    @property
    def attempts(self) -> int:
        """Which attempt this is."""
        ...

    @property
    def max_attempts(self) -> int:
        """How many there may be."""
        ...

    @property
    def run_at(self) -> datetime:
        """When it was due."""
        ...

    @property
    def fire_time(self) -> datetime | None:
        """For which time of its schedule it was made, if a schedule made it."""
        ...

    @property
    def meta(self) -> Mapping[str, str]:
        """What its submitter noted with it."""
        ...


class Orders(Protocol):
    """What a handler is told while it runs."""

    @property
    def is_stopped(self) -> bool:
        """Whether it was told to stop."""
        ...

    @property
    def deadline(self) -> float:
        """Until when it may run, by the monotonic clock."""
        ...


class JobContext:
    """One attempt as its handler sees it. `current()` gives it."""

    __slots__ = ("_facts", "_has_news", "_log", "_log_size", "_open_steps", "_orders", "_progress", "_steps")

    def __init__(self, facts: Facts, orders: Orders, open_steps: Callable[[], Steps] | None = None) -> None:
        self._facts = facts
        self._open_steps = open_steps
        self._steps: Steps | None = None
        self._orders = orders
        self._progress: str | None = None
        self._log: list[str] | None = None
        self._log_size = 0
        self._has_news = False

    @property
    def id(self) -> str:
        """The job's id, the same in every attempt: a key for effects that must not happen twice."""
        return to_text(self._facts.id)

    @property
    def type(self) -> str:
        """The job's type."""
        return self._facts.type

    @property
    def trace_id(self) -> str | None:
        """Which trace it belongs to, if its submitter said so (W3C Trace Context)."""
        return trace_of(self._facts.meta)

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._facts.attempts

    @property
    def max_attempts(self) -> int:
        """How many attempts there may be."""
        return self._facts.max_attempts

    @property
    def scheduled_for(self) -> datetime:
        """The time this job was made for: its schedule's fire time, or when it was due."""
        return self._facts.fire_time or self._facts.run_at

    @property
    def deadline(self) -> datetime | None:
        """Until when the handler may run; None when it has no limit."""
        if self._orders.deadline == inf:
            return None
        return datetime.now(UTC) + timedelta(seconds=self._orders.deadline - time.monotonic())

    def cancelled(self) -> bool:
        """Whether the handler should stop: asked to, out of time, or no longer holding its job."""
        return self._orders.is_stopped

    def heartbeat(self) -> None:
        """Come up for air in a long computation: raises `Cancelled` if the handler should stop."""
        if self._orders.is_stopped:
            raise Cancelled

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the work has come. Only the last word counts."""
        require_finite([done, total], "progress")
        told = {"done": done, "total": total, "message": message[:_LONGEST_MESSAGE]}
        self._progress = json.dumps(told, ensure_ascii=True)
        self._has_news = True

    def log(self, text: str) -> None:
        """Write a line that is kept with the attempt. Only the end of what was written is kept."""
        line = str(text)[-LOG_TAIL_CHARACTERS:]
        if self._log is None:
            self._log = []
        self._log.append(line)
        self._log_size += len(line) + 1
        if self._log_size > 2 * LOG_TAIL_CHARACTERS:
            # Cut rarely, by half: cutting at every line would make a chatty handler slow.
            tail = "\n".join(self._log)[-LOG_TAIL_CHARACTERS:]
            self._log = [tail]
            self._log_size = len(tail) + 1
        self._has_news = True

    def step(
        self,
        key: str,
        function: Callable[[], R],
        *,
        doubt: Doubt | str | None = None,
        verify: Callable[[], Happened | None] | None = None,
        failed_on: Kinds = (),
        tx: object = None,
    ) -> R:
        """Perform an effect once, guarded by this job and `key`; give what it yielded, now or in an earlier attempt.

        The intent is written down before and the outcome after. If an earlier attempt died in between, nobody can know
        whether the effect happened; then `doubt` decides: `"park"` (the default) sets the job aside for a person,
        `"retry"` performs the effect again, for effects that bear it, and `verify` is asked whether it happened and
        returns `Happened(result)` or None. An exception leaves the effect in doubt too (a timeout may hide a success),
        except those of `failed_on`, which say that nothing happened. What is yielded must be JSON.

        With `tx`, a connection to the store's own database in whose transaction `function` does its work, the effect
        happens exactly once: its record is a part of the transaction, and you commit both or neither.
        """
        policy = policy_of(key, doubt, verify, failed_on, tx)
        if tx is not None:
            return self._opened().within.perform(key, function, tx)
        return self._opened().perform(key, function, policy, verify, failed_on)

    async def astep(
        self,
        key: str,
        function: Callable[[], Awaitable[R]],
        *,
        doubt: Doubt | str | None = None,
        verify: Callable[[], Awaitable[Happened | None]] | None = None,
        failed_on: Kinds = (),
        tx: object = None,
    ) -> R:
        """Perform an effect once; the same as `step`, for async handlers."""
        policy = policy_of(key, doubt, verify, failed_on, tx)
        if tx is not None:
            return await self._opened().within.perform_async(key, function, tx)
        return await self._opened().perform_async(key, function, policy, verify, failed_on)

    def _opened(self) -> Steps:
        if self._steps is None:
            if self._open_steps is None:
                raise InvalidRequest("step: this worker was not told where steps are kept", field="step")
            self._steps = self._open_steps()
        return self._steps

    def log_tail(self) -> str | None:
        """Give the end of the log; None when nothing was logged."""
        if not self._log:
            return None
        text = "\n".join(self._log)[-LOG_TAIL_CHARACTERS:]
        return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

    @property
    def has_news(self) -> bool:
        """Whether there is anything that was not taken before."""
        return self._has_news

    def take_news(self) -> tuple[str | None, str | None]:
        """Give progress and log if there is anything that was not taken before."""
        if not self._has_news:
            return None, None
        # Cleared first: what is said while we look is taken the next time.
        self._has_news = False
        return self._progress, self.log_tail()

    def retell(self, progress: str | None, log_tail: str | None) -> None:
        """Take over what the same attempt said in another process."""
        if progress is not None:
            self._progress = progress
        if log_tail is not None:
            self._log, self._log_size = [log_tail], len(log_tail)
        self._has_news = True


CURRENT: Final[ContextVar[JobContext]] = ContextVar("rota_current_job")


def current() -> JobContext:
    """Give the context of the job whose handler is running here."""
    context = CURRENT.get(None)
    if context is None:
        raise LookupError("current() knows a job only inside a handler that a Rota worker runs")
    return context


def fields_for(worker: str) -> Callable[[], Mapping[str, object]]:
    """Make what tells, for a line of log, in which job of a worker's it was written."""

    def fields() -> Mapping[str, object]:
        context = CURRENT.get(None)
        if context is None:
            return {}
        told = {"job_id": context.id, "job_type": context.type, "attempt": context.attempt, "worker": worker}
        return told if context.trace_id is None else {**told, "trace_id": context.trace_id}

    return fields
