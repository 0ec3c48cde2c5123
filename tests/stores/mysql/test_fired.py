"""Jobs that a schedule made have a table by which they are found: filled for those of before, emptied with the jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from building import BASE, at, claim, fresh_schedule_id, ids_of, means, new_job, new_jobs
from rota.core.decision import decide
from rota.core.identity import JobId, ScheduleId, to_text
from rota.core.instant import to_micros
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.ports.store import JobQuery, Retention
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import Connection, connect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import all_migrations, statements_in
from rota.stores.mysql.statements import statement
from rota.stores.rows import new_job_row


@pytest.fixture
async def connection(url: str, store: MysqlStore) -> AsyncIterator[Connection]:  # noqa: ARG001 - makes the tables
    connection = await connect(location_of(url), "test", autocommit=True)
    yield connection
    await connection.close()


async def insert_as_before(connection: Connection, jobs: list[NewJob]) -> None:
    """Store jobs as a release did that knew nothing of `fired`; they wait far ahead, where nobody claims them."""
    later = BASE + timedelta(days=1)
    rows = [new_job_row(job, State.SCHEDULED, later, to_micros(BASE)) for job in jobs]
    await connection.many(statement("insert"), rows)
    places = [(to_micros(later), job.id, State.SCHEDULED.value, job.queue, job.type) for job in jobs]
    await connection.many(statement("enter_scheduled"), places)


async def made_by(store: MysqlStore, schedule_id: ScheduleId) -> list[JobId]:
    return ids_of(await store.find(JobQuery(schedule_id=schedule_id)))


async def test_jobs_of_before_the_migration_are_found_by_their_schedule(fresh: Connection, fresh_url: str) -> None:
    schedule_id = fresh_schedule_id()
    old = new_jobs(3, schedule_id=schedule_id)
    for part in statements_in(all_migrations()[0].text, fresh.collation):
        await fresh.run(part)
    await insert_as_before(fresh, [*old, new_job()])
    store = await MysqlStore.open(fresh_url)
    assert await made_by(store, schedule_id) == sorted(ids_of(old), reverse=True)
    assert await store.check() == []
    await store.close()


async def test_what_an_older_process_makes_is_named_and_can_be_taken_in(
    store: MysqlStore, connection: Connection
) -> None:
    ours, theirs = new_jobs(2, schedule_id=fresh_schedule_id())
    assert ours.schedule_id is not None
    await store.insert([ours], now=BASE)
    await insert_as_before(connection, [theirs])
    assert await made_by(store, ours.schedule_id) == [ours.id]
    (finding,) = await store.check()
    assert finding.startswith(f"job {to_text(theirs.id)} was made by a schedule, but is not among that schedule's jobs")
    # What it says helps.
    await connection.run(finding[finding.index("INSERT") : finding.rindex(")")])
    assert await made_by(store, ours.schedule_id) == [theirs.id, ours.id]
    assert await store.check() == []


async def test_a_job_that_is_deleted_leaves_no_row(store: MysqlStore, connection: Connection) -> None:
    gone, kept = new_jobs(2, schedule_id=fresh_schedule_id())
    await store.insert([gone, kept], now=BASE)
    (claimed,) = await store.claim(claim(limit=1), now=BASE)
    await store.settle([decide(claimed, Succeeded("1"), means())], now=BASE)
    assert await store.prune(Retention(completed=timedelta(0)), 10, now=at(1)) == 1
    assert await connection.rows("SELECT job_id FROM fired") == ((kept.id,),)
