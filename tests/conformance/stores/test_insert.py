from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import BASE, HOUR, MICROSECOND, SECOND, after, at, entry, fresh_id, ids_of, key, new_job, new_jobs
from conformance.stores.transitions import look, snapshot
from rota.core.bulk import UniformJobs
from rota.core.lifecycle import State
from rota.core.submission import Delivery, NewJob
from rota.ports.store import Inserted, JobQuery, Receipt, Store


async def test_the_entry_is_written_with_the_job_that_it_tells_of(store: Store) -> None:
    """It was a transaction of its own: a crash between them left an act on no record."""
    job = new_job(idempotency=key("a"))
    (made,) = await store.insert([job], entry=entry("run now"), now=BASE)
    assert (made.receipt, [one.action for one in await store.ledger()]) == (Receipt.CREATED, ["run now"])
    assert (await look(store, job)).state is State.PENDING


async def test_no_entry_is_written_where_no_job_is_made(store: Store) -> None:
    await store.insert([new_job(idempotency=key("a"))], now=BASE)
    (again,) = await store.insert([new_job(idempotency=key("a"))], entry=entry(), now=BASE)
    (full,) = await store.insert([new_job()], bound=1, entry=entry(), now=BASE)
    assert (again.receipt, full.receipt) == (Receipt.REPLAYED, Receipt.QUEUE_FULL)
    assert list(await store.ledger()) == []


async def test_a_job_without_a_time_is_pending_from_now_on(store: Store) -> None:
    job = new_job()
    assert await store.insert([job], now=BASE) == [Inserted(job.id, Receipt.CREATED, State.PENDING)]
    stored = await look(store, job)
    assert (stored.state, stored.run_at) == (State.PENDING, BASE)


async def test_a_job_with_a_past_time_is_pending_and_keeps_its_time(store: Store) -> None:
    job = new_job(run_at=BASE - HOUR)
    assert (await store.insert([job], now=BASE))[0].state is State.PENDING
    assert (await look(store, job)).run_at == BASE - HOUR


async def test_a_job_whose_time_is_this_very_moment_is_pending(store: Store) -> None:
    (answer,) = await store.insert([new_job(run_at=BASE)], now=BASE)
    assert answer.state is State.PENDING


async def test_a_job_with_a_later_time_is_scheduled(store: Store) -> None:
    job = new_job(run_at=BASE + MICROSECOND)
    (answer,) = await store.insert([job], now=BASE)
    assert answer.state is State.SCHEDULED
    assert (await look(store, job)).state is State.SCHEDULED


async def test_a_new_job_is_created_and_updated_now_and_has_never_run(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE + SECOND)
    stored = await look(store, job)
    assert (stored.created_at, stored.updated_at) == (BASE + SECOND, BASE + SECOND)
    assert (stored.fence, stored.attempts, stored.crashes, stored.blockers) == (0, 0, 0, 0)
    assert {stored.worker, stored.boot, stored.lease_until, stored.started_at, stored.finished_at} == {None}
    assert {stored.cancel_requested_at, stored.result, stored.error, stored.reason} == {None}
    assert await store.attempts(job.id) == []


async def test_answers_come_in_the_order_of_the_submissions(store: Store) -> None:
    jobs = new_jobs(50)
    jobs.reverse()
    answers = await store.insert(jobs, now=BASE)
    assert [answer.job_id for answer in answers] == ids_of(jobs)


async def test_an_id_that_is_taken_makes_nothing(store: Store) -> None:
    job = new_job(payload='"first"')
    await store.insert([job], now=BASE)
    before = await snapshot(store)
    answers = await store.insert([new_job(id=job.id, payload='"second"')], now=BASE + SECOND)
    assert answers == [Inserted(job.id, Receipt.ID_TAKEN, State.PENDING)]
    assert await snapshot(store) == before


async def test_an_id_that_comes_twice_in_one_batch_makes_the_first(store: Store) -> None:
    first = new_job(payload='"first"')
    second = new_job(id=first.id, payload='"second"')
    answers = await store.insert([first, second], now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, Receipt.ID_TAKEN]
    assert (await look(store, first)).payload == '"first"'


async def test_a_refused_submission_does_not_hinder_those_around_it(store: Store) -> None:
    taken = new_job()
    await store.insert([taken], now=BASE)
    before, behind = new_job(), new_job()
    answers = await store.insert([before, new_job(id=taken.id), behind], now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, Receipt.ID_TAKEN, Receipt.CREATED]
    assert ids_of(await store.get([before.id, behind.id])) == [before.id, behind.id]


async def test_a_refused_submission_leaves_no_tag_behind(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await store.insert([new_job(id=job.id, tags=("ghost",))], now=BASE)
    assert await store.find(JobQuery(tag="ghost")) == []


async def test_an_insert_without_a_key_that_is_repeated_makes_no_second_job(store: Store) -> None:
    jobs = new_jobs(3)
    await store.insert(jobs, now=BASE)
    await store.insert(jobs, now=BASE)
    assert (await store.census()).total() == 3


async def test_an_empty_batch_is_answered_with_nothing(store: Store) -> None:
    assert await store.insert([], now=BASE) == []


async def test_a_batch_of_thousands_is_stored_whole(store: Store) -> None:
    jobs = new_jobs(5_000)
    answers = await store.insert(jobs, now=BASE)
    assert {answer.receipt for answer in answers} == {Receipt.CREATED}
    assert (await store.census()).total(State.PENDING) == 5_000


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"queue": "narrow"},
        {"priority": 9},
        {"run_at": BASE - HOUR},
        {"run_at": BASE + HOUR},
        {"max_attempts": 1},
        {"delivery": Delivery.AT_MOST_ONCE},
        {"timeout": SECOND},
        {"meta": {"from": "here"}},
    ],
    ids=str,
)
async def test_jobs_are_stored_together_as_each_would_be_alone(store: Store, fields: dict[str, Any]) -> None:
    """Those of a batch that are alike may be stored in another way; those of a mixed one in a third."""
    alone, *alike = new_jobs(3, **fields)
    mixed = [new_job(**fields), new_job("report", **{"priority": 2, **fields})]
    alike[1] = replace(alike[1], payload='{"another":"payload"}')
    batches: list[list[NewJob]] = [[alone], alike, mixed]
    answers = [answer for batch in batches for answer in await store.insert(batch, now=BASE)]
    jobs = [job for batch in batches for job in batch]
    for job, answer in zip(jobs, answers, strict=True):
        stored = await look(store, job)
        expected = await look(store, alone)
        assert answer == Inserted(job.id, Receipt.CREATED, expected.state)
        assert stored == replace(expected, id=job.id, type=job.type, payload=job.payload, priority=job.priority)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "report"},
        {"queue": "narrow"},
        {"priority": 9},
        {"run_at": BASE + HOUR},
        {"max_attempts": 1},
        {"delivery": Delivery.AT_MOST_ONCE},
    ],
    ids=str,
)
async def test_what_differs_in_one_thing_only_keeps_it(store: Store, fields: dict[str, Any]) -> None:
    usual, other = new_job(), replace(new_job(), **fields)
    await store.insert([usual, other], now=BASE)
    stored = await look(store, other)
    assert {name: getattr(stored, name) for name in fields} == fields
    assert {name: getattr(await look(store, usual), name) for name in fields} != fields


async def test_one_of_many_alike_whose_id_is_taken_is_refused_alone(store: Store) -> None:
    jobs = new_jobs(5)
    await store.insert([jobs[3]], now=BASE)
    answers = await store.insert(jobs, now=BASE)
    assert [answer.receipt for answer in answers] == [
        Receipt.ID_TAKEN if place == 3 else Receipt.CREATED for place in range(5)
    ]
    assert len(await store.get(ids_of(jobs))) == 5


async def test_jobs_come_back_in_the_order_asked_for_and_unknown_ones_are_absent(store: Store) -> None:
    first, second, third = new_jobs(3)
    await store.insert([first, second, third], now=BASE)
    assert ids_of(await store.get([third.id, new_job().id, first.id])) == [third.id, first.id]


async def test_thousands_of_jobs_can_be_read_at_once(store: Store) -> None:
    """SQLite takes no more than 32,766 parameters in a statement, PostgreSQL 65,535."""
    jobs = new_jobs(100)
    await store.insert(jobs, now=BASE)
    unknown = [new_job().id for _ in range(70_000)]
    assert ids_of(await store.get([*unknown, *ids_of(jobs)])) == ids_of(jobs)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"priority": 9, "max_attempts": 7, "run_at": BASE - HOUR}, id="overdue"),
        pytest.param({"run_at": BASE + HOUR}, id="later"),
        pytest.param({"tags": ("red",), "meta": {"a": "b"}, "timeout": HOUR}, id="with more"),
        pytest.param({"idempotency": key("k")}, id="under one key"),
    ],
)
@pytest.mark.parametrize("number", [2, 20, 300])
async def test_jobs_that_are_alike_are_stored_as_if_each_came_by_itself(
    store: Store, number: int, fields: dict[str, Any]
) -> None:
    jobs = [replace(job, payload=f'"{place}"') for place, job in enumerate(new_jobs(number, **fields))]
    jobs.reverse()
    alike = UniformJobs(replace(jobs[0], payload="null"), ids_of(jobs), [job.payload for job in jobs])
    answers = await store.insert(alike, now=BASE)
    made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
    assert len(made) == (1 if "idempotency" in fields else number)
    one_by_one = [replace(job, id=fresh_id(), queue="other", idempotency=None) for job in made]
    for job in one_by_one:
        await store.insert([job], now=BASE)
    for job, other in zip(made, one_by_one, strict=True):
        stored = await look(store, job)
        assert replace(await look(store, other), id=job.id, queue=job.queue, idempotency_key=None) == replace(
            stored, idempotency_key=None
        )
    assert await store.check() == []


async def test_of_jobs_that_are_alike_one_whose_id_is_taken_does_not_hinder_the_others(store: Store) -> None:
    jobs = new_jobs(30)
    await store.insert([replace(jobs[7], type="other", payload='"first"')], now=BASE)
    answers = await store.insert(UniformJobs(jobs[0], ids_of(jobs), ['"second"'] * len(jobs)), now=BASE)
    assert [place for place, answer in enumerate(answers) if answer.receipt is not Receipt.CREATED] == [7]
    assert [answer.job_id for answer in answers] == ids_of(jobs)
    assert [(await look(store, job)).payload for job in jobs[6:8]] == ['"second"', '"first"']


async def test_of_jobs_that_are_alike_only_so_many_come_in_as_may_wait(store: Store) -> None:
    jobs = new_jobs(30)
    answers = await store.insert(UniformJobs(jobs[0], ids_of(jobs), ["null"] * len(jobs)), bound=20, now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED] * 20 + [Receipt.QUEUE_FULL] * 10


async def test_the_answer_tells_the_time_that_the_store_wrote(store: Store) -> None:
    """By the store's own clock: no other is read for `now`."""
    parent = new_job()
    batches = [
        [parent],
        [new_job(run_at=BASE + 1_000_000 * HOUR)],
        [new_job(run_at=BASE)],
        [new_job() for _ in range(20)],
        [new_job(f"t{number}") for number in range(20)],
        [new_job(idempotency=key("a")), new_job(tags=("b",)), new_job(after=after(parent))],
    ]
    for jobs in batches:
        for answer in await store.insert(jobs):
            (stored,) = await store.get([answer.job_id])
            assert answer.at == stored.created_at == stored.updated_at
    (recorded,) = await store.insert([new_job()], entry=entry())
    (bounded,) = await store.insert([new_job()], bound=1_000)
    times = {job.id: job.created_at for job in await store.get([recorded.job_id, bounded.job_id])}
    assert times == {recorded.job_id: recorded.at, bounded.job_id: bounded.at}


async def test_an_answer_without_a_new_job_tells_no_time(store: Store) -> None:
    first = new_job(idempotency=key("a"))
    await store.insert([first], now=BASE)
    replayed, reused = await store.insert(
        [new_job(idempotency=key("a")), new_job(idempotency=key("a", b"other"))], now=at(1)
    )
    (taken,) = await store.insert([replace(new_job(), id=first.id)], now=at(1))
    (full,) = await store.insert([new_job()], bound=1, now=at(1))
    assert [one.receipt for one in (replayed, reused, taken, full)] == [
        Receipt.REPLAYED,
        Receipt.KEY_REUSED,
        Receipt.ID_TAKEN,
        Receipt.QUEUE_FULL,
    ]
    assert [one.at for one in (replayed, reused, taken, full)] == [None] * 4
