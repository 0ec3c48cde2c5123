from __future__ import annotations

from builders import ADA, BASE, BEN, SECOND, at, claim, fresh_id, new_job, new_jobs
from conformance.stores.transitions import begin, end, look
from rota.core.lease import DEFAULT_LEASE, Renewal, Renewed
from rota.core.lifecycle import State
from rota.core.outcome import Lost
from rota.ports.store import Store


async def test_a_renewal_extends_the_lease_from_now(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    answers = await store.renew([Renewal(job.id, held.fence, lease=30 * SECOND)], now=at(10))
    assert answers == [Renewed(job.id, held.fence, at(40), cancel=False)]
    assert (await look(store, job)).lease_until == at(40)


async def test_a_renewed_lease_is_not_lost_when_the_first_one_would_have_been(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.renew([Renewal(job.id, held.fence)], now=at(10))
    assert await store.lost(10, now=BASE + DEFAULT_LEASE + SECOND) == []


async def test_an_expired_lease_that_nobody_has_reaped_can_be_renewed(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    (answer,) = await store.renew([Renewal(job.id, held.fence)], now=at(1000))
    assert answer.until == at(1000) + DEFAULT_LEASE


async def test_a_reaped_lease_cannot_be_renewed(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await end(store, held, Lost())
    assert await store.renew([Renewal(job.id, held.fence)], now=BASE) == []


async def test_only_the_leases_that_hold_are_answered(store: Store) -> None:
    mine, gone = new_jobs(2)
    await store.insert([mine, gone], now=BASE)
    held = await begin(store, mine)
    lost = await begin(store, gone)
    await end(store, lost, Lost())
    await begin(store, gone, worker=BEN)
    asked = [Renewal(gone.id, lost.fence), Renewal(fresh_id(), 1), Renewal(mine.id, held.fence)]
    assert [answer.job_id for answer in await store.renew(asked, now=BASE)] == [mine.id]


async def test_a_fence_not_yet_given_cannot_be_renewed(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    assert await store.renew([Renewal(job.id, held.fence + 1)], now=BASE) == []


async def test_a_pending_job_cannot_be_renewed_under_the_fence_of_none(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    assert await store.renew([Renewal(job.id, 0)], now=BASE) == []
    assert (await look(store, job)).state is State.PENDING


async def test_a_renewal_tells_that_the_job_is_asked_to_stop(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.ask_cancel([(job.id, held.fence)], now=BASE)
    (answer,) = await store.renew([Renewal(job.id, held.fence)], now=BASE)
    assert answer.cancel


async def test_progress_and_log_are_kept_with_the_attempt(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.renew([Renewal(job.id, held.fence, progress='{"done": 3}', log_tail="three of ten")], now=BASE)
    (attempt,) = await store.attempts(job.id)
    assert (attempt.progress, attempt.log_tail) == ('{"done": 3}', "three of ten")


async def test_a_renewal_without_news_leaves_the_last_news(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.renew([Renewal(job.id, held.fence, progress="1", log_tail="one")], now=BASE)
    await store.renew([Renewal(job.id, held.fence)], now=at(1))
    (attempt,) = await store.attempts(job.id)
    assert (attempt.progress, attempt.log_tail) == ("1", "one")


async def test_news_of_one_kind_leave_the_other(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.renew([Renewal(job.id, held.fence, progress="1", log_tail="one")], now=BASE)
    await store.renew([Renewal(job.id, held.fence, progress="2")], now=BASE)
    await store.renew([Renewal(job.id, held.fence, log_tail="two")], now=BASE)
    (attempt,) = await store.attempts(job.id)
    assert (attempt.progress, attempt.log_tail) == ("2", "two")


async def test_news_of_a_stale_fence_do_not_reach_the_attempt_of_another(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    stale = await begin(store, job)
    await end(store, stale, Lost())
    await begin(store, job, worker=BEN)
    await store.renew([Renewal(job.id, stale.fence, progress="stale", log_tail="stale")], now=BASE)
    assert {(attempt.progress, attempt.log_tail) for attempt in await store.attempts(job.id)} == {(None, None)}


async def test_many_leases_are_renewed_at_once(store: Store) -> None:
    await store.insert(new_jobs(500), now=BASE)
    held = await store.claim(claim(ADA, 500), now=BASE)
    answers = await store.renew([Renewal(job.id, job.fence) for job in held], now=at(5))
    assert {answer.job_id for answer in answers} == {job.id for job in held}
    assert {answer.until for answer in answers} == {at(5) + DEFAULT_LEASE}
