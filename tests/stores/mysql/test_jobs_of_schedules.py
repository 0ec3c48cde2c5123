"""Jobs of a schedule are listed by `rota_fired`; a missing row is found by the check, and pruning deletes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from builders import BASE, at, claim, fresh_schedule_id, ids_of, means, new_jobs
from rota.core.decision import decide
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.core.time import to_micros
from rota.ports.store import JobQuery, Retention
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.statements import statement
from rota.stores.rows import new_job_row


@pytest.fixture
async def connection(url: str, store: MysqlStore) -> AsyncIterator[MysqlConnection]:  # noqa: ARG001 - makes the tables
    connection = await connect(location_of(url), "test", autocommit=True)
    yield connection
    await connection.close()


async def insert_without_fired(connection: MysqlConnection, jobs: list[NewJob]) -> None:
    """Insert scheduled jobs without their rows in `rota_fired`."""
    later = BASE + timedelta(days=1)
    rows = [new_job_row(job, State.SCHEDULED, later, to_micros(BASE)) for job in jobs]
    await connection.many(statement("insert_jobs"), rows)
    places = [(to_micros(later), job.id, State.SCHEDULED.value, job.queue, job.type) for job in jobs]
    await connection.many(statement("insert_scheduled"), places)


async def made_by(store: MysqlStore, schedule_id: ScheduleId) -> list[JobId]:
    return ids_of(await store.find(JobQuery(schedule_id=schedule_id)))


async def test_the_check_finds_missing_rows_and_its_repair_works(
    store: MysqlStore, connection: MysqlConnection
) -> None:
    ours, theirs = new_jobs(2, schedule_id=fresh_schedule_id())
    assert ours.schedule_id is not None
    await store.insert([ours], now=BASE)
    await insert_without_fired(connection, [theirs])
    assert await made_by(store, ours.schedule_id) == [ours.id]
    (finding,) = await store.check()
    assert finding.startswith(f"job {to_text(theirs.id)} was made by a schedule, but is not listed among its jobs")
    await connection.run(finding[finding.index("INSERT") : finding.rindex(")")])
    assert await made_by(store, ours.schedule_id) == [theirs.id, ours.id]
    assert await store.check() == []


async def test_a_job_that_is_deleted_leaves_no_row(store: MysqlStore, connection: MysqlConnection) -> None:
    gone, kept = new_jobs(2, schedule_id=fresh_schedule_id())
    await store.insert([gone, kept], now=BASE)
    (claimed,) = await store.claim(claim(limit=1), now=BASE)
    await store.settle([decide(claimed, Succeeded("1"), means())], now=BASE)
    assert await store.prune(Retention(completed=timedelta(0)), 10, now=at(1)) == 1
    assert await connection.rows("SELECT job_id FROM rota_fired") == ((kept.id,),)
