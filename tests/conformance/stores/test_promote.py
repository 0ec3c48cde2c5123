from __future__ import annotations

from builders import BASE, HOUR, MICROSECOND, SECOND, at, claim, failure, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, end, look, state
from rota.core.lifecycle import State
from rota.core.outcome import Snoozed
from rota.core.retry import Backoff, Growth
from rota.ports.store import Store


async def test_a_scheduled_job_becomes_pending_when_its_time_has_come(store: Store) -> None:
    job = new_job(run_at=at(5))
    await store.insert([job], now=BASE)
    assert await store.promote(10, now=at(5)) == {"default": 1}
    promoted = await look(store, job)
    assert (promoted.state, promoted.run_at, promoted.updated_at) == (State.PENDING, at(5), at(5))


async def test_a_job_whose_time_has_not_come_stays(store: Store) -> None:
    job = new_job(run_at=at(5))
    await store.insert([job], now=BASE)
    assert await store.promote(10, now=at(5) - MICROSECOND) == {}
    assert await state(store, job) is State.SCHEDULED


async def test_a_job_in_backoff_becomes_pending_when_its_time_has_come(store: Store) -> None:
    job = new_job(backoff=Backoff(growth=Growth.CONSTANT, base=10 * SECOND, jitter=0))
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), failure())
    assert await store.promote(10, now=at(9)) == {}
    assert await store.promote(10, now=at(10)) == {"default": 1}


async def test_a_snoozed_job_becomes_pending_when_its_time_has_come(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), Snoozed(HOUR))
    assert await store.promote(10, now=BASE + HOUR) == {"default": 1}


async def test_jobs_are_counted_by_queue(store: Store) -> None:
    await store.insert([*new_jobs(3, queue="a", run_at=at(1)), *new_jobs(2, queue="b", run_at=at(1))], now=BASE)
    assert await store.promote(10, now=at(1)) == {"a": 3, "b": 2}


async def test_no_more_than_the_limit_are_promoted_and_the_earliest_first(store: Store) -> None:
    jobs = [new_job(run_at=at(second)) for second in (5, 3, 1, 4, 2)]
    await store.insert(jobs, now=BASE)
    assert await store.promote(3, now=at(10)) == {"default": 3}
    assert [job.run_at for job in await store.claim(claim(), now=at(10))] == [at(1), at(2), at(3)]


async def test_an_urgent_job_does_not_overtake_an_earlier_one_at_promotion(store: Store) -> None:
    early, urgent = new_job(run_at=at(1), priority=1), new_job(run_at=at(2), priority=10)
    await store.insert([urgent, early], now=BASE)
    await store.promote(1, now=at(10))
    assert ids_of(await store.claim(claim(), now=at(10))) == [early.id]


async def test_a_promoted_job_is_not_promoted_again(store: Store) -> None:
    await store.insert([new_job(run_at=at(1))], now=BASE)
    await store.promote(10, now=at(1))
    assert await store.promote(10, now=at(2)) == {}


async def test_promoted_jobs_take_the_place_that_their_time_and_priority_give_them(store: Store) -> None:
    pending = new_job(run_at=at(2))
    await store.insert([pending], now=at(2))
    early, late = new_job(run_at=at(1)), new_job(run_at=at(3))
    await store.insert([early, late], now=BASE)
    await store.promote(10, now=at(3))
    assert ids_of(await store.claim(claim(), now=at(3))) == [early.id, pending.id, late.id]


async def test_a_retried_job_takes_the_place_of_its_new_time(store: Store) -> None:
    """It goes behind those that became due while it was in backoff."""
    job = new_job(backoff=Backoff(growth=Growth.CONSTANT, base=10 * SECOND, jitter=0))
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), failure())
    meanwhile = new_job()
    await store.insert([meanwhile], now=at(5))
    await store.promote(10, now=at(10))
    assert ids_of(await store.claim(claim(), now=at(10))) == [meanwhile.id, job.id]
