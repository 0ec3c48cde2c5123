from __future__ import annotations

from typing import Any

from builders import BASE, MICROSECOND, SECOND, after, at, claim, failure, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, call_off, complete, end, look, snapshot
from rota.core.lifecycle import Event
from rota.core.outcome import Released
from rota.ports.store import Store


async def test_a_lease_is_lost_from_the_moment_it_ends(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job, lease=5 * SECOND)
    assert await store.lost(10, now=at(5) - MICROSECOND) == []
    assert await store.lost(10, now=at(5)) == [held]


async def test_the_longest_expired_comes_first(store: Store) -> None:
    jobs = new_jobs(4)
    await store.insert(jobs, now=BASE)
    for job, seconds in zip(jobs, (4, 2, 3, 1), strict=True):
        await begin(store, job, lease=seconds * SECOND)
    assert [job.lease_until for job in await store.lost(3, now=at(60))] == [at(1), at(2), at(3)]


async def test_looking_for_lost_leases_changes_nothing(store: Store) -> None:
    await store.insert(new_jobs(3), now=BASE)
    await store.claim(claim(limit=2), now=BASE)
    before = await snapshot(store)
    await store.lost(10, now=at(60))
    assert await snapshot(store) == before


async def test_what_does_not_run_has_no_lease_to_lose(store: Store) -> None:
    pending, done, back = new_jobs(3)
    await store.insert([pending, done, back], now=BASE)
    await complete(store, done)
    await end(store, await begin(store, back), Released())
    assert await store.lost(10, now=at(3600)) == []


async def test_a_waiting_job_is_expired_from_the_moment_it_expires(store: Store) -> None:
    job = new_job(expires_at=at(5))
    await store.insert([job], now=BASE)
    assert await store.expired(10, now=at(5) - MICROSECOND) == []
    assert ids_of(await store.expired(10, now=at(5))) == [job.id]


async def test_a_job_that_may_be_claimed_is_never_expired_and_the_other_way_round(store: Store) -> None:
    """At no moment is a job both, or neither: the one would run it twice over its time, the other strand it."""
    await store.insert([new_job(expires_at=at(5))], now=BASE)
    for moment in (at(5) - MICROSECOND, at(5), at(5) + MICROSECOND):
        expired = await store.expired(10, now=moment)
        given = await store.claim(claim(), now=moment)
        assert len(given) + len(expired) == 1
        for job in given:
            await end(store, job, Released(), moment)


async def test_every_state_of_waiting_can_expire(store: Store) -> None:
    fields: dict[str, Any] = {"expires_at": at(5)}
    parent = new_job()
    pending, scheduled, blocked = (
        new_job(**fields),
        new_job(run_at=at(99), **fields),
        new_job(after=after(parent), **fields),
    )
    retrying, queued = new_job(**fields), new_job(**fields)
    await store.insert([parent, pending, scheduled, blocked, retrying, queued], now=BASE)
    await end(store, await begin(store, retrying), failure())
    await store.settle([(await look(store, queued)).settled(Event.DISPATCH)], now=BASE)
    expected = {pending.id, scheduled.id, blocked.id, retrying.id, queued.id}
    assert set(ids_of(await store.expired(10, now=at(6)))) == expected


async def test_what_runs_or_has_ended_does_not_expire(store: Store) -> None:
    running, ended, cancelled = new_jobs(3, expires_at=at(5))
    await store.insert([running, ended, cancelled], now=BASE)
    await begin(store, running)
    await complete(store, ended)
    await call_off(store, cancelled)
    assert await store.expired(10, now=at(60)) == []


async def test_a_job_without_a_last_moment_never_expires(store: Store) -> None:
    await store.insert([new_job()], now=BASE)
    assert await store.expired(10, now=at(10**9)) == []


async def test_no_more_than_the_limit_are_given_as_expired(store: Store) -> None:
    await store.insert(new_jobs(5, expires_at=at(5)), now=BASE)
    assert len(await store.expired(3, now=at(6))) == 3


async def test_looking_for_expired_jobs_changes_nothing(store: Store) -> None:
    await store.insert(new_jobs(3, expires_at=at(5)), now=BASE)
    before = await snapshot(store)
    await store.expired(10, now=at(60))
    assert await snapshot(store) == before
