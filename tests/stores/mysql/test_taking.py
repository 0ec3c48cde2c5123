"""Taking jobs out of the line beside others who do the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from building import claim, ids_of, new_jobs
from rota.core.job import Job
from rota.stores.mysql import MysqlStore, leasing
from rota.stores.mysql.driver import LOCK_WAIT_SECONDS, LONGEST_LIST, Connection, connect
from rota.stores.mysql.leasing import SHORTEST_STRETCH
from rota.stores.mysql.location import location_of
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

LANE = ("default", "mail")
FAR = 2**62
MANY = SHORTEST_STRETCH + 5


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    connection = await connect(location_of(url), "test", autocommit=False)
    try:
        yield connection
    finally:
        await connection.rollback()
        await connection.close()


async def all_that_can_be_had(store: MysqlStore, limit: int = 1000) -> list[Job]:
    return list(await store.claim(claim(limit=limit, types=("mail",))))


class Interrupted:
    """A connection on which something happens between the count of a stretch and its end."""

    def __init__(self, connection: Connection, happening: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._connection = connection
        self._happening = happening

    async def rows(self, sql: str, parameters: Any = None) -> Sequence[Row]:  # noqa: ANN401 - as the driver's
        answer = await self._connection.rows(sql, parameters)
        if sql == statement("count_ready"):
            await self._happening()
        return answer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        return getattr(self._connection, name)


async def test_nobody_waits_for_a_neighbour_who_takes_the_next_stretch(url: str, store: MysqlStore) -> None:
    """Jobs of one bulk have one turn. Where a stretch ends is looked at, and what stands there belongs to somebody."""
    jobs = new_jobs(3 * MANY)
    await store.insert(jobs)
    second: list[Row] = []
    async with connected(url) as ada, connected(url) as ben, asyncio.timeout(10):

        async def ben_takes() -> None:
            second.extend(await leasing.take(ben, LANE, MANY, FAR))

        interrupted: Any = Interrupted(ada, ben_takes)
        first = await leasing.take(interrupted, LANE, MANY, FAR)
        await ada.commit()
        await ben.commit()
    assert [job_id for _, job_id in (*first, *second)] == ids_of(jobs)[: 2 * MANY]
    assert ids_of(await all_that_can_be_had(store)) == ids_of(jobs)[2 * MANY :]


@pytest.mark.parametrize("number", [LONGEST_LIST, LONGEST_LIST + 1, LONGEST_LIST + 2, 2 * LONGEST_LIST + 1])
async def test_a_stretch_that_is_longer_than_a_list_leaves_the_line_without_gaps(
    store: MysqlStore, number: int
) -> None:
    """Whoever stays behind in the line is given to somebody else as well."""
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
            "SELECT turn, id FROM ready WHERE queue = 'default' AND type = 'mail' AND id = %(id)s FOR UPDATE",
            {"id": jobs[3].id},
        )
        taken = await leasing.take(ben, LANE, MANY, FAR)
        await ben.commit()
    assert held[0] not in taken
    left = {job.id for job in await all_that_can_be_had(store)}
    assert left == set(ids_of(jobs)) - {job_id for _, job_id in taken}
    assert jobs[3].id in left


async def test_nobody_waits_for_a_neighbour_in_another_lane(url: str) -> None:
    """A crowd that came at once: the server takes the line for a short one, in which it might as well look at all."""
    async with connected(url) as ada, connected(url) as ben, asyncio.timeout(10):
        await ada.run("TRUNCATE TABLE ready")
        rows = [("default", "mail" if number < 450 else "report", number, number, 0) for number in range(455)]
        await ada.many("INSERT INTO ready (queue, type, turn, id, run_at) VALUES (%s, %s, %s, %s, %s)", rows)
        await ada.commit()
        theirs = await leasing.take(ben, ("default", "report"), 5, FAR)
        ours = await leasing.take(ada, LANE, 450, FAR)
        await ada.commit()
    assert [job_id for _, job_id in (*ours, *theirs)] == list(range(455))


async def test_nobody_waits_for_a_caller_who_has_put_a_job_into_the_stretch(url: str, store: MysqlStore) -> None:
    """Its transaction may stay open for long. What is in the way fails the claim, which then goes another way."""
    jobs = new_jobs(2 * MANY)
    await store.insert(jobs)
    async with connected(url) as caller:
        ((turn,),) = await caller.rows("SELECT turn FROM ready WHERE id = %(id)s", {"id": jobs[3].id})
        row = (*LANE, turn, jobs[3].id + 1, 0)
        await caller.many("INSERT INTO ready (queue, type, turn, id, run_at) VALUES (%s, %s, %s, %s, %s)", [row])
        async with asyncio.timeout(LOCK_WAIT_SECONDS / 2):
            assert ids_of(await all_that_can_be_had(store)) == ids_of(jobs)
    assert await store.check() == []
