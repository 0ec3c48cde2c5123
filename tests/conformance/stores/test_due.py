from __future__ import annotations

from builders import BASE, HOUR, MINUTE, SECOND, after, at, failure, new_job, schedule
from conformance.stores.transitions import begin, call_off, complete, end
from rota.core.retry import Backoff, Growth
from rota.ports.store import Store


async def test_nothing_is_due_in_an_empty_store(store: Store) -> None:
    assert (await store.timetable()).first is None


async def test_a_scheduled_job_is_due_at_its_time(store: Store) -> None:
    await store.insert([new_job(run_at=at(9)), new_job(run_at=at(5))], now=BASE)
    assert (await store.timetable()).first == at(5)


async def test_a_job_in_backoff_is_due_at_its_time(store: Store) -> None:
    job = new_job(backoff=Backoff(growth=Growth.CONSTANT, base=10 * SECOND, jitter=0))
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), failure())
    assert (await store.timetable()).first == at(10)


async def test_a_lease_is_due_at_its_end(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await begin(store, job, lease=7 * SECOND)
    assert (await store.timetable()).first == at(7)


async def test_a_waiting_job_is_due_when_it_expires(store: Store) -> None:
    await store.insert([new_job(expires_at=at(6)), new_job(expires_at=at(5))], now=BASE)
    assert (await store.timetable()).first == at(5)


async def test_what_runs_or_has_ended_is_not_due_when_it_would_have_expired(store: Store) -> None:
    running, ended = new_job(expires_at=at(5)), new_job(expires_at=at(5))
    await store.insert([running, ended], now=BASE)
    await begin(store, running, lease=60 * SECOND)
    await complete(store, ended)
    assert (await store.timetable()).first == at(60)


async def test_a_schedule_is_due_at_its_next_fire_time(store: Store) -> None:
    await store.put_schedules([schedule(next_fire_at=BASE + MINUTE)], now=BASE)
    assert (await store.timetable()).first == BASE + MINUTE


async def test_a_paused_schedule_is_not_due(store: Store) -> None:
    await store.put_schedules([schedule(paused_at=BASE)], now=BASE)
    assert (await store.timetable()).first is None


async def test_a_schedule_that_has_ended_is_not_due(store: Store) -> None:
    await store.put_schedules([schedule(next_fire_at=None)], now=BASE)
    assert (await store.timetable()).first is None


async def test_the_earliest_of_all_is_what_counts(store: Store) -> None:
    job = new_job()
    await store.insert([job, new_job(run_at=at(9))], now=BASE)
    await store.put_schedules([schedule(next_fire_at=at(8))], now=BASE)
    await begin(store, job, lease=7 * SECOND)
    assert (await store.timetable()).first == at(7)
    await end(store, (await store.get([job.id]))[0], failure(permanent=True))
    assert (await store.timetable()).first == at(8)


async def test_pending_blocked_and_finished_jobs_need_no_upkeep(store: Store) -> None:
    parent, done, gone = new_job(), new_job(), new_job(run_at=BASE + HOUR)
    await store.insert([parent, done, gone, new_job(after=after(parent), run_at=at(1))], now=BASE)
    await complete(store, done)
    await call_off(store, gone)
    assert (await store.timetable()).first is None
