"""The MariaDB store beside bare asyncmy, on a private server in the same run.

Run by `make bench STORE=mysql`. Ceilings: C1, durable commits of one row, one after the other on one connection; C2,
rows per second inserted in batches of 500 on one connection into a bare table of the same columns. The server is
MariaDB as installed, durable (`innodb_flush_log_at_trx_commit=1`), with a buffer pool of 1 GiB; client and server share
the machine. `--url` names another server's empty database instead.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from pathlib import Path

from bench.ceilings.mysql import Bare
from bench.ceilings.rows import PAYLOAD, jobs
from bench.measure import Sample, describe_machine, percentile, print_table
from rota.core.decision import Means, decide
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Succeeded
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import connect
from rota.stores.mysql.location import location_of
from servers.mariadb import MariadbServer, require_binary

WORKER = WorkerId("bench", "boot")
LEASE = timedelta(minutes=5)


async def fill(store: MysqlStore, first: int, count: int, batch: int, **options: object) -> None:
    for start in range(first, first + count, batch):
        await store.insert(jobs(start, min(batch, first + count - start), **options))


async def work(store: MysqlStore, batch: int) -> int:
    """Claim under a lease and a fence, decide and settle, until nothing is left. As a worker does, claim meanwhile."""
    done = 0
    wanted = Claim(WORKER, batch, types=("mail",), lease=LEASE)
    leased = await store.claim(wanted)
    while leased:
        means = Means(datetime.now(UTC))
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


async def claim_times(store: MysqlStore, rounds: int, limit: int) -> list[float]:
    """Time claims, and settle what was claimed."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        leased = await store.claim(Claim(WORKER, limit, types=("mail",), lease=LEASE))
        times.append((time.perf_counter() - begun) * 1000)
        means = Means(datetime.now(UTC))
        await store.settle([decide(job, Succeeded("1"), means) for job in leased])
    return times


async def throughput(url: str, repeats: int, count: int) -> None:
    figures: dict[str, list[float]] = {}

    def note(name: str, figure: float) -> None:
        figures.setdefault(name, []).append(figure)

    store = await MysqlStore.open(url)
    connection = await connect(location_of(url), "bench", autocommit=True)
    numbers = count_from(1, 10_000_000)
    for repeat in range(repeats):
        bare = Bare(connection, repeat)
        await bare.create()
        note("C2", await bare.batched_rows(count))
        for workers, batch in ((1, 100), (4, 100), (4, 500)):
            life, drain = await whole_life(store, next(numbers), count, batch, workers)
            note(f"whole life, {workers} workers, batches of {batch}", life)
            note(f"drain, {workers} workers, batches of {batch}", drain)
        note("single inserts, 256 callers", await single_inserts(store, next(numbers), 256, 40))
        note("single inserts, 1 caller", await single_inserts(store, next(numbers), 1, 500))
        note("C1", await bare.single_commits(1000))
        await work(store, 500)
    await connection.close()
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
                "drain >= 8 x C1" if name == "drain, 4 workers, batches of 100" else "",
            )
            for name, sample in sorted(samples.items(), key=lambda item: (item[0] not in {"C1", "C2"}, item[0]))
        ],
    )


async def growth(url: str, largest: int) -> None:
    """Time claims on a growing backlog, then with many future and many kept jobs beside it."""
    store = await MysqlStore.open(url)
    stages: list[tuple[str, list[float], list[float]]] = []
    waiting, first = 0, 10**12

    async def stage(name: str) -> None:
        await claim_times(store, 20, 1)
        stages.append((name, await claim_times(store, 200, 1), await claim_times(store, 100, 50)))

    for size in (10_000, 100_000, 1_000_000):
        if size <= largest:
            await fill(store, first, size - waiting, 1000)
            first += size - waiting
            waiting = size
            await stage(f"{size:,} waiting")
    await fill(store, first, largest, 1000, run_at=datetime.now(UTC) + timedelta(days=30), priority=10)
    await stage(f"+ {largest:,} future, higher priority")
    await keep(url, 2 * 10**12, largest)
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


async def keep(url: str, first: int, count: int) -> None:
    """Put finished jobs into a database as they would be left by running them."""
    connection = await connect(location_of(url), "bench", autocommit=True)
    for start in range(0, count, 10_000):
        rows = range(first + start, first + min(start + 10_000, count))
        await connection.many(
            "INSERT INTO job (id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts,"
            " delivery, payload, fence, attempts, started_at, finished_at, result, worker, boot) VALUES (%s, 'mail',"
            " 'default', 5, 'completed', 1, 1, 1, 1, 3, 'at_least_once', %s, 1, 1, 1, 1, '1', 'bench', 'boot')",
            [(number, PAYLOAD) for number in rows],
        )
        await connection.many(
            "INSERT INTO finished (state, finished_at, id) VALUES ('completed', 1, %s)",
            [(number,) for number in rows],
        )
    await connection.close()


@contextlib.contextmanager
def served(url: str | None, folder: Path | None) -> Iterator[str]:
    """Give the URL of an empty database."""
    if url is not None:
        yield url
        return
    if folder is not None:
        tempfile.tempdir = str(folder)
    server = MariadbServer(require_binary(), {"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "512M"})
    try:
        server.execute("CREATE DATABASE rota")
        yield server.url("rota")
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
    with served(options.url, options.folder) as url:
        asyncio.run(throughput(url, options.repeats, options.count))
        if options.largest:
            asyncio.run(growth(url, options.largest))


if __name__ == "__main__":
    main()
