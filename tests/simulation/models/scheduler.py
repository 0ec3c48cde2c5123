"""Model of a scheduler: each tick promotes due jobs, reaps lapsed leases, ends expired jobs, fires, prunes.

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
from simulation.models.environment import Environment

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The configuration of one scheduler."""

    tick_seconds: float
    retention: Retention
    has_schedules: bool
    has_expiries: bool
    prunes_every: int
    has_waits: bool = False


class SchedulerModel:
    """One scheduler process."""

    def __init__(self, environment: Environment, config: SchedulerConfig) -> None:
        self._environment = environment
        self._config = config
        self._ticks = 0
        self._clock = StoreClock(environment.now)

    async def run(self) -> None:
        """Tick until asked to stop."""
        while not self._environment.host.stopping.is_set():
            await asyncio.sleep(self._config.tick_seconds * (0.6 + 0.8 * self._environment.rng.random()))
            try:
                await self.tick()
            except StoreUnavailable:
                continue  # the next tick looks again

    async def tick(self) -> None:
        """Do every duty once."""
        self._ticks += 1
        await self._environment.store.promote(_BATCH)
        if self._config.has_waits:
            await self._environment.store.end_waits(_BATCH)
        await self._reap()
        if self._config.has_schedules:
            await self._fire()
        if self._config.has_expiries and self._ticks % 2:
            await self._expire()
        if self._ticks % self._config.prunes_every == 0:
            await self._environment.store.prune(self._config.retention, _BATCH)

    async def _reap(self) -> None:
        environment = self._environment
        before = await self._read_clock()
        lost = await environment.store.lost(_BATCH)
        now = await self._read_clock()
        if not lost:
            self._clock.note_leases(None, before)
            return
        self._clock.note_leases(lost[0].lease_until, now)
        lost = [job for job in lost if self._clock.has_lapsed(job, now)]
        if not lost:
            return
        await environment.failpoint("scheduler.lost")
        await environment.delay_sometimes()
        await environment.store.settle([self._taken(job) for job in lost])
        await environment.failpoint("scheduler.reaped")

    async def _read_clock(self) -> datetime:
        asked_at = self._environment.now()
        moment = await self._environment.store_time()
        self._clock.note(moment, asked_at)
        return moment

    def _taken(self, job: Job) -> Settlement:
        """Take a job from a worker whose lease has lapsed, unless it renews before this is written."""
        # The end of the lease is the latest moment that the store's clock is known to have passed.
        means = DecisionInputs(
            job.lease_until or job.updated_at, self._environment.rng.random(), self._environment.fresh_id()
        )
        return replace(decide(job, Lost(), means), lapsed_at=job.lease_until)

    async def _expire(self) -> None:
        late = await self._environment.store.expired(_BATCH)
        if late:
            await self._environment.store.settle([self._expired(job) for job in late])

    def _expired(self, job: Job) -> Settlement:
        """End a job that was not started in time; the id of its follow-up is drawn only if there is one."""
        if job.on_failure is None:
            return expire(job)
        return expire(job, DecisionInputs(job.expires_at or job.updated_at, 0.5, self._environment.fresh_id()))

    async def _rearm(self) -> None:
        """Arm schedules again whose next time the store's clock has moved away from."""
        schedules = await self._environment.store.schedules()
        now = await self._environment.store_time()
        late = [one for schedule in schedules if (one := rearmed(schedule, now)) is not None]
        if late:
            await self._environment.store.put_schedules(late)

    async def _fire(self) -> None:
        await self._rearm()
        due = await self._environment.store.due_schedules(_BATCH)
        if not due:
            return
        firings = [await self._plan(schedule) for schedule in due]
        await self._environment.failpoint("scheduler.planned")
        await self._environment.delay_sometimes()
        await self._environment.store.fire(firings)
        await self._environment.failpoint("scheduler.fired")

    async def _plan(self, schedule: Schedule) -> Firing:
        previous = await self._environment.store.get([schedule.last_job_id]) if schedule.last_job_id is not None else []
        is_active = any(job.state not in FINISHED for job in previous)
        now = await self._environment.store_time()
        return plan(schedule, now, previous_is_active=is_active, fresh_id=self._environment.fresh_id)
