"""Claims that delete a range of a lane while other claims and inserts work beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import claim, ids_of, new_jobs
from rota.core.job import Job
from rota.stores.mysql import MysqlStore, lanes
from rota.stores.mysql.driver import LOCK_WAIT_SECONDS, MAX_LIST, MysqlConnection, connect
from rota.stores.mysql.lanes import MIN_RANGE
from rota.stores.mysql.location import location_of
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

LANE = ("default", "mail")
FAR = 2**62
MANY = MIN_RANGE + 5


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[MysqlConnection]:
    connection = await connect(location_of(url), "test", autocommit=False)
    try:
        yield connection
    finally:
        await connection.rollback()
        await connection.close()


async def all_that_can_be_had(store: MysqlStore, limit: int = 1000) -> list[Job]:
    return list(await store.claim(claim(limit=limit, types=("mail",))))


class StatementKilled:
    """A connection on which something happens between the count of a range and its delete."""

    def __init__(self, connection: MysqlConnection, happening: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._connection = connection
        self._happening = happening

    async def rows(self, sql: str, parameters: Any = None) -> Sequence[Row]:  # noqa: ANN401 - as the driver's
        answer = await self._connection.rows(sql, parameters)
        if sql == statement("count_ready_range"):
            await self._happening()
        return answer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        return getattr(self._connection, name)


async def test_a_claim_does_not_wait_for_the_claim_of_the_next_range(url: str, store: MysqlStore) -> None:
    """Jobs of one bulk have one turn. The row at the end of a range is read too, and belongs to another claim."""
    jobs = new_jobs(3 * MANY)
    await store.insert(jobs)
    second: list[Row] = []
    async with connected(url) as ada, connected(url) as ben, asyncio.timeout(10):

        async def ben_takes() -> None:
            second.extend(await lanes.take_from_lane(ben, LANE, MANY, FAR))

        interrupted: Any = StatementKilled(ada, ben_takes)
        first = await lanes.take_from_lane(interrupted, LANE, MANY, FAR)
        await ada.commit()
        await ben.commit()
    assert [job_id for _, job_id in (*first, *second)] == ids_of(jobs)[: 2 * MANY]
    assert ids_of(await all_that_can_be_had(store)) == ids_of(jobs)[2 * MANY :]


@pytest.mark.parametrize("number", [MAX_LIST, MAX_LIST + 1, MAX_LIST + 2, 2 * MAX_LIST + 1])
async def test_a_range_longer_than_a_list_is_deleted_without_gaps(store: MysqlStore, number: int) -> None:
    """A job that is left in the lane would be claimed a second time."""
    jobs = new_jobs(number)
    await store.insert(jobs)
    assert ids_of(await all_that_can_be_had(store, limit=number)) == ids_of(jobs)
    assert await all_that_can_be_had(store) == []
    assert await store.check() == []


async def test_jobs_between_which_others_took_some_leave_the_line_alone(url: str, store: MysqlStore) -> None:
    jobs = new_jobs(2 * MANY)
    await store.insert(jobs)
    async with connected(url) as ada, connected(url) as ben, asyncio.timeout(10):
        held = await ada.rows(
            "SELECT turn, id FROM rota_ready WHERE queue = 'default' AND type = 'mail' AND id = %(id)s FOR UPDATE",
            {"id": jobs[3].id},
        )
        taken = await lanes.take_from_lane(ben, LANE, MANY, FAR)
        await ben.commit()
    assert held[0] not in taken
    left = {job.id for job in await all_that_can_be_had(store)}
    assert left == set(ids_of(jobs)) - {job_id for _, job_id in taken}
    assert jobs[3].id in left


async def test_a_claim_does_not_wait_for_a_claim_of_another_lane(url: str) -> None:
    """After a bulk insert the server takes the table for a small one and would scan it."""
    async with connected(url) as ada, connected(url) as ben, asyncio.timeout(10):
        await ada.run("TRUNCATE TABLE rota_ready")
        rows = [("default", "mail" if number < 450 else "report", number, number, 0) for number in range(455)]
        await ada.many("INSERT INTO rota_ready (queue, type, turn, id, run_at) VALUES (%s, %s, %s, %s, %s)", rows)
        await ada.commit()
        theirs = await lanes.take_from_lane(ben, ("default", "report"), 5, FAR)
        ours = await lanes.take_from_lane(ada, LANE, 450, FAR)
        await ada.commit()
    assert [job_id for _, job_id in (*ours, *theirs)] == list(range(455))


async def test_a_claim_does_not_wait_for_an_uncommitted_insert_in_its_range(url: str, store: MysqlStore) -> None:
    """Its transaction may stay open for long. What is in the way fails the claim, which then goes another way."""
    jobs = new_jobs(2 * MANY)
    await store.insert(jobs)
    async with connected(url) as caller:
        ((turn,),) = await caller.rows("SELECT turn FROM rota_ready WHERE id = %(id)s", {"id": jobs[3].id})
        row = (*LANE, turn, jobs[3].id + 1, 0)
        await caller.many("INSERT INTO rota_ready (queue, type, turn, id, run_at) VALUES (%s, %s, %s, %s, %s)", [row])
        async with asyncio.timeout(LOCK_WAIT_SECONDS / 2):
            assert ids_of(await all_that_can_be_had(store)) == ids_of(jobs)
    assert await store.check() == []
