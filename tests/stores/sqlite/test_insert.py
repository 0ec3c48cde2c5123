"""Jobs that are submitted together are stored by one statement, and a bad one does not fail the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from builders import BASE, HOUR, MICROSECOND, new_job
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.queue import Queue
from rota.core.submission import Delivery, NewJob
from rota.ports.store import Inserted, JobQuery, Receipt
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import MAX_ROWS_PER_STATEMENT, Parameters, StandardConnection


class Recording(StandardConnection):
    """A connection that records the first words of its statements."""

    verbs: list[str]
    prepared: set[str]

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        self.prepared.add(sql)
        self.verbs.append(sql.split(maxsplit=1)[0])
        return super().run(sql, parameters)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    connect = type("Recorded", (Recording,), {"verbs": [], "prepared": set()})
    store = await SqliteStore.open(tmp_path / "rota.db", connect=connect)
    yield store
    await store.close()


async def batch(store: SqliteStore, jobs: list[NewJob]) -> list[Inserted]:
    """Submit jobs one by one while the writer is busy, so that they form a batch."""
    with store._writer.lock:  # type: ignore[attr-defined]
        handed_in = [asyncio.ensure_future(store.insert([job], now=BASE)) for job in jobs]
        await asyncio.sleep(0)
        verbs_of(store).clear()
    return [answer for (answer,) in await asyncio.gather(*handed_in)]


def verbs_of(store: SqliteStore) -> list[str]:
    found: list[str] = store._writer._connection.verbs  # type: ignore[attr-defined]
    return found


async def stored(store: SqliteStore) -> dict[JobId, Job]:
    return {job.id: job for job in await store.find(JobQuery(limit=1000))}


@pytest.mark.parametrize("number", [2, 37, MAX_ROWS_PER_STATEMENT])
async def test_a_batch_is_one_statement(store: SqliteStore, number: int) -> None:
    jobs = [new_job(payload=f"{place}") for place in range(number)]
    answers = await batch(store, jobs)
    assert verbs_of(store) == ["INSERT"]
    assert answers == [Inserted(job.id, Receipt.CREATED, State.PENDING) for job in jobs]
    assert {job.id: job.payload for job in jobs} == {key: job.payload for key, job in (await stored(store)).items()}


async def test_a_batch_of_different_jobs_is_one_statement_too(store: SqliteStore) -> None:
    jobs = [
        new_job("mail", queue="letters", priority=9),
        new_job("call", run_at=BASE + HOUR, max_attempts=7),
        new_job("walk", run_at=BASE - MICROSECOND, delivery=Delivery.AT_MOST_ONCE),
    ]
    answers = await batch(store, jobs)
    assert verbs_of(store) == ["INSERT"]
    assert [answer.state for answer in answers] == [State.PENDING, State.SCHEDULED, State.PENDING]
    found = await stored(store)
    for job in jobs:
        one = found[job.id]
        assert (one.type, one.queue, one.priority, one.max_attempts) == (
            job.type,
            job.queue,
            job.priority,
            job.max_attempts,
        )
        assert (one.run_at, one.delivery) == (job.run_at or BASE, job.delivery)


async def test_batches_of_all_sizes_share_few_statements(store: SqliteStore) -> None:
    """Prepared statements are kept: one for every size took 18 MB."""
    prepared: set[str] = store._writer._connection.prepared  # type: ignore[attr-defined]
    prepared.clear()
    for number in range(2, MAX_ROWS_PER_STATEMENT + 1):
        assert len(await store.insert([new_job() for _ in range(number)], now=BASE)) == number
    assert len(prepared) < 30
    assert (await store.census()).total() == sum(range(2, MAX_ROWS_PER_STATEMENT + 1))


async def test_more_than_fit_one_statement_are_stored_in_one_transaction(store: SqliteStore) -> None:
    jobs = [new_job() for _ in range(MAX_ROWS_PER_STATEMENT + 1)]
    assert {answer.receipt for answer in await batch(store, jobs)} == {Receipt.CREATED}
    assert verbs_of(store).count("COMMIT") == 1
    assert len(await stored(store)) == MAX_ROWS_PER_STATEMENT + 1


async def test_a_taken_id_is_reported_to_its_caller_only(store: SqliteStore) -> None:
    taken = new_job(payload='"first"')
    await store.insert([taken], now=BASE)
    jobs = [new_job(), NewJob(taken.id, "mail"), new_job("call")]
    answers = await batch(store, jobs)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, Receipt.ID_TAKEN, Receipt.CREATED]
    found = await stored(store)
    assert (len(found), found[taken.id].payload) == (3, '"first"')


async def test_the_same_id_twice_in_a_batch_makes_one_job(store: SqliteStore) -> None:
    job = new_job()
    answers = await batch(store, [job, job])
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, Receipt.ID_TAKEN]


async def test_a_batch_respects_the_limit_of_a_queue(store: SqliteStore) -> None:
    await store.put_queue(Queue("default", max_depth=2), now=BASE)
    answers = await batch(store, [new_job() for _ in range(4)])
    assert [answer.receipt for answer in answers] == [Receipt.CREATED] * 2 + [Receipt.QUEUE_FULL] * 2
    assert len(await stored(store)) == 2


async def test_a_job_that_cannot_be_stored_does_not_fail_the_others(store: SqliteStore) -> None:
    good, bad = new_job(), new_job(payload='"\ud800"')
    with store._writer.lock:  # type: ignore[attr-defined]
        handed_in = [asyncio.ensure_future(store.insert([job], now=BASE)) for job in (good, bad, good)]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*handed_in, return_exceptions=True)
    assert isinstance(answers[1], Exception)
    assert list(await stored(store)) == [good.id]
