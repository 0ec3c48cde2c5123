"""The real worker in the simulation: started, told to stop, and sometimes told so twice."""

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
from simulation.loops.script_handlers import handlers_for
from simulation.models.environment import Environment
from simulation.models.scripts import TYPES
from simulation.models.worker import WorkerConfig


class PointedSource:
    """A source of work with failpoints where its answers come in."""

    def __init__(self, environment: Environment, source: WorkSource) -> None:
        self._environment = environment
        self._source = source

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        """Lease jobs."""
        jobs = await self._source.claim(claim, wait=wait)
        if jobs:
            await self._environment.failpoint("worker.claimed")
        return jobs

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Keep leases."""
        return await self._source.renew(renewals)

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        """Report outcomes."""
        settled = await self._source.settle(reports)
        await self._environment.failpoint("worker.settled")
        return settled


async def work(
    environment: Environment,
    config: WorkerConfig,
    source: WorkSource,
    *,
    steps: StepKeeper,
    inputs: InputSource,
    store_time: StoreTime | None = None,
) -> None:
    """Run the real worker until it is asked to stop, and see it end."""
    host, rng = environment.host, environment.rng.random
    options = WorkerOptions(
        name=host.name,
        boot=host.boot,
        queues=config.queues,
        concurrency=config.slots,
        lease=config.lease,
        beat=config.lease / 3,
        drain_timeout=config.drain,
        stop_grace=timedelta(seconds=0.5 + 2 * rng()),
        own_loop=False,
        host="simulated",
    )
    handlers = handlers_for(environment, config.types or TYPES)
    clock = asyncio.get_running_loop().time
    worker = Worker(
        PointedSource(environment, source),
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
        # A second signal.
        await asyncio.wait({running}, timeout=rng() * config.drain.total_seconds())
        worker.stop()
    await running
