"""Jobs that are handed in together are stored by one statement, and none of them suffers for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from building import BASE, HOUR, MICROSECOND, new_job
from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lane import Queue
from rota.core.lifecycle import State
from rota.core.submission import Delivery, NewJob
from rota.ports.store import Inserted, JobQuery, Receipt
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import MOST_ROWS, Parameters, StandardConnection


class Listening(StandardConnection):
    """A connection that remembers what it was asked to run."""

    said: list[str]
    prepared: set[str]

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        self.prepared.add(sql)
        self.said.append(sql.split(maxsplit=1)[0])
        return super().run(sql, parameters)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    connect = type("Heard", (Listening,), {"said": [], "prepared": set()})
    store = await SqliteStore.open(tmp_path / "rota.db", connect=connect)
    yield store
    await store.close()


async def crowd(store: SqliteStore, jobs: list[NewJob]) -> list[Inserted]:
    """Hand jobs in one by one, all while the writer is busy, so that they go together."""
    with store._writer.turn:  # type: ignore[attr-defined]
        handed_in = [asyncio.ensure_future(store.insert([job], now=BASE)) for job in jobs]
        await asyncio.sleep(0)
        said(store).clear()
    return [answer for (answer,) in await asyncio.gather(*handed_in)]


def said(store: SqliteStore) -> list[str]:
    found: list[str] = store._writer._connection.said  # type: ignore[attr-defined]
    return found


async def stored(store: SqliteStore) -> dict[JobId, Job]:
    return {job.id: job for job in await store.find(JobQuery(limit=1000))}


@pytest.mark.parametrize("number", [2, 37, MOST_ROWS])
async def test_a_crowd_is_one_statement(store: SqliteStore, number: int) -> None:
    jobs = [new_job(payload=f"{place}") for place in range(number)]
    answers = await crowd(store, jobs)
    assert said(store) == ["INSERT"]
    assert answers == [Inserted(job.id, Receipt.CREATED, State.PENDING) for job in jobs]
    assert {job.id: job.payload for job in jobs} == {key: job.payload for key, job in (await stored(store)).items()}


async def test_a_crowd_of_different_jobs_is_one_statement_too(store: SqliteStore) -> None:
    jobs = [
        new_job("mail", queue="letters", priority=9),
        new_job("call", run_at=BASE + HOUR, max_attempts=7),
        new_job("walk", run_at=BASE - MICROSECOND, delivery=Delivery.AT_MOST_ONCE),
    ]
    answers = await crowd(store, jobs)
    assert said(store) == ["INSERT"]
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


async def test_crowds_of_all_sizes_share_few_statements(store: SqliteStore) -> None:
    """Each that is prepared is kept: there was one for every size, and they took 18 MB."""
    prepared: set[str] = store._writer._connection.prepared  # type: ignore[attr-defined]
    prepared.clear()
    for number in range(2, MOST_ROWS + 1):
        assert len(await store.insert([new_job() for _ in range(number)], now=BASE)) == number
    assert len(prepared) < 30
    assert (await store.census()).total() == sum(range(2, MOST_ROWS + 1))


async def test_more_than_fit_one_statement_are_stored_in_one_transaction(store: SqliteStore) -> None:
    jobs = [new_job() for _ in range(MOST_ROWS + 1)]
    assert {answer.receipt for answer in await crowd(store, jobs)} == {Receipt.CREATED}
    assert said(store).count("COMMIT") == 1
    assert len(await stored(store)) == MOST_ROWS + 1


async def test_an_id_that_is_taken_is_told_to_its_caller_alone(store: SqliteStore) -> None:
    taken = new_job(payload='"first"')
    await store.insert([taken], now=BASE)
    jobs = [new_job(), NewJob(taken.id, "mail"), new_job("call")]
    answers = await crowd(store, jobs)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, Receipt.ID_TAKEN, Receipt.CREATED]
    found = await stored(store)
    assert (len(found), found[taken.id].payload) == (3, '"first"')


async def test_the_same_id_twice_in_a_crowd_makes_one_job(store: SqliteStore) -> None:
    job = new_job()
    answers = await crowd(store, [job, job])
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, Receipt.ID_TAKEN]


async def test_a_crowd_minds_the_bound_of_a_queue(store: SqliteStore) -> None:
    await store.put_queue(Queue("default", max_depth=2), now=BASE)
    answers = await crowd(store, [new_job() for _ in range(4)])
    assert [answer.receipt for answer in answers] == [Receipt.CREATED] * 2 + [Receipt.QUEUE_FULL] * 2
    assert len(await stored(store)) == 2


async def test_a_job_that_cannot_be_stored_spoils_nothing_for_others(store: SqliteStore) -> None:
    good, bad = new_job(), new_job(payload='"\ud800"')
    with store._writer.turn:  # type: ignore[attr-defined]
        handed_in = [asyncio.ensure_future(store.insert([job], now=BASE)) for job in (good, bad, good)]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*handed_in, return_exceptions=True)
    assert isinstance(answers[1], Exception)
    assert list(await stored(store)) == [good.id]
