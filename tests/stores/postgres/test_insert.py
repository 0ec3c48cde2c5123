"""Plain jobs are stored by one of four statements, each restricted to a range of ids: same rows, same refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from builders import ADA, claim, means, new_job
from rota.core.bulk import UniformJobs, as_uniform
from rota.core.decision import decide
from rota.core.ids import LARGEST, JobId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.ports.store import Inserted, Receipt
from rota.stores.postgres import PostgresStore, insert
from rota.stores.postgres.notify import Notification
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import IdRanges, all_ids, id_range

NOW = 1_800_000_000_000_000
FINISHED = """
INSERT INTO rota_job_done (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, finished_at
)
VALUES ($1, 'mail', 'default', 5, 'completed', 1, 1, 1, 1, 1, 'at_least_once', 'null', 1)
"""
NOTICE = Notification("rota_work", '["somebody", ["default", "mail", 5]]')


#: A stretch of ids that has those of these tests, as a day has, and one that has none of them.
NEAR, FAR = id_range(1, LARGEST - 1), id_range(1, 2)


async def put(store: PostgresStore, job: NewJob, notice: Notification | None) -> Inserted | None:
    return await store._database.alone(insert.insert_one, job, all_ids, NOW, notice)


async def put_due(session: Session, job: NewJob, id_ranges: IdRanges) -> Inserted | None:
    return await insert.insert_due(session, job, id_ranges, NOW)


async def put_one(session: Session, job: NewJob, id_ranges: IdRanges) -> Inserted | None:
    return await insert.insert_one(session, job, id_ranges, NOW, None)


def alike(*jobs: NewJob) -> UniformJobs:
    found = as_uniform(jobs)
    assert found is not None
    return found


async def put_bulk(session: Session, job: NewJob, id_ranges: IdRanges) -> Inserted | None:
    return (await insert.insert_bulk(session, alike(job), id_ranges, None, NOW))[0]


async def put_plain(session: Session, job: NewJob, id_ranges: IdRanges) -> Inserted | None:
    return (await insert.insert_plain(session, [job], id_ranges, None, NOW))[0]


Way = Callable[[Session, NewJob, IdRanges], Awaitable[Inserted | None]]
WAYS: list[Way] = [put_due, put_one, put_bulk, put_plain]


async def row(dsn: str, job: NewJob) -> dict[str, Any]:
    connection = await asyncpg.connect(dsn)
    try:
        (found,) = await connection.fetch("SELECT * FROM rota_job WHERE id = $1", job.id)
        return {name: value for name, value in found.items() if name != "id"}
    finally:
        await connection.close()


async def test_a_job_is_stored_alike_with_and_without_a_notification(store: PostgresStore, dsn: str) -> None:
    fields = {"queue": "slow", "priority": 3, "max_attempts": 7, "payload": '{"to": "ann"}'}
    quietly, aloud = new_job("bill", **fields), new_job("bill", **fields)
    answers = [await put(store, quietly, None), await put(store, aloud, NOTICE)]
    assert [(one.receipt, one.state) for one in answers if one] == [(Receipt.CREATED, "pending")] * 2
    assert await row(dsn, quietly) == await row(dsn, aloud)
    assert (await row(dsn, quietly))["queue"] == "slow"


@pytest.mark.parametrize("notice", [None, NOTICE])
async def test_a_job_of_a_limited_queue_is_left_aside(
    store: PostgresStore, dsn: str, notice: Notification | None
) -> None:
    taken, finished, bounded = new_job(), new_job(), new_job(queue="narrow")
    await store.insert([taken])
    connection = await asyncpg.connect(dsn)
    await connection.execute("INSERT INTO rota_queue (name, max_depth, version) VALUES ('narrow', 1, 1)")
    await connection.execute(FINISHED, finished.id)
    assert [await put(store, job, notice) for job in (taken, finished, bounded)] == [None] * 3
    assert await connection.fetchval("SELECT count(*) FROM rota_job") == 1
    await connection.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ending", [all_ids(JobId(1), JobId(1)), NEAR], ids=["all_ids", "near"])
async def test_a_taken_id_is_left_aside(store: PostgresStore, dsn: str, way: Way, ending: str) -> None:
    fresh, finished = new_job(), new_job()
    connection = await asyncpg.connect(dsn)
    await connection.execute(FINISHED, finished.id)
    answers = [await store._database.alone(way, job, lambda *_: ending) for job in (fresh, finished)]
    assert [answer and answer.job_id for answer in answers] == [fresh.id, None]
    assert await connection.fetchval("SELECT array_agg(id) FROM rota_job") == [fresh.id]
    await connection.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_statement_stores_no_id_outside_its_range(store: PostgresStore, dsn: str, way: Way) -> None:
    """It would not see whether a job of that id has ended."""
    assert await store._database.alone(way, new_job(), lambda *_: FAR) is None
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("SELECT count(*) FROM rota_job") == 0
    await connection.close()


async def put_rich(session: Session, job: NewJob, id_ranges: IdRanges) -> Inserted | None:
    del id_ranges
    return (await insert.insert(session, [job], None, NOW))[0]


async def put_for_open_claim(session: Session, job: NewJob, id_ranges: IdRanges) -> Inserted | None:
    stored = await insert.insert_for_open_claim(session, job, id_ranges, NOW, NOTICE)
    return None if stored is None else stored[0]


END = """
WITH gone AS (DELETE FROM rota_job WHERE id = $1 RETURNING *)
INSERT INTO rota_job_done (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, finished_at
)
SELECT id, type, queue, priority, 'completed', turn, run_at, created_at, 1, max_attempts, delivery, payload, 1 FROM gone
"""


async def until_it_waits(connection: asyncpg.Connection, work: asyncio.Future[Any]) -> None:
    """Wait until another connection waits for a lock of this one, or the work is done.

    Never cancelled: a query that is called off would take this connection's transaction with it.
    """
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    while not work.done() and not await connection.fetchval(waiting):
        pass


@pytest.mark.parametrize("way", [*WAYS, put_for_open_claim, put_rich])
async def test_an_id_whose_job_ends_at_this_moment_is_taken(
    store: PostgresStore, stranger: asyncpg.Connection, way: Way
) -> None:
    """The statement began before the job's end was committed, and reaches the unique index after."""
    job = new_job()
    await store.insert([job])
    transaction = stranger.transaction()
    await transaction.start()
    await stranger.execute(END, job.id)
    again = asyncio.ensure_future(store._database.write(way, job, all_ids))
    await until_it_waits(stranger, again)
    await transaction.commit()
    answer = await again
    assert answer is None or answer.receipt is Receipt.ID_TAKEN
    assert await stranger.fetchval("SELECT count(*) FROM rota_job") == 0


@pytest.mark.parametrize("tags", [(), ("rich",)])
async def test_an_id_whose_job_came_and_ended_while_a_batch_waited_is_taken(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection, tags: tuple[str, ...]
) -> None:
    """The batch began before the job was there. Nothing that its statement sees tells of it."""
    first, second = new_job(tags=tags), new_job(tags=tags)
    transaction = stranger.transaction()
    await transaction.start()
    await stranger.execute(FINISHED.replace("rota_job_done", "rota_job").replace("'completed'", "'pending'"), first.id)
    batch = asyncio.ensure_future(store.insert([first, second]))
    await until_it_waits(stranger, batch)
    await other.insert([second])
    (held,) = await other.claim(claim(ADA, ids=(second.id,)))
    await other.settle([decide(held, Succeeded(), means(datetime.now(UTC)))])
    await transaction.rollback()
    assert [answer.receipt for answer in await batch] == [Receipt.CREATED, Receipt.ID_TAKEN]
    assert await stranger.fetchval("SELECT array_agg(id) FROM rota_job") == [first.id]


async def left(dsn: str) -> dict[int, str]:
    connection = await asyncpg.connect(dsn)
    try:
        return dict(await connection.fetch("SELECT id, payload FROM rota_job"))
    finally:
        await connection.close()


async def put_all(store: PostgresStore, jobs: list[NewJob], id_ranges: IdRanges = all_ids) -> Sequence[Inserted | None]:
    return await store._database.alone(insert.insert_bulk, alike(*jobs), id_ranges, None, NOW)


@pytest.mark.parametrize("trouble", ["taken", "finished", "twice", "far"])
async def test_jobs_of_one_kind_are_stored_all_or_none(store: PostgresStore, dsn: str, trouble: str) -> None:
    jobs = [new_job() for _ in range(5)]
    connection = await asyncpg.connect(dsn)
    id_ranges: IdRanges = all_ids
    match trouble:
        case "taken":
            await store.insert([jobs[3]])
        case "finished":
            await connection.execute(FINISHED, jobs[3].id)
        case "twice":
            jobs.append(jobs[3])
        case "far":
            ids = sorted(job.id for job in jobs)
            id_ranges = lambda *_: id_range(1, ids[3])  # noqa: E731 - one of five is beyond
    before = await left(dsn)
    assert await put_all(store, jobs, id_ranges) == [None] * len(jobs)
    assert await left(dsn) == before
    await connection.close()


async def test_one_taken_id_in_a_batch_is_reported_and_the_others_are_stored(store: PostgresStore, dsn: str) -> None:
    jobs = [new_job(payload=f"[{number}]") for number in range(5)]
    await store.insert([jobs[3]])
    receipts = [answer.receipt for answer in await store.insert(jobs)]
    assert receipts == [Receipt.ID_TAKEN if place == 3 else Receipt.CREATED for place in range(5)]
    assert await left(dsn) == {job.id: job.payload for job in jobs}


@pytest.mark.parametrize("odd", ["", "a\x1fb", "\x1f", '"\\u001f"', '"\u00fc\U0001f600"', "{},\\\"'"])
async def test_each_job_of_a_batch_keeps_its_payload(store: PostgresStore, dsn: str, odd: str) -> None:
    """They go to the server as one text. What is not JSON comes past the API only, and is kept as well."""
    jobs = [new_job(payload=payload) for payload in ("[1]", odd, "[2]", odd)][::-1]
    answers = await store.insert(jobs)
    assert [(answer.job_id, answer.receipt) for answer in answers] == [(job.id, Receipt.CREATED) for job in jobs]
    assert await left(dsn) == {job.id: job.payload for job in jobs}


async def test_a_batch_that_is_due_later_is_scheduled(store: PostgresStore) -> None:
    later = datetime(2999, 1, 1, tzinfo=UTC)
    answers = await store.insert([new_job(run_at=later) for _ in range(3)])
    assert [answer.state for answer in answers] == [State.SCHEDULED] * 3
