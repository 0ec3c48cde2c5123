"""A scheduler in small: each tick promotes what is due, takes back what was lost, ends what expired, fires, prunes.

Several run at once, none of them leads, and each acts on what it read a moment ago: by the time it writes, another one
may have done the same. The store's compare-and-set is all that keeps them apart, so that is what is tested.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from rota.core.decision import DecisionInputs, decide, expire
from rota.core.errors import StoreUnavailable
from rota.core.job import Job
from rota.core.lifecycle import FINISHED
from rota.core.outcome import Lost
from rota.core.schedule import Firing, Schedule, plan
from rota.core.settlement import Settlement
from rota.engine.schedules import rearmed
from rota.engine.store_clock import StoreClock
from rota.ports.store import Retention
from simulation.models.stage import Stage

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class SchedulerHabits:
    """What one scheduler is like."""

    tick_seconds: float
    retention: Retention
    has_schedules: bool
    has_expiries: bool
    prunes_every: int
    has_waits: bool = False


class SchedulerModel:
    """One scheduler process."""

    def __init__(self, stage: Stage, habits: SchedulerHabits) -> None:
        self._stage = stage
        self._habits = habits
        self._ticks = 0
        self._clock = StoreClock(stage.now)

    async def run(self) -> None:
        """Tick until asked to stop."""
        while not self._stage.host.stopping.is_set():
            await asyncio.sleep(self._habits.tick_seconds * (0.6 + 0.8 * self._stage.rng.random()))
            try:
                await self.tick()
            except StoreUnavailable:
                continue  # the next tick looks again

    async def tick(self) -> None:
        """Do every duty once."""
        self._ticks += 1
        await self._stage.store.promote(_BATCH)
        if self._habits.has_waits:
            await self._stage.store.end_waits(_BATCH)
        await self._reap()
        if self._habits.has_schedules:
            await self._fire()
        if self._habits.has_expiries and self._ticks % 2:
            await self._expire()
        if self._ticks % self._habits.prunes_every == 0:
            await self._stage.store.prune(self._habits.retention, _BATCH)

    async def _reap(self) -> None:
        stage = self._stage
        before = await self._read_clock()
        lost = await stage.store.lost(_BATCH)
        now = await self._read_clock()
        if not lost:
            self._clock.note_leases(None, before)
            return
        self._clock.note_leases(lost[0].lease_until, now)
        lost = [job for job in lost if self._clock.has_lapsed(job, now)]
        if not lost:
            return
        await stage.reach("scheduler.lost")
        await stage.dawdle()
        await stage.store.settle([self._taken(job) for job in lost])
        await stage.reach("scheduler.reaped")

    async def _read_clock(self) -> datetime:
        asked_at = self._stage.now()
        moment = await self._stage.store_time()
        self._clock.note(moment, asked_at)
        return moment

    def _taken(self, job: Job) -> Settlement:
        """Take a job from a worker that went silent, unless it is heard of before our word is."""
        # The lease's end is the latest moment that the store is known to have passed.
        means = DecisionInputs(job.lease_until or job.updated_at, self._stage.rng.random(), self._stage.fresh_id())
        return replace(decide(job, Lost(), means), lapsed_at=job.lease_until)

    async def _expire(self) -> None:
        late = await self._stage.store.expired(_BATCH)
        if late:
            await self._stage.store.settle([self._expired(job) for job in late])

    def _expired(self, job: Job) -> Settlement:
        """End a job that was not started in time; the id of its follow-up is drawn only if there is one."""
        if job.on_failure is None:
            return expire(job)
        return expire(job, DecisionInputs(job.expires_at or job.updated_at, 0.5, self._stage.fresh_id()))

    async def _rearm(self) -> None:
        """Arm schedules again that wait for a moment which the store's clock has moved away from."""
        schedules = await self._stage.store.schedules()
        now = await self._stage.store_time()
        late = [one for schedule in schedules if (one := rearmed(schedule, now)) is not None]
        if late:
            await self._stage.store.put_schedules(late)

    async def _fire(self) -> None:
        await self._rearm()
        due = await self._stage.store.due_schedules(_BATCH)
        if not due:
            return
        firings = [await self._plan(schedule) for schedule in due]
        await self._stage.reach("scheduler.planned")
        await self._stage.dawdle()
        await self._stage.store.fire(firings)
        await self._stage.reach("scheduler.fired")

    async def _plan(self, schedule: Schedule) -> Firing:
        previous = await self._stage.store.get([schedule.last_job_id]) if schedule.last_job_id is not None else []
        is_active = any(job.state not in FINISHED for job in previous)
        now = await self._stage.store_time()
        return plan(schedule, now, previous_is_active=is_active, fresh_id=self._stage.fresh_id)
