from __future__ import annotations

import pytest

from builders import BASE, HOUR, MICROSECOND, after, at, entry, failure, fresh_id, key, new_job, new_jobs
from conformance.stores.transitions import begin, call_off, complete, end, end_as, kill, look, snapshot, state
from rota.core.decision import retry
from rota.core.lifecycle import State
from rota.core.submission import Need
from rota.ports.store import JobQuery, Receipt, Store


@pytest.mark.parametrize("final", [State.DEAD, State.CANCELLED])
async def test_a_dead_or_cancelled_job_is_deleted_at_an_operators_word(store: Store, final: State) -> None:
    job, other = new_jobs(2)
    await store.insert([job, other], now=BASE)
    await end_as(store, final, job, other)
    assert await store.discard([job.id], now=at(1)) == [job.id]
    assert await store.get([job.id]) == []
    assert await state(store, other) is final


async def test_a_discarded_job_counts_as_pruned(store: Store) -> None:
    dead, gone = new_jobs(2)
    await store.insert([dead, gone], now=BASE)
    await kill(store, dead)
    await call_off(store, gone)
    await store.discard([dead.id, gone.id], now=at(1))
    census = await store.census()
    assert census.total() == 0
    assert {name: count for name, count in census.pruned.items() if count} == {State.DEAD: 1, State.CANCELLED: 1}


async def test_only_dead_and_cancelled_jobs_are_deleted(store: Store) -> None:
    parent, running, retrying, done, pending = new_jobs(5)
    rest = [new_job(after=after(parent)), new_job(run_at=BASE + HOUR)]
    await store.insert([parent, running, retrying, done, pending, *rest], now=BASE)
    await begin(store, running)
    await end(store, await begin(store, retrying), failure())
    await complete(store, done)
    before = await snapshot(store)
    everything = [job.id for job in before.jobs]
    assert await store.discard([*everything, fresh_id()], entry=entry(), now=at(1)) == []
    assert await snapshot(store) == before


async def test_what_an_unfinished_job_waited_for_stays(store: Store) -> None:
    ended, open_ = new_jobs(2)
    child = new_job(after=(*after(ended, need=Need.END), *after(open_)))
    await store.insert([ended, open_, child], now=BASE)
    await kill(store, ended)
    assert await store.discard([ended.id], now=at(1)) == []
    assert await state(store, ended) is State.DEAD


async def test_what_only_finished_jobs_waited_for_goes(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await kill(store, parent)
    assert set(await store.discard([parent.id, child.id], now=at(1))) == {parent.id, child.id}


async def test_a_job_whose_key_is_still_kept_stays(store: Store) -> None:
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    await kill(store, job)
    assert await store.discard([job.id], now=BASE + HOUR - MICROSECOND) == []
    assert await store.discard([job.id], now=BASE + HOUR) == [job.id]
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE + HOUR)
    assert answer.receipt is Receipt.CREATED


async def test_all_that_belongs_to_a_discarded_job_goes_with_it(store: Store) -> None:
    job = new_job(tags=("t",))
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.intend(job.id, held.fence, "step", now=BASE)
    await end(store, held, failure(permanent=True))
    await store.discard([job.id], now=at(1))
    assert (await store.attempts(job.id), await store.steps(job.id)) == ([], [])
    assert await store.find(JobQuery(tag="t")) == []


async def test_a_job_that_was_retried_meanwhile_stays(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await kill(store, job)
    await store.settle([retry(await look(store, job), at(1))], now=at(1))
    assert await store.discard([job.id], now=at(2)) == []


async def test_an_entry_is_written_when_anything_was_discarded(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await kill(store, job)
    await store.discard([job.id, fresh_id()], entry=entry("discard"), now=at(1))
    await store.discard([job.id], entry=entry("again"), now=at(1))
    assert [written.action for written in await store.ledger()] == ["discard"]
