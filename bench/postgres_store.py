"""The PostgreSQL store beside bare asyncpg, on a private server in the same run.

Run by `make bench STORE=postgres`. Ceilings: C1, durable commits of one row, one after the other; C2, rows per second
inserted by UNNEST in batches of 500 into a bare table of the same columns. The server syncs every commit.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from itertools import count

import asyncpg

from bench.ceilings.postgres import Bare
from bench.ceilings.rows import PAYLOAD
from bench.fresh_stores import PostgresStores
from bench.measure import TURN, Sample, by_turns, describe_machine, print_table
from bench.workloads.results import show
from bench.workloads.w10_growth import ROUNDS, claim_growth
from bench.workloads.w10_held import held
from rota.core.decision import DecisionInputs, decide
from rota.core.ids import JobId, compose
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
    means = DecisionInputs(datetime.now(UTC))
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
        one, alone = await by_turns(4, TURN, bare.single_commits, partial(single_inserts, store, 1))
        found["ones"].append(one)
        found["alone"].append(alone)
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
    await connection.execute("TRUNCATE rota_job, rota_job_done, rota_claim; CHECKPOINT")
    await connection.close()


async def measure(server: PostgresServer, options: argparse.Namespace) -> None:
    connection = await asyncpg.connect(server.dsn())
    print(f"{describe_machine()}; {await connection.fetchval('SHOW server_version')} of PostgreSQL, syncing")
    await connection.close()
    await (await PostgresStore.open(server.dsn())).close()
    fresh_stores = PostgresStores(server)
    if "throughput" in options.parts:
        await throughput(server, options.repeats)
    if "growth" in options.parts:
        lines = await claim_growth(fresh_stores, largest=options.largest, rounds=ROUNDS)
        show("Claim latency, with its commit", lines)
    if "held" in options.parts:
        show("A transaction held open", await held(fresh_stores, seconds=options.seconds))


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
