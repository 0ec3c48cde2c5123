"""The SQLite store beside bare sqlite3, on the same file system in the same run.

Run by `make bench`. Ceilings: C1, durable commits of one row, one after the other; C2, rows per second inserted in
batches of 500 into a bare table of the same columns, without an index, all columns of a submission written. C2 is also
shown for rows of which only the columns that a plain job sets are written: fewer columns are much cheaper, which the
store itself makes use of.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from datetime import UTC, datetime
from itertools import count as count_from
from pathlib import Path

from bench.ceilings.rows import jobs
from bench.ceilings.sqlite import Bare
from bench.fresh_stores import SqliteStores
from bench.measure import Sample, describe_machine, print_table
from bench.workloads.results import show
from bench.workloads.w10_growth import ROUNDS, claim_growth
from rota.core.decision import DecisionInputs, decide
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
        means = DecisionInputs(datetime.now(UTC))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--largest", type=int, default=1_000_000, help="jobs waiting, future and kept at the most")
    parser.add_argument("--folder", type=Path, help="where the database files go; a real disk, not a tmpfs")
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(throughput(Path(folder), options.repeats))
        growth = claim_growth(SqliteStores(Path(folder)), largest=options.largest, rounds=ROUNDS)
        show("Claim latency, with its commit", asyncio.run(growth))


if __name__ == "__main__":
    main()
