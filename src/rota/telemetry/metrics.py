"""Metrics: counters and histograms of this process, and the listener that feeds them from telemetry events.

The values are plain numbers in dictionaries, written and read on one event loop without a lock, because every job
passes here.

The duration of an attempt is measured by the monotonic clock if this process saw both its claim and its outcome. If
another process claimed the job, it is the host's time less the store's time of the claim, and a wrong clock shows.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rota.core import lifecycle
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.settlement import Settlement
from rota.telemetry import metric_definitions
from rota.telemetry.events import (
    BreakerChanged,
    BrokerCalled,
    ClaimLimited,
    Event,
    EventEmitted,
    JobsClaimed,
    JobsDispatched,
    JobsPromoted,
    JobsPruned,
    JobsRecalled,
    JobsSettled,
    JobsSubmitted,
    LeaderChanged,
    LeasesLapsed,
    ScheduleFired,
    SettlementsRefused,
    WaitsEnded,
    WorkflowChanged,
)
from rota.telemetry.metric_definitions import Metric

Labels = tuple[str, ...]
#: The label value for names beyond the limit.
OTHER: Final = "other"
#: How many values a label may have: each costs the scraper a series for every bucket.
MOST_LABELS: Final = 100


class LabelNames:
    """Bounds the values of a label that users choose: the first `limit` are kept, the rest become `other`."""

    def __init__(self, limit: int = MOST_LABELS) -> None:
        self._limit = limit
        self._known: set[str] = set()

    @property
    def known(self) -> Collection[str]:
        """The values in use so far."""
        return self._known

    def shown(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(name)
        return name


class Counts:
    """Numbers by label: a counter or a gauge."""

    __slots__ = ("metric", "values")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.values: defaultdict[Labels, float] = defaultdict(float)
        if not metric.labels:
            # Shown from the start: an alert on something that has not happened yet needs its zero.
            self.values[()] = 0.0

    @classmethod
    def of(cls, metric: Metric, value: float, *labels: str) -> Counts:
        """Make the values of a metric that has one number."""
        counts = cls(metric)
        counts.values[labels] = value
        return counts

    def add(self, labels: Labels, number: float = 1.0) -> None:
        self.values[labels] += number


@dataclass(slots=True)
class Buckets:
    """The number of values in each bucket, the last one without upper bound, and their sum."""

    counts: list[int]
    total: float = 0.0


class Histograms:
    """Histograms by label."""

    __slots__ = ("_bounds", "metric", "values")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._bounds = metric.bounds
        self.values: dict[Labels, Buckets] = {}

    def add(self, labels: Labels, value: float) -> None:
        """Count a value; a negative one, which a clock step can cause, counts as zero."""
        buckets = self.values.get(labels)
        if buckets is None:
            buckets = self.values[labels] = Buckets([0] * (len(self._bounds) + 1))
        # Not with `max`: this runs for every event, and the call would be most of its cost.
        if value < 0.0:  # noqa: PLR1730
            value = 0.0
        buckets.counts[bisect_left(self._bounds, value)] += 1
        buckets.total += value


MetricValues = Counts | Histograms

#: How many running attempts to remember.
REMEMBERED: Final = 50_000
#: The outcome label of an attempt, by its event.
ENDS: Final = {
    lifecycle.Event.SUCCEED: "succeeded",
    lifecycle.Event.FAIL: "failed",
    lifecycle.Event.EXHAUST: "dead",
    lifecycle.Event.SNOOZE: "snoozed",
    lifecycle.Event.SUSPEND: "suspended",
    lifecycle.Event.RELEASE: "released",
    lifecycle.Event.POSTPONE: "released",
    lifecycle.Event.CANCEL: "cancelled",
    lifecycle.Event.LAPSE: "lost",
}
_SUBMIT: Final = ("submit",)
_NEVER: Final = (-1, 0.0)
#: Outcomes that no handler caused: their duration says nothing about handlers.
UNHANDLED: Final = frozenset({"released", "lost"})


def _host_clock() -> datetime:
    return datetime.now(UTC)


class Metrics:
    """Counts events. Telemetry calls `on_event`; a worker without an engine calls `begun` and `ended` itself."""

    def __init__(
        self, *, clock: Callable[[], datetime] = _host_clock, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock = clock
        self._timer = timer
        self._begun: dict[JobId, tuple[int, float]] = {}
        self.types = LabelNames()
        self.queues = LabelNames()
        self.breakers = LabelNames()
        self._submitted = Counts(metric_definitions.SUBMITTED)
        self._attempts = Counts(metric_definitions.ATTEMPTS)
        self._outcomes = Counts(metric_definitions.OUTCOMES)
        self._durations = Histograms(metric_definitions.DURATION)
        self._starts = Histograms(metric_definitions.START_LATENCY)
        self._lateness = Histograms(metric_definitions.LATENESS)
        self._lost = Counts(metric_definitions.LEASES_LOST)
        self._refused = Counts(metric_definitions.REFUSED)
        self._limited = Counts(metric_definitions.CLAIMS_LIMITED)
        self._breakers = Counts(metric_definitions.BREAKER_CHANGES)
        self._leaders = Counts(metric_definitions.LEADER_CHANGES)
        self._emitted = Counts(metric_definitions.EMITTED)
        self._workflows = Counts(metric_definitions.WORKFLOWS)
        self._pruned = Counts(metric_definitions.PRUNED)
        self._store = Histograms(metric_definitions.STORE)
        self._dispatched = Counts(metric_definitions.DISPATCHED)
        self._recalled = Counts(metric_definitions.RECALLED)
        self._broker = Histograms(metric_definitions.BROKER)

    def collect(self) -> Sequence[MetricValues]:
        return (
            self._submitted, self._attempts, self._outcomes, self._durations, self._starts, self._lateness, self._lost,
            self._refused, self._limited, self._breakers, self._leaders, self._emitted, self._workflows, self._pruned,
            self._store, self._dispatched, self._recalled, self._broker,
        )  # fmt: skip

    def on_event(self, event: Event) -> None:
        # The most frequent event first, compared by type: `match` would cost as much as the counting.
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
                self._on_rare_event(event)

    def _on_rare_event(self, event: Event) -> None:
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
            case LeasesLapsed():
                for lost in event.jobs:
                    self._lost.add((self.types.shown(lost.type),))
            case SettlementsRefused():
                self.refused(event.ids)
            case ScheduleFired():
                self._lateness.add((), event.late_seconds)
            case _:
                self._on_rarest_event(event)

    def _on_rarest_event(self, event: Event) -> None:
        match event:
            case LeaderChanged():
                self._leaders.add(())
            case ClaimLimited():
                self._limited.add(())
            case BreakerChanged():
                self._breakers.add((self.breakers.shown(event.name), event.action))
            case WaitsEnded():
                self._store.add(("end_waits",), event.seconds)
            case EventEmitted():
                self._store.add(("emit",), event.seconds)
                self._emitted.add(("first" if event.emitted.is_new else "repeated",))
            case WorkflowChanged():
                self._workflows.add((event.action,))
            case _:
                pass

    def begun(self, jobs: Sequence[Job]) -> None:
        """Count attempts that start. A repeated claim returns the same jobs; they are counted once."""
        now = self._timer()
        for job in jobs:
            if self._begun.get(job.id, _NEVER)[0] == job.fence:
                continue
            # An attempt that was claimed ahead of its time starts at that time.
            held = (job.run_at - job.updated_at).total_seconds() if job.is_ahead else 0.0
            self._begun[job.id] = (job.fence, now + held)
            self._attempts.add((self.types.shown(job.type),))
            if job.started_at is not None:
                waited = job.started_at - max(job.run_at, job.created_at)
                self._starts.add((self.queues.shown(job.queue),), waited.total_seconds())
        while len(self._begun) > REMEMBERED:
            del self._begun[next(iter(self._begun))]

    def ended(self, job: Job, how: str) -> None:
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
        self._refused.add((), len(ids))
        for job_id in ids:
            self._begun.pop(job_id, None)

    def _settled(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> None:
        for job, settlement in zip(jobs, settlements, strict=True):
            if settlement.source is State.RUNNING:
                self.ended(job, "lost" if settlement.crash else ENDS[settlement.event])
