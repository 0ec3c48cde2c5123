"""The real scheduler in the simulation."""

from __future__ import annotations

import asyncio

from rota.scheduler import Scheduler
from simulation.loops.store_view import SCHEDULER_POINTS, engine_on
from simulation.models.environment import Environment
from simulation.models.scheduler import SchedulerConfig


async def run_scheduler(environment: Environment, config: SchedulerConfig) -> None:
    """Run the real scheduler until asked to stop."""
    scheduler = Scheduler(
        engine_on(environment, SCHEDULER_POINTS), retention=config.retention, rng=environment.rng.random
    )
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    stopping = asyncio.create_task(environment.host.stopping.wait(), name="stopping")
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    running.cancel()
