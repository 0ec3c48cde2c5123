"""The MariaDB store beside bare asyncmy, on a private server in the same run.

Run by `make bench STORE=mysql`. Ceilings: C1, durable commits of one row, one after the other on one connection; C2,
rows per second inserted in batches of 500 on one connection into a bare table of the same columns. The server is
MariaDB as installed, durable (`innodb_flush_log_at_trx_commit=1`), with a buffer pool of 1 GiB; client and server share
the machine. `--url` names another server's empty database instead, which is then not made to grow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count as count_from
from pathlib import Path

from bench.ceilings.mysql import Bare
from bench.ceilings.rows import jobs
from bench.fresh_stores import MariadbStores
from bench.measure import Sample, by_turns, describe_machine, print_table
from bench.servers import MARIADB
from bench.workloads.results import show
from bench.workloads.w10_growth import ROUNDS, claim_growth
from rota.core.decision import DecisionInputs, decide
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Succeeded
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.location import location_of
from servers.mariadb import MariadbServer, require_binary

WORKER = WorkerId("bench", "boot")
LEASE = timedelta(minutes=5)
TARGETS = {"drain, 4 workers, batches of 100": "drain >= 8 x C1", "bulk inserts of 500": "bulk >= 0.6 x C2"}


async def fill(store: MysqlStore, first: int, count: int, batch: int, **options: object) -> None:
    for start in range(first, first + count, batch):
        await store.insert(jobs(start, min(batch, first + count - start), **options))


async def work(store: MysqlStore, batch: int) -> int:
    """Claim under a lease and a fence, decide and settle, until nothing is left. As a worker does, claim meanwhile."""
    done = 0
    wanted = Claim(WORKER, batch, types=("mail",), lease=LEASE)
    leased = await store.claim(wanted)
    while leased:
        means = DecisionInputs(datetime.now(UTC))
        settlements = [decide(job, Succeeded("1"), means) for job in leased]
        settled, leased = await asyncio.gather(store.settle(settlements), store.claim(wanted))
        done += len(settled)
    return done


async def whole_life(store: MysqlStore, first: int, count: int, batch: int, workers: int) -> tuple[float, float]:
    """Insert, then claim and settle, in batches; lives per second, and drained per second."""
    begun = time.perf_counter()
    await fill(store, first, count, batch)
    filled = time.perf_counter()
    done = sum(await asyncio.gather(*(work(store, batch) for _ in range(workers))))
    ended = time.perf_counter()
    assert done == count
    return count / (ended - begun), count / (ended - filled)


async def single_inserts(store: MysqlStore, first: int, clients: int, each: int) -> float:
    """Have many callers each await their own durable submit."""
    numbers = count_from(first)

    async def client() -> None:
        for _ in range(each):
            # As the engine makes them: ids grow with time, whoever submits.
            await store.insert(jobs(next(numbers), 1))

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return clients * each / (time.perf_counter() - begun)


async def bulk_inserts(store: MysqlStore, starts: Iterator[int], count: int) -> float:
    """Have one caller submit much, as `submit_many` does, in batches as large as those of the ceiling."""
    batches = [jobs(next(starts), 500) for _ in range(count // 500)]
    begun = time.perf_counter()
    for batch in batches:
        await store.insert(batch)
    return sum(map(len, batches)) / (time.perf_counter() - begun)


async def throughput(url: str, repeats: int, count: int) -> None:
    figures: dict[str, list[float]] = {}

    def note(name: str, figure: float) -> None:
        figures.setdefault(name, []).append(figure)

    store = await MysqlStore.open(url)
    numbers = count_from(1, 10_000_000)
    for repeat in range(repeats):
        bare = await Bare.open(location_of(url), repeat)
        await bare.create()
        for workers, batch in ((1, 100), (4, 100), (4, 500)):
            life, drain = await whole_life(store, next(numbers), count, batch, workers)
            note(f"whole life, {workers} workers, batches of {batch}", life)
            note(f"drain, {workers} workers, batches of {batch}", drain)
            # Often, and in between: the disk changes by the second.
            note("C1", await bare.single_commits(300))
        bulk = partial(bulk_inserts, store, count_from(next(numbers), 500))
        rows, stored = await by_turns(max(count // 2_000, 1), 2_000, bare.batched_rows, bulk)
        note("C2", rows)
        note("bulk inserts of 500", stored)
        note("single inserts, 256 callers", await single_inserts(store, next(numbers), 256, 40))
        note("single inserts, 1 caller", await single_inserts(store, next(numbers), 1, 500))
        note("C1", await bare.single_commits(300))
        await bare.close()
        await work(store, 500)
    await store.close()
    samples = {name: Sample(tuple(values)) for name, values in figures.items()}
    one, many = samples["C1"].median, samples["C2"].median
    print_table(
        "Throughput",
        ("what", "per second", "min-max", "x C1", "x C2", "target"),
        [
            (
                name,
                f"{sample.median:,.0f}",
                sample.spread,
                f"{sample.median / one:.2f}",
                f"{sample.median / many:.2f}",
                TARGETS.get(name, ""),
            )
            for name, sample in sorted(samples.items(), key=lambda item: (item[0] not in {"C1", "C2"}, item[0]))
        ],
    )


@contextlib.contextmanager
def served(url: str | None, folder: Path | None) -> Iterator[tuple[str, MariadbStores | None]]:
    """Return the URL of an empty database and, on a server of our own, a place for others."""
    if url is not None:
        yield url, None
        return
    if folder is not None:
        tempfile.tempdir = str(folder)
    server = MariadbServer(require_binary(), MARIADB)
    try:
        server.execute("CREATE DATABASE rota")
        yield server.url("rota"), MariadbStores(server)
    finally:
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--count", type=int, default=20_000, help="jobs in each measurement")
    parser.add_argument(
        "--largest", type=int, default=1_000_000, help="jobs waiting, future and kept at the most; 0: none"
    )
    parser.add_argument("--folder", type=Path, help="where the server's files go; a real disk, not a tmpfs")
    parser.add_argument("--url", help="measure on this empty database instead")
    options = parser.parse_args()
    print(describe_machine("MariaDB (innodb_flush_log_at_trx_commit=1)"))
    with served(options.url, options.folder) as (url, fresh_stores):
        asyncio.run(throughput(url, options.repeats, options.count))
        if options.largest and fresh_stores is not None:
            growth = claim_growth(fresh_stores, largest=options.largest, rounds=ROUNDS)
            show("Claim latency, with its commit", asyncio.run(growth))


if __name__ == "__main__":
    main()
