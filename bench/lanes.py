"""Drain a backlog with a worker that serves 1, 20 and 100 lanes, by turns, and print rate and CPU time of a job.

    python -m bench.lanes sqlite:///lanes.db --jobs 20000 --rounds 3

A lane is a queue and a type. The jobs of a round are spread evenly over its types, in turn. CPU time is that of the
worker and, if `--server-pid` names it, of the database server with its children: other programs on the machine disturb
it less than the rate. The store must hold nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import statistics
import time
from typing import Final

from bench.drain import BY, PAYLOAD, ROOT, engine_on, system_for, until_completed, until_done, until_workers
from bench.systems.processes import exact_cpu_seconds, family
from journeys.system import System
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine

LANES: Final = (1, 20, 100)
_PATIENCE_SECONDS: Final = 300.0


async def _submit(engine: Engine, number: int, lanes: int) -> None:
    for start in range(0, number, 1000):
        numbers = range(start, min(start + 1000, number))
        await engine.submit([NewJob(engine.fresh_id(), f"lane-{one % lanes}", PAYLOAD) for one in numbers])


async def round_of(
    engine: Engine, system: System, lanes: int, jobs: int, server_pid: int | None
) -> tuple[float, float]:
    """Have a worker of so many lanes drain a backlog, and give jobs per second and CPU microseconds a job."""
    where = ("worker", "--store", system.store, "--worker-id", f"lanes-{lanes}", "--app", "bench.lane_tasks:app")
    process = system.start(
        *where, "--concurrency", "100", cwd=ROOT, environment={"ROTA_BENCH_LANES": str(lanes), "PYTHONPATH": "tests:."}
    )
    await until_workers(engine, 1)
    before = (await engine.census()).total(State.COMPLETED) + 2 * lanes
    await _submit(engine, 2 * lanes, lanes)
    await until_completed(engine, before)
    await engine.queues.pause("default", "bench", BY)
    await _submit(engine, jobs, lanes)
    pids = [*family(process.pid), *([] if server_pid is None else family(server_pid))]
    spent, begun = exact_cpu_seconds(pids), time.perf_counter()
    await engine.queues.resume("default", BY)
    await until_done(engine)
    rate = jobs / (time.perf_counter() - begun)
    spent = exact_cpu_seconds(pids) - spent
    process.terminate()
    await asyncio.to_thread(process.wait)
    return rate, spent / jobs * 1e6


async def measure(url: str, *, jobs: int, rounds: int, server_pid: int | None = None) -> None:
    """Measure by turns and print."""
    seen: dict[int, list[tuple[float, float]]] = {lanes: [] for lanes in LANES}
    async with engine_on(url) as engine, system_for(url) as system:
        for _ in range(rounds):
            for lanes in LANES:
                seen[lanes].append(await round_of(engine, system, lanes, jobs, server_pid))
    print(f"{'lanes':>6} {'jobs/s':>10} {'of 1':>6} {'us CPU/job':>11} {'of 1':>6}   load {os.getloadavg()[0]:.1f}")
    rates = {lanes: statistics.median(rate for rate, _ in readings) for lanes, readings in seen.items()}
    costs = {lanes: statistics.median(cost for _, cost in readings) for lanes, readings in seen.items()}
    for lanes in LANES:
        # A drain of a few jobs may end before the kernel has counted any of its time.
        share, times = rates[lanes] / rates[1], costs[lanes] / costs[1] if costs[1] else math.nan
        print(f"{lanes:6} {rates[lanes]:10,.0f} {share:6.2f} {costs[lanes]:11.1f} {times:6.2f}")


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="its address: sqlite:///…, postgresql://…, mysql://…")
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs in each drain")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--server-pid", type=int, help="the process of the database server")
    options = parser.parse_args()
    asyncio.run(measure(options.store, jobs=options.jobs, rounds=options.rounds, server_pid=options.server_pid))


if __name__ == "__main__":
    main()
