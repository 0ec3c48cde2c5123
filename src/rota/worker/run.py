"""A run: one attempt at one job, as the worker that makes it sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any, Final, Protocol

from rota.core.job import Job
from rota.core.outcome import Outcome, Released, Stopped
from rota.worker.context import JobContext
from rota.worker.handlers import Handler
from rota.worker.leases import Key
from rota.worker.steps import Steps
from rota.worker.verdict import Stop, outcome_of_stop

#: A job is begun only within this part of its lease, so that a slow clock or a pause does not begin someone else's.
START_WITHIN: Final = 0.8


class Executor(Protocol):
    """Where runs happen."""

    def put(self, runs: Sequence[Run]) -> None:
        """Take runs on. Begins them as soon as there are places, which there are or soon will be."""
        ...

    def interrupt(self, run: Run) -> None:
        """Make a run that was told to stop stop, if there is a way."""
        ...

    def abandon(self, run: Run) -> None:
        """Leave a run behind that does not stop; someone else takes its place."""
        ...


class Run:
    """One attempt under one lease. All times are of the monotonic clock.

    States: waiting (held, not begun) -> begun -> told to stop, perhaps -> over. `Holding` keeps which.
    """

    __slots__ = (
        "context", "deadline", "doubted_at", "executor", "handler", "is_alone", "is_stopped", "job", "key",
        "lease_until", "place", "span", "start_before", "started_at", "stop", "stopped_at",
    )  # fmt: skip

    def __init__(self, job: Job, handler: Handler, executor: Executor, sent: float, lease: float) -> None:
        self.job = job
        self.handler = handler
        self.executor = executor
        self.key: Key = (job.id, job.fence)
        #: What its handler knows of it, from its beginning to its end; whoever asks from another thread asks once.
        self.context: JobContext | None = None
        #: Its span, where traces are sent.
        self.span: Any = None
        self.started_at = inf
        self.deadline = inf
        self.extend(sent, lease)
        self.is_stopped = False
        #: A suspect, in a process that ends with it.
        self.is_alone = False
        self.stop: Stop | None = None
        self.stopped_at = inf
        #: What the executor keeps with it: a slot, a thread, a child.
        self.place: object = None

    @property
    def limit(self) -> timedelta | None:
        """How long it may run."""
        return self.job.timeout if self.job.timeout is not None else self.handler.timeout

    @property
    def has_news(self) -> bool:
        """Whether its handler has said anything since it was last asked."""
        context = self.context
        return context is not None and context.has_news

    def extend(self, sent: float, lease: float) -> None:
        """Count the lease from the moment the request for it was sent: a slow reply must not lengthen it."""
        self.lease_until = sent + lease
        self.start_before = sent + lease * START_WITHIN
        #: Since when its lease may have run out; the heart then has a moment to find out.
        self.doubted_at = inf

    def begin(self, now: float, steps_for: Callable[[Run], Steps] | None = None) -> None:
        """Note that the handler begins."""
        self.started_at = now
        limit = self.limit
        if limit is not None:
            self.deadline = now + limit.total_seconds()
        self.context = JobContext(self.job, self, None if steps_for is None else partial(steps_for, self))

    def tell(self, why: Stop, now: float) -> bool:
        """Tell it to stop, and say whether that is news. The first reason counts, but a lost job has no other."""
        if self.stop is not None and why is not Stop.LOST:
            return False
        is_news = self.stop is None
        self.stop = why
        self.stopped_at = min(self.stopped_at, now)
        self.is_stopped = True
        return is_news

    def outcome_unbegun(self) -> Outcome | None:
        """Say what becomes of it if it is not begun at all."""
        match self.stop:
            case Stop.CANCEL:
                return Stopped()
            case Stop.LOST:
                return None
            case _:
                return Released(started=False)

    def outcome_stopped(self, raised: BaseException | None = None) -> Outcome | None:
        """Say what becomes of it now that it was told to stop and did, or was left behind."""
        assert self.stop is not None
        return outcome_of_stop(self.stop, self.limit, self.handler, raised)
