"""The SQLite store beside bare sqlite3, on the same file system in the same run.

Run by `make bench`. Ceilings: C1, durable commits of one row, one after the other; C2, rows per second inserted in
batches of 500 into a bare table of the same columns, without an index, all columns of a submission written. C2 is also
shown for rows of which only the columns that a plain job sets are written: fewer columns are much cheaper, which the
store itself makes use of.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from pathlib import Path

from bench.ceilings.rows import PAYLOAD, jobs
from bench.ceilings.sqlite import Bare
from bench.measure import Sample, describe_machine, percentile, print_table
from rota.core.decision import Means, decide
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Succeeded
from rota.stores.sqlite import SqliteStore

WORKER = WorkerId("bench", "boot")
EVERYTHING = Claim(WORKER, 100, types=("mail",))


async def whole_life(store: SqliteStore, first: int, count: int, batch: int) -> float:
    """Insert, claim under a lease and a fence, decide and settle, in batches."""
    begun = time.perf_counter()
    for start in range(first, first + count, batch):
        await store.insert(jobs(start, batch))
    done = 0
    while done < count:
        leased = await store.claim(Claim(WORKER, batch, types=("mail",)))
        means = Means(datetime.now(UTC))
        await store.settle([decide(job, Succeeded("1"), means) for job in leased])
        done += len(leased)
    return count / (time.perf_counter() - begun)


async def single_inserts(store: SqliteStore, first: int, clients: int, each: int) -> float:
    """Have many callers each await their own durable submit."""

    numbers = count_from(first)

    async def client() -> None:
        for _ in range(each):
            # As the engine makes them: ids grow with time, whoever submits.
            await store.insert(jobs(next(numbers), 1))

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return clients * each / (time.perf_counter() - begun)


async def claim_times(store: SqliteStore, rounds: int, limit: int) -> list[float]:
    """Time claims, handing each back so that the backlog stays as it is."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        leased = await store.claim(Claim(WORKER, limit, types=("mail",)))
        times.append((time.perf_counter() - begun) * 1000)
        means = Means(datetime.now(UTC))
        await store.settle([decide(job, Succeeded("1"), means) for job in leased])
    return times


async def throughput(folder: Path, repeats: int) -> None:
    ones, rows, plain, lives, drains, crowds, hundreds, alone = [], [], [], [], [], [], [], []
    for repeat in range(repeats):
        bare = Bare(folder / f"bare-{repeat}.db")
        store = await SqliteStore.open(folder / f"store-{repeat}.db")
        rows.append(bare.batched_rows(50_000))
        plain.append(bare.batched_rows(50_000, plain=True))
        lives.append(await whole_life(store, 1, 20_000, 100))
        drains.append(await whole_life(store, 100_001, 20_000, 500))
        crowds.append(await single_inserts(store, 1_000_001, 64, 200))
        hundreds.append(await single_inserts(store, 2_000_001, 256, 80))
        ones.append(bare.single_commits(1_000))
        alone.append(await single_inserts(store, 3_000_001, 1, 1_000))
        await store.close()
        bare.connection.close()
    single, batched = Sample(tuple(ones)), Sample(tuple(rows))
    lines = [("C1 bare single-row commits", single, 1.0, "", "")]
    lines += [("C2 bare rows, batches of 500", batched, 1.0, "", "")]
    narrow = Sample(tuple(plain))
    lines += [("   of plain jobs' columns only", narrow, narrow.median / batched.median, "C2", "")]
    for name, sample, ceiling, label, target in (
        ("whole life, batches of 100", Sample(tuple(lives)), batched.median, "C2", ">= 0.15"),
        ("whole life, batches of 500", Sample(tuple(drains)), batched.median, "C2", ">= 0.15"),
        ("single inserts, 64 callers", Sample(tuple(crowds)), batched.median, "C2", ">= 0.25"),
        ("single inserts, 256 callers", Sample(tuple(hundreds)), batched.median, "C2", ">= 0.25"),
        ("single inserts, 64 callers", Sample(tuple(crowds)), single.median, "C1", ""),
        ("single inserts, 1 caller", Sample(tuple(alone)), single.median, "C1", ">= 0.75"),
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


async def growth(folder: Path, largest: int) -> None:
    """Time claims on a growing backlog, then with many future and many kept jobs beside it."""
    path = folder / "growth.db"
    store = await SqliteStore.open(path)
    stages: list[tuple[str, list[float], list[float]]] = []
    waiting, first = 0, 1

    async def fill(count: int, **options: object) -> None:
        nonlocal first
        for start in range(first, first + count, 10_000):
            await store.insert(jobs(start, min(10_000, first + count - start), **options))
        first += count

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
    await store.close()
    keep(path, first, largest)
    store = await SqliteStore.open(path)
    await stage(f"+ {largest:,} completed, kept")
    await store.close()
    base = stages[0]
    print_table(
        "Claim latency, with its commit (p50 / p99 in ms, and the p50 as a ratio to the first line)",
        ("backlog", "batch 1", "ratio", "batch 50", "ratio"),
        [
            (
                name,
                f"{percentile(one, 0.5):.2f} / {percentile(one, 0.99):.2f}",
                f"{percentile(one, 0.5) / percentile(base[1], 0.5):.2f}",
                f"{percentile(fifty, 0.5):.2f} / {percentile(fifty, 0.99):.2f}",
                f"{percentile(fifty, 0.5) / percentile(base[2], 0.5):.2f}",
            )
            for name, one, fifty in stages
        ],
    )


def keep(path: Path, first: int, count: int) -> None:
    """Put finished jobs into a database as they would be left by running them."""
    connection = sqlite3.connect(path)
    connection.execute(
        "WITH RECURSIVE number(value) AS (SELECT ? UNION ALL SELECT value + 1 FROM number WHERE value < ?)"
        " INSERT INTO job (id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts,"
        " delivery, payload, fence, attempts, started_at, finished_at, result, worker, boot)"
        " SELECT value, 'mail', 'default', 5, 'completed', value, value, value, value, 3, 'at_least_once', ?, 1, 1,"
        " value, value, '1', 'bench', 'boot' FROM number",
        (first, first + count - 1, PAYLOAD),
    )
    connection.commit()
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--largest", type=int, default=1_000_000, help="jobs waiting, future and kept at the most")
    parser.add_argument("--folder", type=Path, help="where the database files go; a real disk, not a tmpfs")
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(throughput(Path(folder), options.repeats))
        asyncio.run(growth(Path(folder), options.largest))


if __name__ == "__main__":
    main()
