"""Daily partitions: added ahead of time, found by id, and dropped as a whole after retention."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import asyncpg
import pytest

from builders import BASE, DAY, HOUR, ManualClock, after, claim, entry, failure, ids_of, key, means, new_job, new_jobs
from rota.core.decision import decide, retry
from rota.core.lifecycle import State
from rota.core.outcome import Outcome, Succeeded
from rota.core.submission import NewJob
from rota.ports.store import JobQuery, Receipt, Retention
from rota.stores.postgres import PostgresStore, partitions

LATER = BASE + 3 * DAY
USUAL = Retention(completed=DAY, cancelled=DAY, dead=30 * DAY)


@pytest.fixture(autouse=True)
def small_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day worth dropping would take a test too long to fill."""
    monkeypatch.setattr(partitions, "MIN_DROPPED", 10)


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(dsn, clock=ManualClock())
    yield store
    await store.close()


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def days(connection: asyncpg.Connection) -> list[str]:
    rows = await connection.fetch(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'rota_job_done'::regclass ORDER BY 1"
    )
    return [row[0] for row in rows]


async def where(connection: asyncpg.Connection, *jobs: NewJob) -> set[str]:
    rows = await connection.fetch("SELECT tableoid::regclass::text FROM rota_job_done WHERE id = ANY($1)", ids_of(jobs))
    return {row[0] for row in rows}


async def run(store: PostgresStore, *jobs: NewJob, outcome: Outcome | None = None, now: datetime = BASE) -> None:
    await store.insert(jobs, now=now)
    held = await store.claim(claim(limit=len(jobs)), now=now)
    await store.settle([decide(job, outcome or Succeeded(), means(now)) for job in held], now=now)


async def test_opening_a_store_adds_partitions_of_today_and_the_days_ahead(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    assert store is not None
    expected = {f"rota_job_done_{BASE + number * DAY:%Y%m%d}" for number in range(4)}
    assert expected | {"rota_job_done_rest"} <= set(await days(connection))


async def test_upkeep_adds_the_days_to_come(store: PostgresStore, connection: asyncpg.Connection) -> None:
    await store.prune(USUAL, 10, now=BASE + 10 * DAY)
    assert f"rota_job_done_{BASE + 13 * DAY:%Y%m%d}" in await days(connection)


async def test_a_finished_job_is_in_the_partition_of_its_creation(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    today, odd = new_job(), new_job(id=7)
    await run(store, today, odd)
    assert await where(connection, today) == {f"rota_job_done_{BASE:%Y%m%d}"}
    assert await where(connection, odd) == {"rota_job_done_rest"}


async def test_a_day_past_its_time_is_dropped_and_counted(store: PostgresStore, connection: asyncpg.Connection) -> None:
    jobs = new_jobs(30, tags=("t",))
    await run(store, *jobs)
    assert await store.prune(USUAL, 1, now=LATER) == 30
    assert f"rota_job_done_{BASE:%Y%m%d}" not in await days(connection)
    assert await store.get(ids_of(jobs)) == []
    census = await store.census()
    assert (census.total(), dict(census.pruned)) == (0, {State.COMPLETED: 30})
    assert await connection.fetchval("SELECT count(*) FROM rota_tag") == 0


async def test_a_day_is_not_dropped_before_its_last_job_is_past_its_time(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    await run(store, *new_jobs(30))
    midnight = BASE.replace(hour=0, minute=0, second=0, microsecond=0) + DAY
    assert await store.prune(USUAL, 1, now=BASE + HOUR) == 0
    await store.prune(USUAL, 1, now=midnight + DAY - HOUR)
    assert f"rota_job_done_{BASE:%Y%m%d}" in await days(connection)


async def test_a_small_day_is_deleted_job_by_job(store: PostgresStore) -> None:
    await run(store, *new_jobs(9))
    assert await store.prune(USUAL, 4, now=LATER) == 4


async def test_jobs_of_a_dropped_day_that_must_be_kept_are_kept(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    dead, parent, keyed, late = new_job(tags=("kept",)), new_job(), new_job(), new_job(run_at=BASE + HOUR)
    keyed = new_job(idempotency=key("k", keep=timedelta(days=90)))
    await run(store, dead, outcome=failure(permanent=True))
    await run(store, parent, keyed)
    await store.insert([new_job(after=after(parent), run_at=LATER + 10 * DAY)], now=BASE)
    await store.insert([late], now=BASE)
    await run(store, *new_jobs(30))
    assert await store.prune(USUAL, 1, now=LATER) == 30
    assert f"rota_job_done_{BASE:%Y%m%d}" not in await days(connection)
    assert await where(connection, dead, parent, keyed) == {"rota_job_done_rest"}
    assert {job.id for job in await store.get(ids_of([dead, parent, keyed, late]))} == {
        dead.id,
        parent.id,
        keyed.id,
        late.id,
    }
    assert ids_of(await store.find(JobQuery(tag="kept"))) == [dead.id]
    assert len(await store.attempts(dead.id)) == 1
    (again,) = await store.insert([new_job(idempotency=key("k"))], now=LATER)
    assert again.receipt is Receipt.REPLAYED


async def test_a_job_of_a_dropped_day_can_still_be_retried_and_end(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    dead = new_job()
    await run(store, dead, outcome=failure(permanent=True))
    await run(store, *new_jobs(30))
    await store.prune(USUAL, 1, now=LATER)
    (job,) = await store.get([dead.id])
    assert await store.settle([retry(job, LATER)], entry=entry(), now=LATER) == [dead.id]
    (held,) = await store.claim(claim(), now=LATER)
    await store.settle([decide(held, Succeeded(), means(LATER))], now=LATER)
    assert await where(connection, dead) == {"rota_job_done_rest"}


async def test_with_something_kept_for_ever_no_day_is_dropped(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    await run(store, *new_jobs(30))
    assert await store.prune(Retention(None, DAY, DAY), 1, now=LATER) == 0
    assert f"rota_job_done_{BASE:%Y%m%d}" in await days(connection)


async def test_a_reader_delays_a_drop_and_no_call_fails(store: PostgresStore, connection: asyncpg.Connection) -> None:
    jobs = new_jobs(30)
    await run(store, *jobs)
    async with connection.transaction():
        await connection.fetchval("SELECT count(*) FROM rota_job_done")
        assert await store.prune(USUAL, 5, now=LATER) == 5
    assert await store.prune(USUAL, 5, now=LATER) == 25


async def test_jobs_that_ended_before_their_partition_was_added_stay_in_the_default_partition(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    """A day cannot be added over jobs that are already kept elsewhere; they are found and deleted all the same."""
    await connection.execute(f"DROP TABLE rota_job_done_{BASE:%Y%m%d}")
    jobs = new_jobs(12)
    await run(store, *jobs)
    assert await store.prune(USUAL, 100, now=BASE) == 0
    assert await where(connection, *jobs) == {"rota_job_done_rest"}
    assert await store.prune(USUAL, 100, now=LATER) == 12
