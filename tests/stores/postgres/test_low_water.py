"""Low-water marks: an old open transaction neither slows claims down nor hides a job for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from builders import claim, ids_of, means, new_job, new_jobs
from guard.counting import Instructions
from rota.core.decision import decide
from rota.core.outcome import Succeeded
from rota.stores.postgres import PostgresStore, low_water
from rota.stores.postgres.lanes import LOWEST, LaneStart
from rota.stores.postgres.statements import statement

KEY = ("default", "mail")
CHURN = 1_500


@pytest.fixture
async def reader(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A session with an old open transaction."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.fetchval("SELECT count(*) FROM rota_job")
    yield connection
    await connection.close()


@pytest.fixture(autouse=True)
def easily_crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of some thousands costs a test too long to make."""
    monkeypatch.setattr(low_water, "MANY_PAGES", 20)


async def churn(store: PostgresStore, number: int = CHURN) -> None:
    """Let jobs come and go."""
    while number > 0:
        await store.insert(new_jobs(500))
        held = await store.claim(claim(limit=500, types=("mail",)))
        await store.settle([decide(job, Succeeded(), means()) for job in held])
        number -= len(held)


async def pages_of_a_claim(dsn: str, floor: int) -> int:
    """Count the pages that finding the first job from a floor on takes."""
    connection = await asyncpg.connect(dsn)
    sql = statement("lowest_turn_below").replace("turn < $3::bigint", f"turn >= {floor}")
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", "default", "mail")
    await connection.close()
    plan = json.loads(text)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_without_an_old_transaction_there_is_no_mark(store: PostgresStore) -> None:
    await churn(store, 500)
    await store._low_water.measure()
    await store.claim(claim(types=("mail",)))
    assert store._low_water._lanes[KEY].mark == LOWEST


async def test_while_a_transaction_is_open_claims_skip_dead_entries(
    dsn: str, store: PostgresStore, reader: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(low_water, "MARK_MARGIN", 0)
    await churn(store)
    await store._low_water.measure()
    await churn(store, 500)
    floor = store._low_water._lanes[KEY].mark
    assert floor > LOWEST
    from_the_start, from_the_floor = await pages_of_a_claim(dsn, LOWEST), await pages_of_a_claim(dsn, floor)
    assert from_the_floor < from_the_start / 2
    await reader.execute("ROLLBACK")


async def test_above_a_mark_every_job_is_claimed(store: PostgresStore, reader: asyncpg.Connection) -> None:
    await churn(store)
    await store._low_water.measure()
    await churn(store, 500)
    jobs = new_jobs(30)
    await store.insert(jobs)
    assert ids_of(await store.claim(claim(types=("mail",)))) == ids_of(jobs)
    assert not reader.is_closed()


async def test_a_job_of_this_process_is_never_below_the_mark(store: PostgresStore, reader: asyncpg.Connection) -> None:
    await churn(store)
    await store._low_water.measure()
    await churn(store, 500)
    plain, urgent = new_job(), new_job(priority=9)
    await store.insert([plain])
    await store.insert([urgent])
    assert ids_of(await store.claim(claim(types=("mail",)))) == ids_of([urgent, plain])
    assert not reader.is_closed()


async def test_a_notification_of_another_process_lowers_the_mark(
    store: PostgresStore, other: PostgresStore, reader: asyncpg.Connection
) -> None:
    # Stores that have claimed are notified of it.
    assert not await store.claim(claim())
    await store.watch(timedelta(milliseconds=1))
    await churn(store)
    await store._low_water.measure()
    await churn(store, 500)
    watching = asyncio.ensure_future(store.watch(timedelta(seconds=20)))
    urgent = new_job(priority=9)
    await other.insert([urgent])
    assert await watching
    assert ids_of(await store.claim(claim(types=("mail",)))) == [urgent.id]
    assert not reader.is_closed()


async def test_a_job_below_the_mark_is_found_by_the_next_measurement(
    store: PostgresStore, other: PostgresStore, reader: asyncpg.Connection
) -> None:
    await churn(store)
    await store._low_water.measure()
    await churn(store, 500)
    urgent = new_job(priority=9)
    await other.insert([urgent])
    assert await store.claim(claim(types=("mail",))) == []
    await store._low_water.measure()
    assert ids_of(await store.claim(claim(types=("mail",)))) == [urgent.id]
    assert not reader.is_closed()


async def test_the_mark_is_removed_when_the_index_is_clean_again(
    dsn: str, store: PostgresStore, reader: asyncpg.Connection
) -> None:
    await churn(store)
    await store._low_water.measure()
    await churn(store, 500)
    await reader.execute("ROLLBACK")
    connection = await asyncpg.connect(dsn)
    await connection.execute("VACUUM rota_job")
    await connection.close()
    await store._low_water.measure()
    assert store._low_water._lanes[KEY].mark == LOWEST


async def test_lanes_are_measured_in_the_background(
    store: PostgresStore, reader: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(low_water, "MEASURE_SECONDS", 0.01)
    await churn(store)
    watched = store._low_water._lanes[KEY]
    for _ in range(200):
        if watched.has_dead_entries:
            break
        await store.watch(timedelta(milliseconds=20))
    assert watched.has_dead_entries
    assert not reader.is_closed()


async def test_a_store_without_jobs_measures_nothing(store: PostgresStore) -> None:
    await store.insert([new_job("other")])
    assert await store.claim(claim(types=("mail", "report"))) == []
    assert store._low_water._measuring is None


@pytest.mark.parametrize("others", [0, 5_000])
async def test_each_lane_keeps_its_mark_however_many_are_in_use(store: PostgresStore, others: int) -> None:
    """A process that claims for many workers looked at the lanes of them all."""
    asked = [LaneStart("default", "mail"), LaneStart("default", "report")]
    known = store._low_water
    known.note_claimed(
        {("default", "mail"): 7, **{("default", f"type-{number}"): 7 for number in range(others)}}, now=7
    )
    assert known.starts(asked) == asked

    async def place() -> None:
        known.starts(asked)

    assert (await Instructions().counted(place))["instructions"] < 500
    known._lanes[KEY].mark = 40
    assert known.starts(asked) == [LaneStart("default", "mail", 40), asked[1]]
