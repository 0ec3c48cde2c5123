"""The engine: all verbs over one store, and `WorkSource` and `Control` in process."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.submission import NewJob
from rota.engine.deps import EngineDeps
from rota.engine.dispatch import Dispatch
from rota.engine.explain import Explain
from rota.engine.ids import IdMaker
from rota.engine.jobs import Jobs
from rota.engine.leases import Leases
from rota.engine.limits import JobLimits
from rota.engine.queues import Queues
from rota.engine.schedules import Schedules
from rota.engine.steps import JobSteps
from rota.engine.store_clock import StoreClock, steady_clock
from rota.engine.upkeep import Upkeep
from rota.ports.broker import Broker
from rota.ports.client import ActionResult, Actor, AttemptReport
from rota.ports.clock import Clock, Rng
from rota.ports.store import Census, Inserted, JobQuery, Store
from rota.telemetry import Telemetry


def wall_clock() -> datetime:
    """Read the clock of this host."""
    return datetime.now(UTC)


class Engine:
    """Implements `WorkSource` and `Control` in process; the families of verbs are its attributes."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        *,
        telemetry: Telemetry | None = None,
        clock: Clock = wall_clock,
        rng: Rng = random.random,
        steady: Callable[[], float] = steady_clock,
        queue_bound: int | None = None,
    ) -> None:
        self.telemetry = telemetry or Telemetry()
        self.clock = clock
        self.store = store
        self.broker = broker
        self.fresh_id = IdMaker(clock, rng)
        self.store_clock = StoreClock(steady)
        deps = EngineDeps(store, broker, self.telemetry, clock, rng, self.fresh_id, self.store_clock, queue_bound)
        self.leases = Leases(deps)
        self.jobs = Jobs(deps)
        self.schedules = Schedules(deps, self.jobs)
        self.queues = Queues(deps)
        self.limits = JobLimits(deps)
        self.steps = JobSteps(deps)
        self.upkeep = Upkeep(deps, self.leases)
        self.dispatch = Dispatch(deps)
        self.explain = Explain(deps)

    # WorkSource

    async def claim(self, wanted: Claim, *, wait: timedelta = timedelta(0), looks_again: bool = False) -> Sequence[Job]:
        return await self.leases.claim(wanted, wait=wait, looks_again=looks_again)

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        return await self.leases.renew(renewals)

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        return await self.leases.settle(reports)

    # Control

    def submit(self, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, Sequence[Inserted]]:
        # Not async: a coroutine that only awaits another one costs each submission a little.
        return self.jobs.submit(jobs)

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self.jobs.get(ids)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await self.jobs.find(query)

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        return await self.jobs.wait(job_id, at_most)

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        return await self.jobs.cancel(ids, by)

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        return await self.jobs.retry(ids, by)

    async def census(self) -> Census:
        return await self.jobs.census()
