"""W11: handlers that are plain functions, on threads; those that do nothing, and those that block."""

from __future__ import annotations

from typing import Final

from bench.drain import drain, engine_on, start_worker, system_for
from bench.fresh_stores import FreshStores
from bench.measure import Sample
from bench.tasks import BLOCK_SECONDS
from bench.workloads.results import Line, rate

SLOTS: Final = 50


async def sync_handlers(fresh_stores: FreshStores, *, jobs: int, rounds: int) -> list[Line]:
    """Run them beside async handlers that do nothing, and beside as many as could block in so many slots."""
    rates: dict[str, list[float]] = {"suspends": [], "returns": [], "blocks": []}
    url = await fresh_stores.fresh()
    async with system_for(url) as system, engine_on(url) as engine:
        start_worker(system, "w", "--concurrency", str(SLOTS))
        for _ in range(rounds):
            for job_type, found in rates.items():
                found.append(await drain(engine, jobs, job_type, ["w"]))
    samples = {name: Sample(tuple(found)) for name, found in rates.items()}
    plain, most = samples["suspends"].median, SLOTS / BLOCK_SECONDS
    return [
        Line("async, does nothing", rate(samples["suspends"])),
        Line("sync, does nothing", rate(samples["returns"]), "async", samples["returns"].median / plain),
        Line(
            f"sync, blocks for {BLOCK_SECONDS * 1000:.0f} ms, {SLOTS} slots",
            rate(samples["blocks"]),
            f"the less of {most:,.0f}/s and async",
            samples["blocks"].median / min(most, plain),
        ),
    ]
