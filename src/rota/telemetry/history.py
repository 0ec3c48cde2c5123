"""History counts: the listener that counts jobs by lane, for the buckets of the history in the store.

Written and read on one event loop without a lock, as the metrics are, because every job passes here. What is counted:
jobs submitted and fired through an engine of this process, claims and settlements it served (also those of workers over
HTTP). Jobs inserted in a transaction of the caller are not counted as submitted: they may still be rolled back.

The duration of an attempt is measured by the monotonic clock if this process saw its claim and its outcome; else it is
the host's time less the store's time of the claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from rota.core import lifecycle
from rota.core.history import MOST_LANES, OTHER, Tally
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.queue import Lane
from rota.core.settlement import Settlement
from rota.core.submission import NewJob
from rota.telemetry.events import Event, JobsClaimed, JobsSettled, JobsSubmitted, ScheduleFired, SettlementsRefused

#: How many running attempts to remember.
REMEMBERED: Final = 50_000
_NEVER: Final = (-1, 0.0)
#: The counters of an attempt that ended, by its event.
_ENDS: Final = {
    lifecycle.Event.SUCCEED: "succeeded",
    lifecycle.Event.FAIL: "failed",
    lifecycle.Event.EXHAUST: "failed",
    lifecycle.Event.LAPSE: "lost",
}


def _host_clock() -> datetime:
    return datetime.now(UTC)


class HistoryCounts:
    """Counts the jobs of this process by lane until `take` returns the counts and begins anew."""

    def __init__(
        self, *, timer: Callable[[], float] = time.monotonic, clock: Callable[[], datetime] = _host_clock
    ) -> None:
        self._timer = timer
        self._clock = clock
        self._lanes: dict[Lane, Tally] = {}
        #: For each running attempt its fence, and when it began by the monotonic clock.
        self._begun: dict[JobId, tuple[int, float]] = {}

    def take(self) -> Mapping[Lane, Tally]:
        """Return what was counted since the last call; empty if nothing was."""
        taken, self._lanes = self._lanes, {}
        return taken

    def on_event(self, event: Event) -> None:
        match event:
            case JobsSubmitted():
                self._submitted(event.jobs)
            case JobsClaimed():
                self._claimed(event.jobs)
            case JobsSettled():
                self._settled(event.jobs, event.settlements)
            case ScheduleFired():
                self._fired(event)
            case SettlementsRefused():
                for job_id in event.ids:
                    self._begun.pop(job_id, None)
            case _:
                pass

    def _tally(self, queue: str, type_: str) -> Tally:
        lane = Lane(queue, type_)
        tally = self._lanes.get(lane)
        if tally is None:
            if len(self._lanes) >= MOST_LANES:
                lane = OTHER
            tally = self._lanes.setdefault(lane, Tally())
        return tally

    def _submitted(self, jobs: Sequence[NewJob]) -> None:
        for job in jobs:
            self._tally(job.queue, job.type).counts["submitted"] += 1

    def _fired(self, event: ScheduleFired) -> None:
        template, made = event.schedule.template, set(event.jobs)
        self._submitted([job for job in event.firing.jobs if job.id in made])
        self._tally(template.queue, template.type).measure("lateness", event.late_seconds)

    def _claimed(self, jobs: Sequence[Job]) -> None:
        """Count attempts that start. A repeated claim returns the same jobs; they are counted once."""
        now = self._timer()
        for job in jobs:
            if self._begun.get(job.id, _NEVER)[0] == job.fence:
                continue
            # An attempt that was claimed ahead of its time starts at that time.
            held = (job.run_at - job.updated_at).total_seconds() if job.is_ahead else 0.0
            self._begun[job.id] = (job.fence, now + held)
            tally = self._tally(job.queue, job.type)
            tally.counts["started"] += 1
            if job.started_at is not None:
                tally.measure("wait", (job.started_at - max(job.run_at, job.created_at)).total_seconds())
        while len(self._begun) > REMEMBERED:
            del self._begun[next(iter(self._begun))]

    def _settled(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> None:
        for job, settlement in zip(jobs, settlements, strict=True):
            if settlement.follow_up is not None:
                self._submitted([settlement.follow_up])
            if settlement.events:
                self._submitted(settlement.events)
            if settlement.source is State.RUNNING:
                self._ended(job, settlement)

    def _ended(self, job: Job, settlement: Settlement) -> None:
        fence, begun = self._begun.pop(job.id, _NEVER)
        outcome = "lost" if settlement.crash else _ENDS.get(settlement.event)
        if outcome is None:
            return
        tally = self._tally(job.queue, job.type)
        tally.counts[outcome] += 1
        if settlement.target is State.DEAD:
            tally.counts["dead"] += 1
        if outcome == "lost":
            return
        if fence == job.fence:
            tally.measure("duration", self._timer() - begun)
        elif job.started_at is not None:
            tally.measure("duration", (self._clock() - job.started_at).total_seconds())
