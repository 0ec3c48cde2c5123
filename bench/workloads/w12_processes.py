"""W12: handlers that compute, in as many processes as there are cores, beside the bare loop on all cores."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time

from bench.drain import drain, engine_on, start_worker, system_for
from bench.fresh_stores import FreshStores
from bench.measure import Sample
from bench.tasks import TURNS, burn
from bench.workloads.results import Line, rate


async def busy_handlers(fresh_stores: FreshStores, *, jobs: int, rounds: int) -> list[Line]:
    """Run the same loop bare and as jobs, in turn."""
    cores = os.cpu_count() or 1
    bare, ours = [], []
    url = await fresh_stores.fresh()
    async with system_for(url) as system, engine_on(url) as engine:
        start_worker(system, "w", "--concurrency", str(cores))
        for _ in range(rounds):
            bare.append(await asyncio.to_thread(_bare_loop, jobs, cores))
            ours.append(await drain(engine, jobs, "burns", ["w"]))
    floor, found = Sample(tuple(bare)), Sample(tuple(ours))
    milliseconds = cores / floor.median * 1000
    return [
        Line(f"a bare loop of {milliseconds:.1f} ms on {cores} cores", rate(floor)),
        Line(f"the same as jobs in {cores} processes", rate(found), "the bare loop", found.median / floor.median),
    ]


def _bare_loop(jobs: int, cores: int) -> float:
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        pool.map(burn, [1] * cores)
        begun = time.perf_counter()
        pool.map(burn, [TURNS] * jobs, chunksize=1)
        return jobs / (time.perf_counter() - begun)
