"""Metrics: a listener that counts what happens, for whoever scrapes this process.

How long an attempt took is measured by our own steady clock where its lease and its outcome both passed here; where
another process leased it, by the store's time of the lease and ours, and then a clock that is off shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from rota.core import lifecycle
from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.settlement import Settlement
from rota.telemetry import catalogue
from rota.telemetry.events import (
    BrokerCalled,
    Event,
    JobsClaimed,
    JobsDispatched,
    JobsPromoted,
    JobsPruned,
    JobsRecalled,
    JobsSettled,
    JobsSubmitted,
    LeaderChanged,
    LeasesExpired,
    ScheduleFired,
    SettlementsRefused,
)
from rota.telemetry.tallies import Counts, Names, Spreads, Tally

#: How many attempts under way to remember.
REMEMBERED: Final = 50_000
#: How an attempt ended, by what it made of its job.
ENDS: Final = {
    lifecycle.Event.SUCCEED: "succeeded",
    lifecycle.Event.FAIL: "failed",
    lifecycle.Event.EXHAUST: "dead",
    lifecycle.Event.SNOOZE: "snoozed",
    lifecycle.Event.RELEASE: "released",
    lifecycle.Event.POSTPONE: "released",
    lifecycle.Event.CANCEL: "cancelled",
    lifecycle.Event.EXPIRE: "lost",
}
_SUBMIT: Final = ("submit",)
#: Ends that are no handler's doing: how long they took says nothing about handlers.
UNHANDLED: Final = frozenset({"released", "lost"})


def _host_clock() -> datetime:
    return datetime.now(UTC)


class Metrics:
    """Counts events. `heard` is what the bus calls; a worker without an engine calls `begun` and `ended` itself."""

    def __init__(
        self, *, clock: Callable[[], datetime] = _host_clock, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock = clock
        self._timer = timer
        self._begun: dict[JobId, tuple[int, float]] = {}
        self.types = Names()
        self.queues = Names()
        self._submitted = Counts(catalogue.SUBMITTED)
        self._attempts = Counts(catalogue.ATTEMPTS)
        self._outcomes = Counts(catalogue.OUTCOMES)
        self._durations = Spreads(catalogue.DURATION)
        self._starts = Spreads(catalogue.START_LATENCY)
        self._lateness = Spreads(catalogue.LATENESS)
        self._lost = Counts(catalogue.LEASES_LOST)
        self._refused = Counts(catalogue.REFUSED)
        self._leaders = Counts(catalogue.LEADER_CHANGES)
        self._pruned = Counts(catalogue.PRUNED)
        self._store = Spreads(catalogue.STORE)
        self._dispatched = Counts(catalogue.DISPATCHED)
        self._recalled = Counts(catalogue.RECALLED)
        self._broker = Spreads(catalogue.BROKER)

    def tallies(self) -> Sequence[Tally]:
        """Give all that was counted."""
        return (
            self._submitted, self._attempts, self._outcomes, self._durations, self._starts, self._lateness, self._lost,
            self._refused, self._leaders, self._pruned, self._store, self._dispatched, self._recalled, self._broker,
        )  # fmt: skip

    def heard(self, event: Event) -> None:
        """Count an event."""
        # The most frequent of all first, and by its very type: for one job, to match cost as much as to count.
        if type(event) is JobsSubmitted:
            self._store.add(_SUBMIT, event.seconds)
            counts, shown = self._submitted.values, self.types.shown
            for job in event.jobs:
                counts[(shown(job.type),)] += 1.0
            return
        match event:
            case JobsClaimed():
                self._store.add(("claim",), event.seconds)
                self.begun(event.jobs)
            case JobsSettled():
                self._store.add(("settle",), event.seconds)
                self._settled(event.jobs, event.settlements)
            case BrokerCalled():
                self._broker.add((event.operation,), event.seconds)
            case _:
                self._heard_rarely(event)

    def _heard_rarely(self, event: Event) -> None:
        match event:
            case JobsPromoted():
                self._store.add(("promote",), event.seconds)
            case JobsPruned():
                self._store.add(("prune",), event.seconds)
                self._pruned.add((), event.count)
            case JobsDispatched():
                self._store.add(("dispatch",), event.seconds)
                self._dispatched.add((), event.count)
            case JobsRecalled():
                self._store.add(("recall",), event.seconds)
                self._recalled.add((), event.count)
            case LeasesExpired():
                for lost in event.jobs:
                    self._lost.add((self.types.shown(lost.type),))
            case SettlementsRefused():
                self.refused(event.ids)
            case ScheduleFired():
                self._lateness.add((), event.late_seconds)
            case LeaderChanged():
                self._leaders.add(())
            case _:
                pass

    def begun(self, jobs: Sequence[Job]) -> None:
        """Count attempts that begin. A claim that is repeated gives the same jobs again; they are counted once."""
        now = self._timer()
        for job in jobs:
            if self._begun.get(job.id, _NEVER)[0] == job.fence:
                continue
            # One that was claimed ahead of its time begins at that.
            held = (job.run_at - job.updated_at).total_seconds() if job.is_ahead else 0.0
            self._begun[job.id] = (job.fence, now + held)
            self._attempts.add((self.types.shown(job.type),))
            if job.started_at is not None:
                waited = job.started_at - max(job.run_at, job.created_at)
                self._starts.add((self.queues.shown(job.queue),), waited.total_seconds())
        while len(self._begun) > REMEMBERED:
            del self._begun[next(iter(self._begun))]

    def ended(self, job: Job, how: str) -> None:
        """Count an attempt that ended."""
        shown = self.types.shown(job.type)
        self._outcomes.add((shown, how))
        fence, at = self._begun.pop(job.id, _NEVER)
        if how in UNHANDLED:
            return
        if fence == job.fence:
            self._durations.add((shown,), max(self._timer() - at, 0.0))
        elif job.started_at is not None:
            self._durations.add((shown,), max((self._clock() - job.started_at).total_seconds(), 0.0))

    def refused(self, ids: Sequence[JobId]) -> None:
        """Count outcomes that came too late."""
        self._refused.add((), len(ids))
        for job_id in ids:
            self._begun.pop(job_id, None)

    def _settled(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> None:
        for job, settlement in zip(jobs, settlements, strict=True):
            if settlement.source is State.RUNNING:
                self.ended(job, "lost" if settlement.crash else ENDS[settlement.event])


_NEVER: Final = (-1, 0.0)
