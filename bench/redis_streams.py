"""Redis Streams beside the store as its own broker: real processes on one private PostgreSQL, in the same run.

Run as `PYTHONPATH=tests:. python -m bench.redis_streams`. Drain: jobs wait in a paused queue; the time counts from the
moment at which it is resumed until all have ended. Start: jobs come one by one to idle workers; the time counts from
the commit of the submission until the lease, by the store's clock. The server syncs every commit.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from bench.ceilings.rows import PAYLOAD
from bench.measure import Sample, describe_machine, percentile, print_table
from journeys.system import open_system
from rota.core.cluster import Role
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import JobQuery
from rota.runtime import connect
from servers.postgres import PostgresServer, new_database, require_binaries
from servers.valkey import ValkeyServer, require_binary

BY = Actor("bench")
TRICKLE, EVERY_SECONDS = 100, 0.05


async def until_done(engine: Engine, number: int) -> None:
    # What other processes do has no event to wait for.
    while (await engine.census()).total(State.COMPLETED) < number:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def submit(engine: Engine, number: int) -> None:
    for start in range(0, number, 1000):
        some = min(1000, number - start)
        await engine.submit([NewJob(engine.fresh_id(), "echo", PAYLOAD) for _ in range(some)])


async def measure(dsn: str, told: dict[str, str], *, workers: int, jobs: int) -> tuple[float, list[float]]:
    """Return jobs per second, and how long each of some single ones took to start."""
    link = await connect(dsn)
    engine = link.engine
    assert engine is not None
    with tempfile.TemporaryDirectory() as folder, open_system(Path(folder), dsn) as system:
        system.variables = told
        await engine.queues.pause("default", "bench", BY)
        await submit(engine, jobs)
        system.start("scheduler", "--store", dsn)
        for number in range(workers):
            system.start("worker", "--store", dsn, "--worker-id", f"w{number}", "--concurrency", "50")
        while len(await engine.store.members(role=Role.WORKER)) < workers:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)
        await asyncio.sleep(3)
        begun = time.perf_counter()
        await engine.queues.resume("default", BY)
        await until_done(engine, jobs)
        rate = jobs / (time.perf_counter() - begun)
        await asyncio.sleep(1)
        for _ in range(TRICKLE):
            await submit(engine, 1)
            await asyncio.sleep(EVERY_SECONDS)
        await until_done(engine, jobs + TRICKLE)
        last = await engine.find(JobQuery(limit=TRICKLE))
    await link.close()
    return rate, [(job.started_at - job.created_at).total_seconds() for job in last if job.started_at is not None]


async def main(options: argparse.Namespace) -> None:
    store = PostgresServer(require_binaries(), {})
    server = ValkeyServer(require_binary())
    try:
        print(describe_machine("PostgreSQL, durable; Valkey, nothing on the disk"))
        rows = []
        for workers in options.workers:
            for name, answer in (("the store", {}), ("Redis Streams", {"REDIS_URL": server.url})):
                rates, starts = [], []
                for number in range(options.rounds):
                    async with new_database(store) as dsn:
                        fresh = {**answer, "REDIS_STREAM_NAME": f"bench-{workers}-{number}"}
                        rate, took = await measure(dsn, fresh, workers=workers, jobs=options.jobs)
                    rates.append(rate)
                    starts += took
                sample = Sample(tuple(rates))
                milliseconds = [f"{percentile(starts, share) * 1000:.1f}" for share in (0.5, 0.99)]
                rows.append((str(workers), name, f"{sample.median:,.0f}", sample.spread, *milliseconds))
        print_table(
            f"{options.jobs:,} jobs, 50 slots a worker, medians of {options.rounds}",
            ("workers", "broker", "jobs/s", "spread", "start p50 ms", "p99 ms"),
            rows,
        )
    finally:
        server.remove()
        store.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4])
    asyncio.run(main(parser.parse_args()))
