from __future__ import annotations

from builders import ADA, BASE, HOUR, at, claim, entry, failure, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, call_off, end, look
from rota.core.lease import Renewal
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Released
from rota.ports.store import Store


async def test_a_running_job_is_marked_and_goes_on_running(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    assert await store.ask_cancel([(job.id, held.fence)], now=at(2)) == [job.id]
    marked = await look(store, job)
    assert (marked.state, marked.cancel_requested_at) == (State.RUNNING, at(2))


async def test_asking_again_is_answered_and_keeps_the_first_moment(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.ask_cancel([(job.id, held.fence)], now=at(2))
    assert await store.ask_cancel([(job.id, held.fence)], now=at(3)) == [job.id]
    assert (await look(store, job)).cancel_requested_at == at(2)


async def test_only_those_that_run_under_the_fence_are_marked(store: Store) -> None:
    running, pending, ended = new_jobs(3)
    await store.insert([running, pending, ended], now=BASE)
    held = await begin(store, running)
    await end(store, await begin(store, ended), Released())
    asked = [(pending.id, 0), (running.id, held.fence), (ended.id, 1)]
    assert await store.ask_cancel(asked, now=BASE) == [running.id]
    assert (await look(store, pending)).cancel_requested_at is None


async def test_an_entry_is_written_when_any_was_marked(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.ask_cancel([(job.id, held.fence)], entry=entry("ask"), now=BASE)
    assert [written.action for written in await store.ledger()] == ["ask"]


async def test_no_entry_is_written_when_none_was_marked(store: Store) -> None:
    await store.ask_cancel([(new_job().id, 1)], entry=entry("ask"), now=BASE)
    assert await store.ledger() == []


async def test_a_marked_job_whose_lease_is_lost_does_not_run_again(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.ask_cancel([(job.id, held.fence)], now=BASE)
    (lost,) = await store.lost(10, now=at(60))
    await end(store, lost, Lost(), at(60))
    assert (await look(store, job)).state is State.CANCELLED
    assert await store.claim(claim(), now=BASE + HOUR) == []


async def test_a_marked_job_that_fails_does_not_run_again(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.ask_cancel([(job.id, held.fence)], now=BASE)
    ended = await end(store, await look(store, job), failure())
    assert ended.state is State.CANCELLED


async def test_the_mark_of_one_job_is_not_told_to_another(store: Store) -> None:
    marked, other = new_jobs(2)
    await store.insert([marked, other], now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    await store.ask_cancel([(marked.id, 1)], now=BASE)
    answers = await store.renew([Renewal(job.id, job.fence) for job in held], now=BASE)
    assert {answer.job_id: answer.cancel for answer in answers} == {marked.id: True, other.id: False}


async def test_a_cancelled_job_is_never_given(store: Store) -> None:
    keep, drop = new_jobs(2)
    await store.insert([keep, drop], now=BASE)
    await call_off(store, drop)
    assert ids_of(await store.claim(claim(), now=BASE)) == [keep.id]
