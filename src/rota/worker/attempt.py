"""A running attempt: one job under one lease, in the memory of the worker that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any, Final, Protocol

from rota.core.job import Job
from rota.core.outcome import Outcome, Released, Stopped
from rota.core.submission import BREAKER
from rota.worker.context import JobContext
from rota.worker.handlers import Handler
from rota.worker.lease_keeper.protocol import LeaseKey
from rota.worker.outcomes import StopReason, outcome_of_stop
from rota.worker.steps import AttemptSteps

#: A handler is started only within this part of the lease. The rest is a margin for a slow clock or a paused process,
#: after which another worker may already run the job.
START_WITHIN: Final = 0.8


class Executor(Protocol):
    """Runs handlers: as coroutines, on threads or in child processes."""

    def put(self, attempts: Sequence[RunningAttempt]) -> None:
        """Queue attempts; each starts as soon as a slot is free."""
        ...

    def interrupt(self, attempt: RunningAttempt) -> None:
        """Interrupt an attempt after a stop request, if the executor can."""
        ...

    def abandon(self, attempt: RunningAttempt) -> None:
        """Stop waiting for an attempt that does not stop, and free its slot."""
        ...


class RunningAttempt:
    """One attempt under one lease. All times are of the monotonic clock.

    States: waiting (held, handler not started) -> started -> asked to stop (perhaps) -> finished. The state is in
    `AttemptTracker`.
    """

    __slots__ = (
        "context", "deadline", "doubtful_since", "executor", "handler", "is_isolated", "is_stopped", "job", "key",
        "lease_until", "slot", "span", "start_before", "started_at", "stop", "stopped_at",
    )  # fmt: skip

    def __init__(self, job: Job, handler: Handler, executor: Executor, sent: float, lease: float) -> None:
        self.job = job
        self.handler = handler
        self.executor = executor
        self.key: LeaseKey = (job.id, job.fence)
        #: The handler's context while it runs. Other threads must read it once into a local variable.
        self.context: JobContext | None = None
        #: The trace span, if traces are exported.
        self.span: Any = None
        self.started_at = inf
        self.deadline = inf
        self.extend(sent, lease)
        self.is_stopped = False
        #: The job is suspected of crashing workers and runs in a child process that ends with it.
        self.is_isolated = False
        self.stop: StopReason | None = None
        self.stopped_at = inf
        #: The executor's own record: a coroutine slot, a thread slot or a child process.
        self.slot: object = None

    @property
    def limit(self) -> timedelta | None:
        """The longest time that the handler may run: the job's own limit, or else the handler's."""
        return self.job.timeout if self.job.timeout is not None else self.handler.timeout

    @property
    def breaker(self) -> str | None:
        """The circuit breaker under which the outcome counts: the job's own, or else the handler's."""
        key = self.job.concurrency_key
        return key.removeprefix(BREAKER) if key is not None and key.startswith(BREAKER) else self.handler.breaker

    @property
    def has_updates(self) -> bool:
        context = self.context
        return context is not None and context.has_updates

    def extend(self, sent: float, lease: float) -> None:
        """Set the end of the lease, counted from when the request was sent: a slow response must not lengthen it."""
        self.lease_until = sent + lease
        self.start_before = sent + lease * START_WITHIN
        #: Since when the lease may have lapsed; the heartbeat then has a short time to find out.
        self.doubtful_since = inf

    def begin(self, now: float, steps_for: Callable[[RunningAttempt], AttemptSteps] | None = None) -> None:
        """Record that the handler starts."""
        self.started_at = now
        limit = self.limit
        if limit is not None:
            self.deadline = now + limit.total_seconds()
        self.context = JobContext(self.job, self, None if steps_for is None else partial(steps_for, self))

    def request_stop(self, reason: StopReason, now: float) -> bool:
        """Ask the handler to stop; return whether this is the first request.

        The first reason counts, except that LOST replaces any other.
        """
        if self.stop is not None and reason is not StopReason.LOST:
            return False
        is_first = self.stop is None
        self.stop = reason
        self.stopped_at = min(self.stopped_at, now)
        self.is_stopped = True
        return is_first

    def outcome_not_started(self) -> Outcome | None:
        """Return the outcome if the handler is never started."""
        match self.stop:
            case StopReason.CANCEL:
                return Stopped()
            case StopReason.LOST:
                return None
            case _:
                return Released(started=False)

    def outcome_stopped(self, raised: BaseException | None = None) -> Outcome | None:
        """Return the outcome after a stop request: the handler stopped, or was abandoned."""
        assert self.stop is not None
        return outcome_of_stop(self.stop, self.limit, self.handler, raised)
