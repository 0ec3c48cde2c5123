"""The real worker on the stage: started, told to stop, and at times hurried."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.ports.client import AttemptReport, InputSource, StepKeeper, WorkSource
from rota.worker import Worker, WorkerOptions
from rota.worker.fetcher import StoreTime
from simulation.loops.scripted import handlers_for
from simulation.models.behaviour import TYPES
from simulation.models.stage import Stage
from simulation.models.worker import WorkerHabits


class PointedSource:
    """A source of work with failpoints where its answers come in."""

    def __init__(self, stage: Stage, source: WorkSource) -> None:
        self._stage = stage
        self._source = source

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        """Lease jobs."""
        jobs = await self._source.claim(claim, wait=wait)
        if jobs:
            await self._stage.reach("worker.claimed")
        return jobs

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Keep leases."""
        return await self._source.renew(renewals)

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        """Report outcomes."""
        settled = await self._source.settle(reports)
        await self._stage.reach("worker.settled")
        return settled


async def work(
    stage: Stage,
    habits: WorkerHabits,
    source: WorkSource,
    *,
    steps: StepKeeper,
    inputs: InputSource,
    store_time: StoreTime | None = None,
) -> None:
    """Run the real worker until it is asked to stop, and see it end."""
    host, rng = stage.host, stage.rng.random
    options = WorkerOptions(
        name=host.name,
        boot=host.boot,
        queues=habits.queues,
        concurrency=habits.slots,
        lease=habits.lease,
        beat=habits.lease / 3,
        drain_timeout=habits.drain,
        stop_grace=timedelta(seconds=0.5 + 2 * rng()),
        own_loop=False,
        host="simulated",
    )
    handlers = handlers_for(stage, habits.types or TYPES)
    clock = asyncio.get_running_loop().time
    worker = Worker(
        PointedSource(stage, source),
        handlers,
        options,
        steps=steps,
        inputs=inputs,
        store_time=store_time,
        rng=rng,
        clock=clock,
    )
    running = asyncio.create_task(worker.run(), name="worker")
    stopping = asyncio.create_task(host.stopping.wait(), name="stopping")
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    worker.stop()
    if rng() < 1 / 4:
        # Whoever asked loses patience and asks again.
        await asyncio.wait({running}, timeout=rng() * habits.drain.total_seconds())
        worker.stop()
    await running
