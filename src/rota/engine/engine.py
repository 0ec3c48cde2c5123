"""The engine: all verbs, put together on one store."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.submission import NewJob
from rota.engine.dispatching import Dispatching
from rota.engine.explain import Explain
from rota.engine.ids import IdMaker
from rota.engine.jobs import Jobs
from rota.engine.parts import Parts
from rota.engine.queues import Queues
from rota.engine.schedules import Schedules
from rota.engine.steps import Steps
from rota.engine.store_clock import StoreClock, steady_clock
from rota.engine.upkeep import Upkeep
from rota.engine.work import Work
from rota.ports.broker import Broker
from rota.ports.clock import Clock, Dice
from rota.ports.faces import Actor, Answer, Report
from rota.ports.store import Census, Inserted, JobQuery, Store
from rota.telemetry import Telemetry


def wall_clock() -> datetime:
    """Tell the time of this host."""
    return datetime.now(UTC)


class Engine:
    """Shows both faces, `WorkSource` and `Control`, in process; the families of verbs stand behind it by name."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        *,
        telemetry: Telemetry | None = None,
        clock: Clock = wall_clock,
        dice: Dice = random.random,
        steady: Callable[[], float] = steady_clock,
        queue_bound: int | None = None,
    ) -> None:
        self.telemetry = telemetry or Telemetry()
        self.clock = clock
        self.store = store
        self.broker = broker
        self.fresh_id = IdMaker(clock, dice)
        self.store_clock = StoreClock(steady)
        parts = Parts(store, broker, self.telemetry, clock, dice, self.fresh_id, self.store_clock, queue_bound)
        self.work = Work(parts)
        self.jobs = Jobs(parts, self.work)
        self.schedules = Schedules(parts, self.jobs)
        self.queues = Queues(parts)
        self.steps = Steps(parts)
        self.upkeep = Upkeep(parts, self.work.foresight.hear)
        self.dispatching = Dispatching(parts)
        self.explain = Explain(parts)

    # WorkSource

    async def claim(self, wanted: Claim, *, wait: timedelta = timedelta(0), looks_again: bool = False) -> Sequence[Job]:
        """Lease jobs; when there are none, wait for some."""
        return await self.work.claim(wanted, wait=wait, looks_again=looks_again)

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Keep leases."""
        return await self.work.renew(renewals)

    async def settle(self, reports: Sequence[Report]) -> Sequence[JobId]:
        """Write down what attempts yielded."""
        return await self.work.settle(reports)

    # Control

    def submit(self, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, Sequence[Inserted]]:
        """Store jobs."""
        # Not async: to await only to hand on costs each submission a little.
        return self.jobs.submit(jobs)

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Look at jobs."""
        return await self.jobs.get(ids)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Look for jobs."""
        return await self.jobs.find(query)

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        """Wait until a job has ended."""
        return await self.jobs.wait(job_id, at_most)

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Cancel jobs."""
        return await self.jobs.cancel(ids, by)

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Run jobs again."""
        return await self.jobs.retry(ids, by)

    async def census(self) -> Census:
        """Count the jobs."""
        return await self.jobs.census()
