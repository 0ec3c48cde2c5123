"""The context of a running handler: facts about its job, cancellation, progress, log lines and steps.

A handler stays a plain function: it gets its context by `current()`. Progress and log lines are kept here and sent by
the worker within a second (`updates.py`), so they cost the handler no round trip. Records of the standard `logging`
module that a handler makes are log lines too, see `log_capture.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from rota.core.errors import InvalidRequest
from rota.core.finite import require_finite
from rota.core.ids import JobId, to_text
from rota.core.log_lines import LogTail
from rota.core.step import DoubtPolicy
from rota.core.trace import trace_of
from rota.core.waiting import signal_name
from rota.worker.exceptions import Cancelled, ExceptionTypes
from rota.worker.steps import AttemptSteps, Happened, policy_of
from rota.worker.waiting import CallableTask, ChildCall, Span, call_of, event_wait_of, sleep_of, value_of

P = ParamSpec("P")
R = TypeVar("R")

_LONGEST_MESSAGE: Final = 1000


class JobFacts(Protocol):
    """What a handler can read about its job: from a `Job`, or from the message to a child process."""

    @property
    def id(self) -> JobId: ...

    @property
    def type(self) -> str: ...

    @property
    def attempts(self) -> int: ...

    @property
    def max_attempts(self) -> int: ...

    @property
    def run_at(self) -> datetime: ...

    @property
    def fire_time(self) -> datetime | None: ...

    @property
    def meta(self) -> Mapping[str, str]: ...


class StopSignals(Protocol):
    """What a handler can read about its end."""

    @property
    def is_stopped(self) -> bool:
        """Whether the handler was asked to stop."""
        ...

    @property
    def deadline(self) -> float:
        """The end of its time, by the monotonic clock."""
        ...


class JobContext:
    """The context of one attempt for its handler; returned by `current()`."""

    __slots__ = ("_child_log", "_facts", "_has_updates", "_log", "_open_steps", "_progress", "_steps", "_stop_signals")

    def __init__(
        self, facts: JobFacts, stop_signals: StopSignals, open_steps: Callable[[], AttemptSteps] | None = None
    ) -> None:
        self._facts = facts
        self._open_steps = open_steps
        self._steps: AttemptSteps | None = None
        self._stop_signals = stop_signals
        self._progress: str | None = None
        self._log: LogTail | None = None
        #: The log of a handler that runs in a child process, which keeps it.
        self._child_log: str | None = None
        self._has_updates = False

    @property
    def id(self) -> str:
        """The job's id, the same in every attempt: usable as an idempotency key."""
        return to_text(self._facts.id)

    @property
    def type(self) -> str:
        return self._facts.type

    @property
    def concurrency_key(self) -> str | None:
        """The key by which limits count the job; None if it has none, or in a child process."""
        key: str | None = getattr(self._facts, "concurrency_key", None)
        return key

    @property
    def trace_id(self) -> str | None:
        """The trace id, if the submitter set one (W3C Trace Context)."""
        return trace_of(self._facts.meta)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._facts.attempts

    @property
    def max_attempts(self) -> int:
        return self._facts.max_attempts

    @property
    def scheduled_for(self) -> datetime:
        """The fire time of its schedule, or when the job was due."""
        return self._facts.fire_time or self._facts.run_at

    @property
    def deadline(self) -> datetime | None:
        """The end of the handler's time limit; None if it has none."""
        if self._stop_signals.deadline == inf:
            return None
        return datetime.now(UTC) + timedelta(seconds=self._stop_signals.deadline - time.monotonic())

    def cancelled(self) -> bool:
        """Return whether the handler should stop: cancelled, out of time, or no longer holding its job."""
        return self._stop_signals.is_stopped

    def heartbeat(self) -> None:
        """Raise `Cancelled` if the handler should stop; to be called now and then in a long computation."""
        if self._stop_signals.is_stopped:
            raise Cancelled

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress. Only the last report is kept."""
        require_finite([done, total], "progress")
        at = datetime.now(UTC).isoformat()
        report = {"done": done, "total": total, "message": message[:_LONGEST_MESSAGE], "at": at}
        self._progress = json.dumps(report, ensure_ascii=True)
        self._has_updates = True

    def log(self, text: str) -> None:
        """Add a line to the log of the attempt, of which the last 1,000 lines or 40,000 bytes are kept."""
        self.add_line(datetime.now(UTC), "info", str(text))

    def add_line(self, at: datetime, level: str, message: str, logger: str = "") -> None:
        if self._log is None:
            self._log = LogTail()
        self._log.add(at.isoformat(timespec="milliseconds"), level, message, logger)
        self._has_updates = True

    def step(
        self,
        key: str,
        function: Callable[[], R],
        *,
        doubt: DoubtPolicy | str | None = None,
        verify: Callable[[], Happened | None] | None = None,
        failed_on: ExceptionTypes = (),
        tx: object = None,
    ) -> R:
        """Perform an effect once for this job and `key`; return its result, of this attempt or an earlier one.

        The intent is recorded before the effect and the outcome after it. If an earlier attempt died in between, it is
        unknown whether the effect happened; then `doubt` decides: `"park"` (the default) sets the job aside for a
        person, `"retry"` performs the effect again, for effects that may happen twice, and a `verify` function finds
        out whether it happened and returns `Happened(result)` or None. An exception leaves the effect in doubt too (a
        timeout may hide a success), except those of `failed_on`, which mean that nothing happened. The result must be
        JSON.

        With `tx`, a connection to the store's own database in whose transaction `function` does its work, the effect
        happens exactly once: its record is a part of the transaction, and you commit both or neither.
        """
        policy = policy_of(key, doubt, verify, failed_on, tx)
        if tx is not None:
            return self._opened().in_transaction.perform(key, function, tx)
        return self._opened().perform(key, function, policy, verify, failed_on)

    async def astep(
        self,
        key: str,
        function: Callable[[], Awaitable[R]],
        *,
        doubt: DoubtPolicy | str | None = None,
        verify: Callable[[], Awaitable[Happened | None]] | None = None,
        failed_on: ExceptionTypes = (),
        tx: object = None,
    ) -> R:
        """Perform an effect once; the same as `step`, for async handlers."""
        policy = policy_of(key, doubt, verify, failed_on, tx)
        if tx is not None:
            return await self._opened().in_transaction.perform_async(key, function, tx)
        return await self._opened().perform_async(key, function, policy, verify, failed_on)

    def sleep(self, key: str, span: Span) -> None:
        """Sleep once for this job and `key`, without holding a slot or a lease, and without using an attempt.

        The handler is left here and run again from its beginning when the time has come; steps and waits that are done
        answer at once. The time counts from the first call.
        """
        self._opened().wait(sleep_of(key, span))

    async def asleep(self, key: str, span: Span) -> None:
        """Sleep as `sleep` does, for async handlers."""
        await self._opened().wait_async(sleep_of(key, span))

    def wait(self, key: str, *, event: str, timeout: Span | None = None) -> Any:  # noqa: ANN401 - any JSON
        """Wait for an event as `sleep` waits for a time; return its payload, or None after `timeout`.

        An event that was emitted before counts too, until it expires.
        """
        return value_of(self._opened().wait(event_wait_of(key, event, timeout)))

    async def await_event(self, key: str, *, event: str, timeout: Span | None = None) -> Any:  # noqa: ANN401, ASYNC109
        """Wait for an event as `wait` does, for async handlers."""
        return value_of(await self._opened().wait_async(event_wait_of(key, event, timeout)))

    def signal_name(self, name: str = "") -> str:
        """Return the name of the event that `Handle.signal(name)` emits for this job."""
        return signal_name(self._facts.id, name)

    def call(self, key: str, task: CallableTask[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ChildCall[R]:
        """Call a task as a child job, once for this job and `key`; its `result()` waits for it as `sleep` waits.

        Several children run at the same time if all are called before the first `result()`.
        """
        call = task.call(*args, **kwargs)
        wait = call_of(key, call)
        return ChildCall(self._opened(), wait, self._opened().begin_wait(wait), call.decode)

    async def acall(self, key: str, task: CallableTask[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ChildCall[R]:
        """Call a task as a child job as `call` does, for async handlers; await its `aresult()`."""
        call = task.call(*args, **kwargs)
        wait = call_of(key, call)
        return ChildCall(self._opened(), wait, await self._opened().begin_wait_async(wait), call.decode)

    def _opened(self) -> AttemptSteps:
        if self._steps is None:
            if self._open_steps is None:
                raise InvalidRequest("step: this worker has no store for steps", field="step")
            self._steps = self._open_steps()
        return self._steps

    def log_tail(self) -> str | None:
        """Return the end of the log as it is stored, see `LogTail`; None if nothing was logged."""
        return self._child_log if self._log is None else self._log.text()

    @property
    def has_updates(self) -> bool:
        """Whether progress or log changed since `take_updates`."""
        return self._has_updates

    def take_updates(self) -> tuple[str | None, str | None]:
        """Return progress and log tail if one of them changed since the last call."""
        if not self._has_updates:
            return None, None
        # Cleared first: what the handler adds meanwhile is taken the next time.
        self._has_updates = False
        return self._progress, self.log_tail()

    def take_last(self) -> tuple[str | None, str | None]:
        """Return the log, and the progress if it has changed since it was sent: both go with the outcome."""
        return self.log_tail(), self._progress if self._has_updates else None

    def send_again(self) -> None:
        """Note that the updates taken last were not sent."""
        self._has_updates = True

    def merge_from_child(self, progress: str | None, log_tail: str | None) -> None:
        """Take over progress and log of the same attempt in a child process."""
        if progress is not None:
            self._progress = progress
        if log_tail is not None:
            self._child_log = log_tail
        self._has_updates = True


CURRENT: Final[ContextVar[JobContext]] = ContextVar("rota_current_job")


def current() -> JobContext:
    """Return the context of the job whose handler runs here."""
    context = CURRENT.get(None)
    if context is None:
        raise LookupError("current() works only inside a handler that a Rota worker runs")
    return context


def fields_for(worker: str) -> Callable[[], Mapping[str, object]]:
    """Make a function that returns the log fields of the job whose handler runs here."""

    def fields() -> Mapping[str, object]:
        context = CURRENT.get(None)
        if context is None:
            return {}
        known = {"job_id": context.id, "job_type": context.type, "attempt": context.attempt, "worker": worker}
        return known if context.trace_id is None else {**known, "trace_id": context.trace_id}

    return fields
