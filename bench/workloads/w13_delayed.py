"""W13: a million jobs whose time is far away must not be in the memory of any process."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from bench.drain import drain, engine_on, start_api, start_worker, system_for, until_completed
from bench.fresh_stores import FreshStores
from bench.systems.processes import family, memory_of
from bench.workloads.results import Line, at_most
from bench.workloads.w10_growth import new_job
from journeys.system import System
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.worker.lease_keeper.client import LONGEST_START_DELAY_SECONDS

ROLES: Final = ("api", "scheduler", "worker")
SOON: Final = 1_000


async def flat_memory(fresh_stores: FreshStores, *, jobs: int, seconds: float) -> list[Line]:
    """Compare the memory of each process before and after so many delayed jobs come, while others run."""
    url = await fresh_stores.fresh()
    async with system_for(url) as system, engine_on(url) as engine:
        pids = {
            "api": await start_api(system),
            "scheduler": system.start("scheduler", "--store", url).pid,
            "worker": start_worker(system, "w", "--concurrency", "50"),
        }
        await drain(engine, 5_000, "suspends", ["w"])
        await _live(system, engine, seconds)
        # A lease keeper loads what it needs a while after its worker has started, whatever comes.
        await asyncio.sleep(LONGEST_START_DELAY_SECONDS + 2)
        before = {role: memory_of(family(pid)) for role, pid in pids.items()}
        model = new_job(run_at=datetime.now(UTC) + timedelta(days=30))
        await engine.submit([model])
        await fresh_stores.copy(url, model.id, jobs - 1)
        await _live(system, engine, seconds)
        after = {role: memory_of(family(pid)) for role, pid in pids.items()}
    return [
        Line(
            f"{role}, {jobs:,} delayed",
            f"PSS {after[role].proportional:.1f}, RSS {after[role].resident:.1f} MB",
            f"PSS {before[role].proportional:.1f} MB before",
            after[role].proportional / before[role].proportional,
            at_most(1.1),
        )
        for role in ROLES
    ]


async def _live(system: System, engine: Engine, seconds: float) -> None:
    """Let jobs come due and run, and people look, for a while."""
    before = (await engine.census()).total(State.COMPLETED)
    now = datetime.now(UTC)
    await engine.submit(
        [
            NewJob(engine.fresh_id(), "suspends", '{"args":[],"kwargs":{}}', run_at=now + number / SOON * _s(seconds))
            for number in range(SOON)
        ]
    )
    for _ in range(10):
        for path in ("/v1/stats", "/v1/jobs?limit=100", "/v1/jobs?limit=100&status=scheduled", "/v1/queues"):
            await asyncio.to_thread(system.ask, "GET", path)
        await asyncio.sleep(seconds / 10)
    await until_completed(engine, before + SOON)


def _s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)
