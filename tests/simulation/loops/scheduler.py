"""The real scheduler on the stage."""

from __future__ import annotations

import asyncio

from rota.scheduler import Scheduler
from simulation.loops.view import SCHEDULER_POINTS, engine_on
from simulation.models.scheduler import SchedulerHabits
from simulation.models.stage import Stage


async def keep_time(stage: Stage, habits: SchedulerHabits) -> None:
    """Run the real scheduler until asked to stop."""
    scheduler = Scheduler(engine_on(stage, SCHEDULER_POINTS), retention=habits.retention, rng=stage.rng.random)
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    stopping = asyncio.create_task(stage.host.stopping.wait(), name="stopping")
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    running.cancel()
