"""Upkeep verbs: promote due jobs, end waits, expire late jobs, reap lapsed leases, prune finished jobs.

Any number of processes may run them at the same time: the store applies each change once. The scheduler's loops call
them; `timetable` says when the next of them is needed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rota.core.cluster import Role
from rota.core.decision import decide, expire
from rota.core.job import Job
from rota.core.outcome import Lost
from rota.engine.deps import EngineDeps
from rota.engine.leases import Leases
from rota.ports.store import Retention, Timetable
from rota.telemetry.events import JobsPromoted, JobsPruned, LeasesLapsed, WaitsEnded


class Upkeep:
    """Promote, end waits, expire, reap, prune."""

    def __init__(self, deps: EngineDeps, leases: Leases) -> None:
        self._deps = deps
        self._leases = leases
        #: Leases that the last `reap` left alone: lapsed by the store's clock, not by the steady clock.
        self._held = 0

    async def promote(self, limit: int) -> int:
        """Make jobs whose time has come pending, and wake their workers."""
        begun = time.perf_counter()
        queues = await self._deps.store.promote(limit)
        if queues:
            self._deps.telemetry.emit(JobsPromoted(queues, time.perf_counter() - begun))
            await self._deps.broker.announce(queues)
        return sum(queues.values())

    async def end_waits(self, limit: int) -> int:
        """End waits for events that are due, and wake the workers of their jobs."""
        begun = time.perf_counter()
        queues = await self._deps.store.end_waits(limit)
        if queues:
            self._deps.telemetry.emit(WaitsEnded(queues, time.perf_counter() - begun))
            await self._deps.broker.announce(queues)
        return sum(queues.values())

    async def expire(self, limit: int) -> int:
        """Cancel waiting jobs that were not started by their `expires_at`."""
        jobs = await self._deps.store.expired(limit)
        if jobs:
            now = await self._deps.store.time()
            await self._leases.write_back(jobs, [expire(job, self._leases.inputs_for(job, now)) for job in jobs])
        return len(jobs)

    async def reap(self, limit: int) -> int:
        """Take jobs from workers that did not renew, once their leases have lapsed by our steady clock as well."""
        # Held leases lapsed first by the store's clock, so they come first in its answer: the limit is raised by their
        # number.
        lost = await self._deps.store.lost(limit + self._held)
        if not lost:
            self._held = 0
            return 0
        asked_at = self._deps.store_clock.steady()
        now = await self._deps.store.time()
        # Read after the leases: if the store's clock was set ahead before they were read, it shows here.
        self._deps.store_clock.note(now, asked_at)
        jobs = await self._lapsed(lost, now)
        self._held = len(lost) - len(jobs)
        # The worker may renew between our read and our write; `lapsed_at` makes the store refuse the settlement then.
        settlements = [
            replace(decide(job, Lost(), self._leases.inputs_for(job, now)), lapsed_at=job.lease_until) for job in jobs
        ]
        applied = await self._leases.write_back(jobs, settlements)
        taken = [job for job in jobs if job.id in applied]
        if taken:
            self._deps.telemetry.emit(LeasesLapsed(taken))
        return len(jobs)

    async def _lapsed(self, jobs: Sequence[Job], now: datetime) -> Sequence[Job]:
        """Leave out jobs whose leases have not lapsed by our steady clock."""
        clock = self._deps.store_clock
        # The store gives the longest lapsed first.
        clock.note_leases(jobs[0].lease_until, now)
        if clock.earlier_starts is None:
            schedulers = await self._deps.store.members(role=Role.SCHEDULER)
            clock.earlier_starts = [one.started_at for one in schedulers if one.started_at is not None]
        return [job for job in jobs if clock.has_lapsed(job, now)]

    async def prune(self, retention: Retention, limit: int) -> int:
        """Delete finished jobs past their retention, at most `limit` of them."""
        begun = time.perf_counter()
        count = await self._deps.store.prune(retention, limit)
        if count:
            self._deps.telemetry.emit(JobsPruned(count, time.perf_counter() - begun))
        return count

    async def timetable(self) -> Timetable:
        """Read when each kind of upkeep is needed next, and pass it to the look-ahead of this process."""
        clock = self._deps.store_clock
        asked_at = clock.steady()
        timetable = await self._deps.store.timetable()
        clock.note(timetable.now, asked_at)
        clock.note_leases(timetable.lease, timetable.now)
        self._leases.lookahead.observe(timetable)
        return timetable
