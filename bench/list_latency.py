"""Fill an empty store with millions of jobs and print how long lists and counts take.

    python -m bench.list_latency sqlite:///lists.db --finished 5000000 --waiting 1000000 --delayed 1000000

Beside the time it prints the CPU time of this process and, if `--server-pid` names it, of the database server: on a
busy machine that alone says what a list costs.

The rows are made by the database itself, in a few minutes, and not through the API: finished jobs first, then those
that wait, then those whose time is to come, as after a long outage. Every millionth job is of a rare type. The address
must be that of a store which holds nothing else; what was made is left there. With four times 0 nothing is made, and
what is there is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Final

from bench.systems.processes import exact_cpu_seconds, family
from rota.core.ids import EPOCH_MILLISECONDS
from rota.core.lifecycle import State
from rota.ports.store import JobQuery, JobSlice, Store
from rota.runtime.store import is_mysql, is_postgres, open_store, path_of

#: Between one job and the next, in milliseconds.
_STEP: Final = 10
_ROUNDS: Final = 5
_COLUMNS: Final = """id, type, queue, priority, created_at, updated_at, max_attempts, delivery, payload, turn, run_at,
    fence, attempts, worker, state, finished_at, fingerprint"""

Run = Callable[[str], Awaitable[None]]


def _select(numbers: str, base: int, state: str, *, is_done: bool, after: int = 0) -> str:
    """Write the rows of jobs by their numbers, column `i`."""
    made = f"({base} + i * {_STEP})"
    micros = f"({made} + {EPOCH_MILLISECONDS}) * 1000"
    end = f"{micros} + 500000" if is_done else "NULL"
    fence = "1" if is_done else "0"
    return f"""SELECT {made} * 4194304,
        CASE WHEN i % 1000000 = 0 THEN 'rare' ELSE concat('type-', i % 20) END,
        CASE WHEN i % 3 = 0 THEN 'other' ELSE 'default' END, 5, {micros}, {micros}, 3, 'at_least_once',
        '{{"to": "user@example.com"}}', {micros} + {after} - 5000000, {micros} + {after}, {fence}, {fence},
        {"'w'" if is_done else "NULL"}, {state}, {end},
        CASE WHEN {state} = 'dead' THEN concat('cause-', i % 50) END
        FROM {numbers}"""


async def fill(url: str, run: Run, finished: int, waiting: int, delayed: int, dead: int = 0) -> None:
    """Make the rows."""
    total = dead + finished + waiting + delayed
    base = int(time.time() * 1000) - EPOCH_MILLISECONDS - (total + 1) * _STEP
    ended = "CASE i % 500 WHEN 0 THEN 'dead' WHEN 1 THEN 'cancelled' ELSE 'completed' END"
    ends = list(accumulate((dead, finished, waiting, delayed)))
    parts = [
        (1, ends[0], "'dead'", True, 0),
        (ends[0] + 1, ends[1], ended, True, 0),
        (ends[1] + 1, ends[2], "'pending'", False, 0),
        (ends[2] + 1, ends[3], "'scheduled'", False, 30 * 86_400_000_000),
    ]
    for first, last, state, is_done, after in parts:
        for start in range(first, last + 1, 500_000):
            numbers = _numbers(url, start, min(start + 499_999, last))
            table = "rota_job_done" if is_done and is_postgres(url) else "rota_job"
            select = _select(numbers, base, state, is_done=is_done, after=after)
            await run(f"INSERT INTO {table} ({_COLUMNS}) {select}")
    if is_mysql(url):
        for sql in _PLACES:
            await run(sql)


def _numbers(url: str, first: int, last: int) -> str:
    if is_postgres(url):
        return f"generate_series({first}::bigint, {last}::bigint) AS i"
    if is_mysql(url):
        return f"(SELECT seq AS i FROM seq_{first}_to_{last}) AS numbers"
    return f"""(WITH RECURSIVE number(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM number WHERE i < {last})
        SELECT i FROM number)"""


_PLACES: Final = (
    """INSERT INTO rota_ready (queue, type, turn, id, run_at, expires_at)
    SELECT queue, type, turn, id, run_at, expires_at FROM rota_job WHERE state = 'pending'""",
    """INSERT INTO rota_scheduled (run_at, id, state, queue, type)
    SELECT run_at, id, state, queue, type FROM rota_job WHERE state = 'scheduled'""",
    """INSERT INTO rota_finished (state, finished_at, id, fingerprint, type)
    SELECT state, finished_at, id, fingerprint, CASE WHEN state = 'dead' THEN type END FROM rota_job
    WHERE finished_at IS NOT NULL""",
)


async def _fill_sqlite(url: str, counts: tuple[int, ...]) -> None:
    connection = sqlite3.connect(path_of(url), isolation_level=None)
    if sqlite3.sqlite_version_info < (3, 44):
        connection.create_function("concat", -1, lambda *parts: "".join(map(str, parts)), deterministic=True)
    connection.execute("PRAGMA synchronous = OFF")

    async def run(sql: str) -> None:
        connection.execute(sql)

    await fill(url, run, *counts)
    connection.close()


async def _fill_postgres(url: str, counts: tuple[int, ...]) -> None:
    import asyncpg  # noqa: PLC0415 - a driver that not everyone has

    connection = await asyncpg.connect(url)

    async def run(sql: str) -> None:
        await connection.execute(sql)

    await fill(url, run, *counts)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def _fill_mysql(url: str, counts: tuple[int, ...]) -> None:
    import asyncmy  # noqa: PLC0415 - a driver that not everyone has

    from rota.stores.mysql.location import location_of  # noqa: PLC0415 - as above

    # The driver itself: the store's connections do not wait so long for an answer.
    connection = await asyncmy.connect(**location_of(url).driver_arguments(), autocommit=True)

    async def run(sql: str) -> None:
        await connection.cursor().execute(sql.replace("%", "MOD"))

    await fill(url, run, *counts)
    await connection.ensure_closed()


async def fill_store(url: str, counts: tuple[int, ...]) -> None:
    """Put so many finished, waiting, delayed and dead jobs into a migrated store."""
    begun = time.perf_counter()
    filled = _fill_postgres if is_postgres(url) else _fill_mysql if is_mysql(url) else _fill_sqlite
    await filled(url, counts)
    print(f"filled in {time.perf_counter() - begun:.0f} s", flush=True)


def lists(now: datetime) -> dict[str, JobQuery]:
    """Return the lists that are measured."""
    return {
        "all": JobQuery(),
        **{f"status={state}": JobQuery(states=(state,)) for state in State},
        "status=pending,completed": JobQuery(states=(State.PENDING, State.COMPLETED)),
        "type=type-3": JobQuery(types=("type-3",)),
        "type=rare": JobQuery(types=("rare",)),
        "queue=other": JobQuery(queues=("other",)),
        "worker_id=w": JobQuery(worker="w"),
        "worker_id=nobody": JobQuery(worker="nobody"),
        "tag=none": JobQuery(tag="none"),
        "fingerprint=cause-0": JobQuery(fingerprint="cause-0"),
        "until=-12h": JobQuery(created_until=now - timedelta(hours=12)),
        "since=-1h": JobQuery(created_from=now - timedelta(hours=1)),
        "status=completed&type=rare": JobQuery(states=(State.COMPLETED,), types=("rare",)),
        "status=pending&type=rare": JobQuery(states=(State.PENDING,), types=("rare",)),
        "status=dead&queue=other": JobQuery(states=(State.DEAD,), queues=("other",)),
    }


@dataclass(frozen=True, slots=True)
class Meter:
    """Measures calls: time, and CPU time of this process and of the database server."""

    server_pid: int | None = None

    def cpu_seconds(self) -> float:
        pids = () if self.server_pid is None else family(self.server_pid)
        return time.process_time() + exact_cpu_seconds(pids)

    async def timed(self, verb: Callable[..., Awaitable], *arguments: object) -> tuple:  # type: ignore[type-arg]
        spent, begun = self.cpu_seconds(), time.perf_counter()
        found = await verb(*arguments)
        return found, time.perf_counter() - begun, self.cpu_seconds() - spent


async def measure(store: Store, meter: Meter) -> None:
    """Print how long each list takes, and how many answers until it is full or at its end."""
    print(f"{'list':30} {'median ms':>10} {'worst ms':>10} {'CPU ms':>8} {'worst':>8} {'jobs':>6} {'answers':>8}")
    for name, query in lists(datetime.now(UTC)).items():
        pages = [await meter.timed(store.find_some, query) for _ in range(_ROUNDS)]
        page = pages[0][0]
        _show(name, pages, f"{len(page.jobs):6} {await _answers(store, query, page):8}")
    known = (await store.census()).completed
    _show("count of all", [await meter.timed(store.census) for _ in range(_ROUNDS)], "")
    _show("count since the last", [await meter.timed(store.census, known) for _ in range(_ROUNDS)], "")
    _show("timetable (health)", [await meter.timed(store.timetable) for _ in range(_ROUNDS)], "")
    _show("groups of dead letters", [await meter.timed(store.dead_groups, 500) for _ in range(_ROUNDS)], "")


async def _answers(store: Store, query: JobQuery, page: JobSlice) -> int:
    count, found = 1, len(page.jobs)
    while page.resume is not None and found < query.limit and count < 1000:
        query = query.behind(page.resume)
        page = await store.find_some(query)
        count, found = count + 1, found + len(page.jobs)
    return count


def _show(name: str, calls: list[tuple[object, float, float]], more: str) -> None:
    times = [took * 1000 for _, took, _ in calls]
    spent = [cpu * 1000 for _, _, cpu in calls]
    texts = f"{statistics.median(times):10.1f} {max(times):10.1f} {statistics.median(spent):8.1f} {max(spent):8.1f}"
    print(f"{name:30} {texts} {more}", flush=True)


async def run(url: str, counts: tuple[int, ...], meter: Meter) -> None:
    """Fill and measure."""
    store = await open_store(url)
    if any(counts):
        await fill_store(url, counts)
    await measure(store, meter)
    await store.close()


def main() -> None:
    """Read the options, fill and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="its address: sqlite:///…, postgresql://…, mysql://…")
    for name, default in (("finished", 5_000_000), ("waiting", 1_000_000), ("delayed", 1_000_000), ("dead", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"so many {name} jobs")
    parser.add_argument("--server-pid", type=int, help="the process of the database server")
    options = parser.parse_args()
    counts = (options.finished, options.waiting, options.delayed, options.dead)
    asyncio.run(run(options.store, counts, Meter(options.server_pid)))


if __name__ == "__main__":
    main()
