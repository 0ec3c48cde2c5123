"""The PostgreSQL store beside bare asyncpg, on a private server in the same run.

Run by `make bench STORE=postgres`. Ceilings: C1, durable commits of one row, one after the other; C2, rows per second
inserted by UNNEST in batches of 500 into a bare table of the same columns. The server syncs every commit.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import count

import asyncpg

from bench.ceilings.postgres import Bare
from bench.ceilings.rows import PAYLOAD
from bench.measure import Sample, describe_machine, percentile, print_table
from rota.core.decision import Means, decide
from rota.core.identity import JobId, compose
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.stores.postgres import PostgresStore
from servers.postgres import PostgresServer, require_binaries

WORKER = WorkerId("bench", "boot")
_numbers = count(1)


def jobs(number: int, **options: object) -> list[NewJob]:
    """Make jobs with ids as the engine makes them: of today, and in order."""
    now = int(time.time() * 1000)
    return [
        NewJob(JobId(compose(now, next(_numbers))), "mail", PAYLOAD, **options)  # type: ignore[arg-type]
        for _ in range(number)
    ]


async def settle(store: PostgresStore, leased: list[Job]) -> None:
    means = Means(datetime.now(UTC))
    await store.settle([decide(job, Succeeded("1"), means) for job in leased])


async def whole_life(store: PostgresStore, number: int, batch: int, workers: int = 1) -> float:
    """Insert, claim under a lease and a fence, decide and settle, in batches."""
    batches = [jobs(batch) for _ in range(number // batch)]
    left = number

    async def work() -> None:
        nonlocal left
        while left > 0:
            leased = list(await store.claim(Claim(WORKER, batch, types=("mail",))))
            await settle(store, leased)
            left -= len(leased)

    begun = time.perf_counter()
    for one in batches:
        await store.insert(one)
    await asyncio.gather(*(work() for _ in range(workers)))
    return number / (time.perf_counter() - begun)


async def single_inserts(store: PostgresStore, clients: int, each: int) -> float:
    """Have many callers each await their own durable submit."""
    made = [jobs(each) for _ in range(clients)]

    async def client(number: int) -> None:
        for job in made[number]:
            await store.insert([job])

    begun = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return clients * each / (time.perf_counter() - begun)


async def bulk_inserts(store: PostgresStore, number: int, batch: int) -> float:
    batches = [jobs(batch) for _ in range(number // batch)]
    begun = time.perf_counter()
    for one in batches:
        await store.insert(one)
    return number / (time.perf_counter() - begun)


async def claim_times(store: PostgresStore, rounds: int, limit: int) -> list[float]:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        leased = list(await store.claim(Claim(WORKER, limit, types=("mail",))))
        times.append((time.perf_counter() - begun) * 1000)
        await settle(store, leased)
    return times


async def throughput(server: PostgresServer, repeats: int) -> None:
    names = ("ones", "rows", "lives", "drains", "pairs", "crowds", "hundreds", "alone", "bulk")
    found: dict[str, list[float]] = {name: [] for name in names}
    bare = Bare(await asyncpg.connect(server.dsn()))
    store = await PostgresStore.open(server.dsn())
    for _ in range(repeats):
        await bare.prepare()
        found["rows"].append(await bare.batched_rows(30_000))
        found["bulk"].append(await bulk_inserts(store, 20_000, 500))
        await empty(server)
        found["lives"].append(await whole_life(store, 10_000, 100))
        found["drains"].append(await whole_life(store, 20_000, 500))
        found["pairs"].append(await whole_life(store, 20_000, 500, workers=2))
        found["crowds"].append(await single_inserts(store, 64, 100))
        found["hundreds"].append(await single_inserts(store, 256, 60))
        await empty(server)
        found["ones"].append(await bare.single_commits(1_000))
        found["alone"].append(await single_inserts(store, 1, 1_000))
        await empty(server)
    await store.close()
    await bare.connection.close()
    samples = {name: Sample(tuple(values)) for name, values in found.items()}
    single, batched = samples["ones"], samples["rows"]
    lines = [
        ("C1 bare single-row commits", single, 1.0, "", ""),
        ("C2 bare rows, batches of 500", batched, 1.0, "", ""),
    ]
    for name, sample, ceiling, label, target in (
        ("bulk inserts, batches of 500", samples["bulk"], batched.median, "C2", ">= 0.6"),
        ("whole life, batches of 100", samples["lives"], batched.median, "C2", ""),
        ("whole life, batches of 500", samples["drains"], batched.median, "C2", ">= 0.30"),
        ("whole life, batches of 500, 2 workers", samples["pairs"], batched.median, "C2", ">= 0.30"),
        ("single inserts, 64 callers", samples["crowds"], batched.median, "C2", ""),
        ("single inserts, 256 callers", samples["hundreds"], batched.median, "C2", ">= 0.5"),
        ("single inserts, 1 caller", samples["alone"], single.median, "C1", ">= 0.75"),
    ):
        lines.append((name, sample, sample.median / ceiling, label, target))
    print_table(
        "Throughput",
        ("what", "per second", "min-max", "ratio", "target"),
        [
            (name, f"{sample.median:,.0f}", sample.spread, f"{ratio:.2f} x {label}" if label else "", target)
            for name, sample, ratio, label, target in lines
        ],
    )


async def empty(server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.dsn())
    await connection.execute("TRUNCATE job, job_done, claim; CHECKPOINT")
    await connection.close()


async def growth(server: PostgresServer, largest: int) -> None:
    """Time claims on a growing backlog, then with many future and many kept jobs beside it."""
    await empty(server)
    store = await PostgresStore.open(server.dsn())
    stages: list[tuple[str, list[float], list[float]]] = []
    waiting = 0

    async def fill(number: int, **options: object) -> None:
        for _ in range(0, number, 1_000):
            await store.insert(jobs(1_000, **options))

    async def stage(name: str) -> None:
        await claim_times(store, 20, 1)
        stages.append((name, await claim_times(store, 200, 1), await claim_times(store, 100, 50)))

    for size in (10_000, 100_000, 1_000_000):
        if size <= largest:
            await fill(size - waiting)
            waiting = size
            await stage(f"{size:,} waiting")
    await fill(largest, run_at=datetime.now(UTC) + timedelta(days=30), priority=10)
    await stage(f"+ {largest:,} future, higher priority")
    await keep(server, largest)
    await stage(f"+ {largest:,} completed, kept")
    await store.close()
    base = stages[0]
    print_table(
        "Claim latency, with its commit (p50 / p99 in ms, and each as a ratio to the first line)",
        ("backlog", "batch 1", "p50", "p99", "batch 50", "p50", "p99"),
        [
            (
                name,
                f"{percentile(one, 0.5):.2f} / {percentile(one, 0.99):.2f}",
                f"{percentile(one, 0.5) / percentile(base[1], 0.5):.2f}",
                f"{percentile(one, 0.99) / percentile(base[1], 0.99):.2f}",
                f"{percentile(fifty, 0.5):.2f} / {percentile(fifty, 0.99):.2f}",
                f"{percentile(fifty, 0.5) / percentile(base[2], 0.5):.2f}",
                f"{percentile(fifty, 0.99) / percentile(base[2], 0.99):.2f}",
            )
            for name, one, fifty in stages
        ],
    )


async def keep(server: PostgresServer, number: int) -> None:
    """Put finished jobs into a database as they would be left by running them."""
    connection = await asyncpg.connect(server.dsn())
    await connection.execute(
        "INSERT INTO job_done (id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts,"
        " delivery, payload, fence, attempts, started_at, finished_at, result, worker, boot)"
        " SELECT value, 'mail', 'default', 5, 'completed', value, value, value, value, 3, 'at_least_once', $2, 1, 1,"
        " value, value, '1', 'bench', 'boot' FROM generate_series(1, $1::bigint) AS value",
        number,
        PAYLOAD,
        timeout=600,
    )
    # As after a day, and not in the minute in which a million rows are written to the disk.
    await connection.execute("VACUUM ANALYZE job_done", timeout=600)
    await connection.execute("CHECKPOINT", timeout=600)
    await connection.close()


async def held(server: PostgresServer, seconds: float, workers: int = 4, batch: int = 50) -> None:
    """Run jobs while somebody else keeps a transaction open: nothing that dies meanwhile can be cleared away."""
    await empty(server)
    store = await PostgresStore.open(server.dsn())
    for _ in range(5):
        await store.insert(jobs(1_000))
    other = await asyncpg.connect(server.dsn())
    await other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await other.fetchval("SELECT count(*) FROM job")
    claims: list[tuple[float, float, int]] = []
    begun = time.perf_counter()

    async def work() -> None:
        while time.perf_counter() < begun + seconds:
            started = time.perf_counter()
            leased = list(await store.claim(Claim(WORKER, batch, types=("mail",))))
            ended = time.perf_counter()
            claims.append((started - begun, (ended - started) * 1000, len(leased)))
            await settle(store, leased)
            await store.insert(jobs(len(leased)))

    await asyncio.gather(*(work() for _ in range(workers)))
    await other.execute("ROLLBACK")
    await other.close()
    await store.close()
    buckets = 6
    width = seconds / buckets
    table = []
    for number in range(buckets):
        inside = [(took, count_) for at, took, count_ in claims if number * width <= at < (number + 1) * width]
        times = [took for took, _ in inside]
        table.append(
            (
                f"{number * width:.0f}-{(number + 1) * width:.0f} s",
                f"{sum(count_ for _, count_ in inside) / width:,.0f}",
                f"{percentile(times, 0.5):.2f} / {percentile(times, 0.99):.2f}",
            )
        )
    print_table(
        f"A transaction held open for {seconds:.0f} s, {workers} workers, batches of {batch}",
        ("when", "jobs/s", "claim p50 / p99 ms"),
        table,
    )


async def measure(server: PostgresServer, options: argparse.Namespace) -> None:
    connection = await asyncpg.connect(server.dsn())
    print(f"{describe_machine()}; {await connection.fetchval('SHOW server_version')} of PostgreSQL, syncing")
    await connection.close()
    await (await PostgresStore.open(server.dsn())).close()
    if "throughput" in options.parts:
        await throughput(server, options.repeats)
    if "growth" in options.parts:
        await growth(server, options.largest)
    if "held" in options.parts:
        await held(server, options.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["throughput", "growth", "held"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--largest", type=int, default=1_000_000, help="jobs waiting, future and kept at the most")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long a transaction is held open")
    options = parser.parse_args()
    server = PostgresServer(require_binaries(), {"shared_buffers": "512MB", "max_wal_size": "4GB"})
    try:
        asyncio.run(measure(server, options))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
