"""Floors: a transaction that somebody keeps open does not make claims dearer and dearer, and hides no job for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from building import claim, ids_of, means, new_job, new_jobs
from guard.counting import Instructions
from rota.core.decision import decide
from rota.core.outcome import Succeeded
from rota.stores.postgres import PostgresStore, floors
from rota.stores.postgres.lanes import LOWEST, Lane
from rota.stores.postgres.statements import statement

KEY = ("default", "mail")
CHURN = 1_500


@pytest.fixture
async def reader(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody who has begun to read and does not end."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.fetchval("SELECT count(*) FROM job")
    yield connection
    await connection.close()


@pytest.fixture(autouse=True)
def easily_crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of some thousands costs a test too long to make."""
    monkeypatch.setattr(floors, "MANY_PAGES", 20)


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
    sql = statement("first_below").replace("turn < $3::bigint", f"turn >= {floor}")
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", "default", "mail")
    await connection.close()
    plan = json.loads(text)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_without_anybody_in_the_way_there_is_no_floor(store: PostgresStore) -> None:
    await churn(store, 500)
    await store._floors.look()
    await store.claim(claim(types=("mail",)))
    assert store._floors._lanes[KEY].floor == LOWEST


async def test_while_a_transaction_is_open_claims_start_behind_the_dead(
    dsn: str, store: PostgresStore, reader: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "TRAIL", 0)
    await churn(store)
    await store._floors.look()
    await churn(store, 500)
    floor = store._floors._lanes[KEY].floor
    assert floor > LOWEST
    from_the_start, from_the_floor = await pages_of_a_claim(dsn, LOWEST), await pages_of_a_claim(dsn, floor)
    assert from_the_floor < from_the_start / 2
    await reader.execute("ROLLBACK")


async def test_above_a_floor_nothing_is_left_behind(store: PostgresStore, reader: asyncpg.Connection) -> None:
    await churn(store)
    await store._floors.look()
    await churn(store, 500)
    jobs = new_jobs(30)
    await store.insert(jobs)
    assert ids_of(await store.claim(claim(types=("mail",)))) == ids_of(jobs)
    assert not reader.is_closed()


async def test_what_this_process_stores_is_never_below_the_floor(
    store: PostgresStore, reader: asyncpg.Connection
) -> None:
    await churn(store)
    await store._floors.look()
    await churn(store, 500)
    plain, urgent = new_job(), new_job(priority=9)
    await store.insert([plain])
    await store.insert([urgent])
    assert ids_of(await store.claim(claim(types=("mail",)))) == ids_of([urgent, plain])
    assert not reader.is_closed()


async def test_what_another_process_stores_below_the_floor_is_told_by_its_notice(
    store: PostgresStore, other: PostgresStore, reader: asyncpg.Connection
) -> None:
    # Who has asked for work hears of it.
    assert not await store.claim(claim())
    await store.watch(timedelta(milliseconds=1))
    await churn(store)
    await store._floors.look()
    await churn(store, 500)
    watching = asyncio.ensure_future(store.watch(timedelta(seconds=20)))
    urgent = new_job(priority=9)
    await other.insert([urgent])
    assert await watching
    assert ids_of(await store.claim(claim(types=("mail",)))) == [urgent.id]
    assert not reader.is_closed()


async def test_what_another_process_stores_below_the_floor_is_found_by_the_next_look(
    store: PostgresStore, other: PostgresStore, reader: asyncpg.Connection
) -> None:
    await churn(store)
    await store._floors.look()
    await churn(store, 500)
    urgent = new_job(priority=9)
    await other.insert([urgent])
    assert await store.claim(claim(types=("mail",))) == []
    await store._floors.look()
    assert ids_of(await store.claim(claim(types=("mail",)))) == [urgent.id]
    assert not reader.is_closed()


async def test_the_floor_goes_when_the_way_is_clear_again(
    dsn: str, store: PostgresStore, reader: asyncpg.Connection
) -> None:
    await churn(store)
    await store._floors.look()
    await churn(store, 500)
    await reader.execute("ROLLBACK")
    connection = await asyncpg.connect(dsn)
    await connection.execute("VACUUM job")
    await connection.close()
    await store._floors.look()
    assert store._floors._lanes[KEY].floor == LOWEST


async def test_the_lookout_looks_by_itself(
    store: PostgresStore, reader: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "LOOK_SECONDS", 0.01)
    await churn(store)
    watched = store._floors._lanes[KEY]
    for _ in range(200):
        if watched.is_crowded:
            break
        await store.watch(timedelta(milliseconds=20))
    assert watched.is_crowded
    assert not reader.is_closed()


async def test_a_store_that_finds_no_work_looks_for_no_dead(store: PostgresStore) -> None:
    await store.insert([new_job("other")])
    assert await store.claim(claim(types=("mail", "report"))) == []
    assert store._floors._lookout is None


@pytest.mark.parametrize("others", [0, 5_000])
async def test_where_to_start_is_known_of_each_lane_however_many_others_are_in_use(
    store: PostgresStore, others: int
) -> None:
    """A process that claims for many workers looked at the lanes of them all."""
    asked = [Lane("default", "mail"), Lane("default", "report")]
    known = store._floors
    known.claimed({("default", "mail"): 7, **{("default", f"type-{number}"): 7 for number in range(others)}}, now=7)
    assert known.placed(asked) == asked

    async def place() -> None:
        known.placed(asked)

    assert (await Instructions().counted(place))["instructions"] < 500
    known._lanes[KEY].floor = 40
    assert known.placed(asked) == [Lane("default", "mail", 40), asked[1]]
