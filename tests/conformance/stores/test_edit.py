"""A waiting job is changed in place, if it is still as it was read; its place in claim order follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import BASE, HOUR, after, at, claim, entry, failure, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, complete, end, look, snapshot, state
from rota.core.job_edit import JobEdit, change_of
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.ports.store import JobQuery, Store


async def change(store: Store, job: NewJob, edit: JobEdit, seconds: float = 1) -> bool:
    return await store.edit(change_of(await look(store, job), edit, at(seconds)), entry=entry("edit"), now=at(seconds))


async def test_every_field_is_changed_and_the_ledger_has_it(store: Store) -> None:
    job, other = new_job(tags=("red", "old")), new_job(tags=("red",))
    await store.insert([job, other], now=BASE)
    edit = JobEdit(
        queue="side", priority=9, run_at=BASE + HOUR, max_attempts=7, tags=("blue", "red"), payload='{"to":"ïda"}'
    )
    assert await change(store, job, edit)
    found = await look(store, job)
    assert (found.queue, found.priority, found.run_at, found.max_attempts) == ("side", 9, BASE + HOUR, 7)
    assert (found.tags, found.payload, found.state) == (("blue", "red"), '{"to":"ïda"}', State.SCHEDULED)
    assert found.updated_at == at(1)
    assert ids_of(await store.find(JobQuery(tag="blue"))) == [job.id]
    assert ids_of(await store.find(JobQuery(tag="old"))) == []
    assert [one.action for one in await store.ledger()] == ["edit"]
    assert await look(store, other) == replace(await look(store, other), tags=("red",), updated_at=BASE)


async def test_a_job_with_another_priority_takes_another_place(store: Store) -> None:
    first, second, third = new_jobs(3)
    await store.insert([first], now=BASE)
    await store.insert([second], now=at(1))
    await store.insert([third], now=at(2))
    assert await change(store, third, JobEdit(priority=8), 3)
    assert await change(store, first, JobEdit(priority=2), 4)
    assert ids_of(await store.claim(claim(), now=at(5))) == [third.id, second.id, first.id]


async def test_a_job_goes_to_another_queue_and_leaves_its_own(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    assert await change(store, job, JobEdit(queue="side"))
    assert await store.claim(claim(), now=at(2)) == []
    assert ids_of(await store.claim(claim(queues=("side",)), now=at(2))) == [job.id]
    assert [(one.lane.queue, one.count) for one in (await store.census()).lanes if one.count] == [("side", 1)]


async def test_a_later_time_keeps_a_job_and_an_earlier_one_makes_it_due(store: Store) -> None:
    job, waiting = new_job(), new_job(run_at=BASE + HOUR)
    await store.insert([job, waiting], now=BASE)
    assert await change(store, job, JobEdit(run_at=at(60)))
    assert await change(store, waiting, JobEdit(run_at=BASE))
    assert ids_of(await store.claim(claim(), now=at(2))) == [waiting.id]
    assert await store.promote(10, now=at(61)) == {"default": 1}
    assert ids_of(await store.claim(claim(), now=at(61))) == [job.id]


async def test_a_retrying_job_keeps_its_error_and_its_attempts(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), failure())
    assert await change(store, job, JobEdit(payload="[1]", run_at=at(90)))
    found = await look(store, job)
    assert (found.state, found.attempts, found.payload, found.run_at) == (State.RETRYING, 1, "[1]", at(90))
    assert found.error is not None


async def test_a_blocked_job_is_changed_and_goes_on_waiting(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    assert await change(store, child, JobEdit(queue="side", priority=9))
    assert await state(store, child) is State.BLOCKED
    await complete(store, parent, now=at(2))
    assert ids_of(await store.claim(claim(queues=("side",)), now=at(3))) == [child.id]


@pytest.mark.parametrize("what", ["claimed", "edited"])
async def test_a_job_that_changed_meanwhile_is_left_alone(store: Store, what: str) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    late = change_of(await look(store, job), JobEdit(queue="side", tags=("x",)), at(1))
    if what == "claimed":
        await begin(store, job, at(2))
    else:
        assert await change(store, job, JobEdit(priority=6), 2)
    before = await snapshot(store)
    assert not await store.edit(late, entry=entry(), now=at(3))
    assert await snapshot(store) == before
