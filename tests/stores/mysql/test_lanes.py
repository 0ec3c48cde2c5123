"""Claims from many lanes: few round trips, also beside other claims of the same lanes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import claim, ids_of, new_job
from rota.core.ids import JobId
from rota.core.queue import Queue
from rota.core.submission import NewJob
from rota.stores.mysql import MysqlStore, low_water
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of

#: Some differ in case only, or have letters beyond ASCII.
TYPES = (*(f"type-{number}" for number in range(96)), "Type-1", "naïve", "über", "typ_é")


@pytest.fixture(autouse=True)
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep low-water marks valid for as long as a test takes."""
    monkeypatch.setattr(low_water, "MIN_AGE_SECONDS", 3600.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every question to the server."""
    seen: list[str] = []
    rows_of = MysqlConnection.rows

    async def rows(self: MysqlConnection, sql: str, parameters: Any = None) -> Any:  # noqa: ANN401 - as the original
        seen.append(sql)
        return await rows_of(self, sql, parameters)

    monkeypatch.setattr(MysqlConnection, "rows", rows)
    return seen


def by_turns(number: int) -> list[NewJob]:
    return [new_job(TYPES[place % len(TYPES)]) for place in range(number)]


async def given(store: MysqlStore, limit: int) -> list[JobId]:
    return ids_of(await store.claim(claim(limit=limit, types=TYPES)))


@asynccontextmanager
async def holding(url: str, jobs: list[NewJob]) -> AsyncIterator[None]:
    """Lock these jobs as another claim would."""
    connection = await connect(location_of(url), "test", autocommit=False)
    held = tuple(ids_of(jobs))
    assert len(await connection.rows("SELECT id FROM rota_ready WHERE id IN %(ids)s FOR UPDATE", {"ids": held})) == len(
        held
    )
    try:
        yield
    finally:
        await connection.rollback()
        await connection.close()


async def test_a_claim_from_a_hundred_lanes_asks_as_little_as_one_from_a_single_lane(
    store: MysqlStore, asked: list[str]
) -> None:
    """It was four questions for each lane."""
    jobs = by_turns(400)
    await store.insert(jobs)
    await store.time()
    asked.clear()
    got = [await given(store, 100) for _ in range(3)]
    assert [job_id for some in got for job_id in some] == ids_of(jobs[:300])
    assert len(asked) <= 3 * 8


async def test_jobs_locked_by_another_claim_are_skipped(store: MysqlStore, url: str) -> None:
    jobs = by_turns(300)
    await store.insert(jobs)
    async with holding(url, jobs[:150]), asyncio.timeout(10):
        assert await given(store, 100) == ids_of(jobs[150:250])
        assert await given(store, 100) == ids_of(jobs[250:])
    assert await given(store, 200) == ids_of(jobs[:150])
    assert await store.check() == []


async def test_what_is_left_out_of_a_hundred_lanes_ends_though_all_is_being_claimed(
    store: MysqlStore, url: str
) -> None:
    jobs = by_turns(250)
    await store.insert(jobs)
    async with holding(url, jobs), asyncio.timeout(10):
        assert await given(store, 10) == []


async def test_two_stores_that_claim_from_the_same_lanes_at_once_share_all_jobs(store: MysqlStore, url: str) -> None:
    jobs = by_turns(600)
    await store.insert(jobs)
    other = await MysqlStore.open(url)

    async def all_of(one: MysqlStore) -> list[JobId]:
        taken: list[JobId] = []
        while some := await given(one, 7):
            taken += some
        return taken

    first, second = await asyncio.gather(all_of(store), all_of(other))
    assert sorted([*first, *second]) == sorted(ids_of(jobs))
    await other.close()
    assert await store.check() == []


async def test_what_was_seen_before_a_queue_was_paused_by_another_process_is_not_given(
    store: MysqlStore, url: str
) -> None:
    await store.insert(by_turns(300))
    assert len(await given(store, 10)) == 10
    other = await MysqlStore.open(url)
    await other.put_queue(Queue("default", paused_at=await store.time()))
    await other.close()
    assert await given(store, 10) == []


async def test_a_more_urgent_job_of_this_process_comes_before_what_was_seen(store: MysqlStore) -> None:
    await store.insert(by_turns(300))
    assert len(await given(store, 10)) == 10
    urgent = new_job(TYPES[50], priority=9)
    await store.insert([urgent])
    assert (await given(store, 10))[0] == urgent.id
