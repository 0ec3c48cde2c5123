"""Claims ahead of time: where nothing is due, jobs may be leased shortly before their time."""

from __future__ import annotations

from asyncio import gather
from datetime import timedelta

import pytest

from builders import ADA, BASE, BEN, HOUR, MICROSECOND, SECOND, at, claim, failure, ids_of, new_job, new_jobs
from conformance.stores.conftest import OpenStore
from conformance.stores.transitions import begin, end, look, snapshot, state
from rota.core.lease import Renewal
from rota.core.lifecycle import Event, State
from rota.core.outcome import Lost, Outcome, Released, Stopped, Succeeded
from rota.core.queue import Queue
from rota.core.retry import Backoff, Growth
from rota.core.submission import Delivery
from rota.ports.store import Store


async def test_a_plain_claim_gives_nothing_before_its_time(store: Store) -> None:
    await store.insert([new_job(run_at=at(1))], now=BASE)
    assert await store.claim(claim(), now=at(1) - MICROSECOND) == []


async def test_a_claim_ahead_gives_what_comes_within_its_span_the_earliest_first(store: Store) -> None:
    late, early, urgent = new_job(run_at=at(3)), new_job(run_at=at(1)), new_job(run_at=at(2), priority=10)
    await store.insert([late, early, urgent, new_job(run_at=at(3) + MICROSECOND)], now=BASE)
    assert ids_of(await store.claim(claim(ahead=3 * SECOND), now=BASE)) == [early.id, urgent.id, late.id]


async def test_a_job_claimed_ahead_runs_under_lease_and_fence_and_starts_at_its_time(store: Store) -> None:
    job = new_job(run_at=at(1))
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ahead=SECOND, lease=7 * SECOND), now=BASE)
    assert held == await look(store, job)
    assert (held.state, held.fence, held.attempts, held.worker) == (State.RUNNING, 1, 1, ADA.name)
    assert (held.run_at, held.started_at) == (at(1), at(1))
    assert (held.updated_at, held.lease_until) == (BASE, at(7))
    assert held.is_ahead
    (attempt,) = await store.attempts(job.id)
    assert attempt.started_at == at(1)
    assert (await store.timetable()).job is None


async def test_a_job_in_backoff_is_claimed_ahead_too(store: Store) -> None:
    job = new_job(backoff=Backoff(growth=Growth.CONSTANT, base=10 * SECOND, jitter=0))
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), failure())
    (held,) = await store.claim(claim(ahead=SECOND), now=at(9))
    assert (held.state, held.fence, held.attempts, held.started_at) == (State.RUNNING, 2, 2, at(10))


async def test_what_is_due_comes_first_and_alone(store: Store) -> None:
    due, soon = new_job(), new_job(run_at=at(1), priority=10)
    await store.insert([due, soon], now=BASE)
    assert ids_of(await store.claim(claim(limit=5, ahead=SECOND), now=BASE)) == [due.id]
    assert ids_of(await store.claim(claim(limit=5, ahead=SECOND), now=BASE)) == [soon.id]


async def test_no_more_than_the_limit_is_claimed_ahead(store: Store) -> None:
    jobs = [new_job(run_at=at(number)) for number in range(1, 6)]
    await store.insert(jobs, now=BASE)
    assert ids_of(await store.claim(claim(limit=2, ahead=9 * SECOND), now=BASE)) == ids_of(jobs[:2])


async def test_of_those_whose_time_is_the_same_the_most_urgent_go_first(store: Store) -> None:
    """A limit once took them as they were submitted, and left the urgent ones to become due behind them."""
    plain, urgent, second, low = (new_job(run_at=at(2), priority=priority) for priority in (5, 9, 9, 1))
    early, late = new_job(run_at=at(1), priority=1), new_job(run_at=at(3), priority=10)
    await store.insert([late, plain, low, second, urgent, early], now=BASE)
    asked = claim(limit=3, claim_id="c", ahead=9 * SECOND)
    first = await store.claim(asked, now=BASE)
    assert ids_of(first) == [early.id, urgent.id, second.id]
    assert await store.claim(asked, now=BASE) == first
    assert ids_of(await store.claim(claim(limit=3, ahead=9 * SECOND), now=BASE)) == [plain.id, low.id, late.id]


async def test_of_claims_at_the_same_moment_each_gives_the_most_urgent_first(store: Store) -> None:
    """Claims that come in together may share a look, and what it found is dealt out among them."""
    jobs = [new_job(run_at=at(1), priority=priority) for priority in (1, 10, 3, 8, 5, 6)]
    await store.insert(jobs, now=BASE)
    given = await gather(*(store.claim(claim(limit=2, ahead=SECOND), now=BASE) for _ in range(3)))
    shares = [[job.priority for job in share] for share in given]
    assert shares == [sorted(share, reverse=True) for share in shares]
    assert any(shares)


async def test_what_must_run_at_most_once_is_not_claimed_ahead(store: Store) -> None:
    """Its worker might die while it holds it: then it would have to be dead though it never began."""
    once = new_job(run_at=at(1), priority=10, delivery=Delivery.AT_MOST_ONCE)
    other = new_job(run_at=at(2))
    await store.insert([once, other], now=BASE)
    assert ids_of(await store.claim(claim(limit=1, ahead=9 * SECOND), now=BASE)) == [other.id]
    assert await store.claim(claim(ahead=9 * SECOND), now=BASE) == []
    assert (await store.timetable()).job == at(1)
    assert await store.promote(10, now=at(1)) == {"default": 1}
    (held,) = await store.claim(claim(ahead=9 * SECOND), now=at(1))
    assert (held.id, held.started_at, held.attempts, held.is_ahead) == (once.id, at(1), 1, False)


async def test_what_is_overdue_is_left_to_the_promoter(store: Store) -> None:
    job = new_job(run_at=at(1))
    await store.insert([job], now=BASE)
    assert await store.claim(claim(ahead=SECOND), now=at(1)) == []
    assert await store.promote(10, now=at(1)) == {"default": 1}


async def test_a_claim_ahead_obeys_what_every_claim_obeys(store: Store) -> None:
    other_queue, other_type = new_job(queue="other", run_at=at(1)), new_job("report", run_at=at(1))
    paused, expiring = new_job(queue="paused", run_at=at(1)), new_job(run_at=at(1), expires_at=at(1))
    wanted = new_job(run_at=at(2), expires_at=at(2) + MICROSECOND)
    await store.put_queue(Queue("paused", paused_at=BASE), now=BASE)
    await store.insert([other_queue, other_type, paused, expiring, wanted], now=BASE)
    asked = claim(limit=1, queues=("default", "paused"), types=("mail",), ahead=5 * SECOND)
    assert ids_of(await store.claim(asked, now=BASE)) == [wanted.id]
    assert await store.claim(asked, now=BASE) == []


async def test_a_claim_ahead_of_no_type_or_no_queue_gets_nothing(store: Store) -> None:
    await store.insert([new_job(run_at=at(1))], now=BASE)
    assert await store.claim(claim(types=(), ahead=SECOND), now=BASE) == []
    assert await store.claim(claim(queues=(), ahead=SECOND), now=BASE) == []


async def test_what_a_broker_hands_over_is_not_claimed_ahead(store: Store) -> None:
    job = new_job(run_at=at(1))
    await store.insert([job], now=BASE)
    assert await store.claim(claim(ids=(job.id,), ahead=SECOND), now=BASE) == []


async def test_blocked_and_finished_jobs_are_not_claimed_ahead(store: Store) -> None:
    gone = new_job(run_at=at(1))
    await store.insert([gone], now=BASE)
    (held,) = await store.claim(claim(ahead=SECOND), now=BASE)
    await end(store, held, Succeeded(), now=at(1))
    assert await store.claim(claim(ahead=HOUR), now=BASE) == []


async def test_a_claim_ahead_that_is_repeated_gives_the_same(store: Store) -> None:
    await store.insert([new_job(run_at=at(number)) for number in (1, 2, 3)], now=BASE)
    first = await store.claim(claim(limit=2, claim_id="c", ahead=9 * SECOND), now=BASE)
    await store.insert(new_jobs(1), now=BASE)
    before = await snapshot(store)
    assert await store.claim(claim(limit=2, claim_id="c", ahead=9 * SECOND), now=BASE) == first
    assert await snapshot(store) == before


async def test_a_concurrent_claim_that_does_not_look_ahead_gets_nothing_early(store: Store) -> None:
    """Claims that come in together may share a transaction."""
    await store.insert([new_job(run_at=at(1)) for _ in range(20)], now=BASE)
    spans = [timedelta(0), SECOND] * 4
    given = await gather(*(store.claim(claim(limit=2, ahead=span), now=BASE) for span in spans))
    assert [len(jobs) for jobs in given] == [0, 2] * 4


async def test_two_claims_ahead_never_get_the_same_job(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    await store.insert([new_job(run_at=at(number / 100)) for number in range(1, 41)], now=BASE)
    given = await gather(
        *(
            place.claim(claim(worker, 5, ahead=SECOND), now=BASE)
            for worker, place in [(ADA, store), (BEN, other)]
            for _ in range(3)
        )
    )
    ids = [job.id for batch in given for job in batch]
    assert len(ids) == len(set(ids))
    assert await store.check() == []


@pytest.mark.parametrize("outcome", [Released(started=False), Lost()], ids=["given back", "lost"])
async def test_one_given_back_before_its_time_waits_for_it_again(store: Store, outcome: Outcome) -> None:
    job = new_job(run_at=at(1), max_attempts=1)
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ahead=SECOND), now=BASE)
    back = await end(store, held, outcome, now=at(0.5))
    assert (back.state, back.run_at, back.attempts, back.crashes, back.fence) == (State.SCHEDULED, at(1), 0, 0, 1)
    (attempt,) = await store.attempts(job.id)
    assert attempt.event is Event.POSTPONE
    assert (await store.timetable()).job == at(1)
    assert await store.check() == []
    assert await store.promote(10, now=at(1)) == {"default": 1}
    (again,) = await store.claim(claim(), now=at(1))
    assert (again.id, again.fence, again.attempts) == (job.id, 2, 1)


async def test_one_given_back_after_its_time_is_due(store: Store) -> None:
    job = new_job(run_at=at(1))
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ahead=SECOND), now=BASE)
    assert (await end(store, held, Released(started=False), now=at(1))).state is State.PENDING


async def test_one_that_is_held_can_be_asked_to_stop_and_never_runs_again(store: Store) -> None:
    job = new_job(run_at=at(1))
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ahead=SECOND), now=BASE)
    assert await store.ask_cancel([(held.id, held.fence)], now=at(0.5)) == [held.id]
    (renewed,) = await store.renew([Renewal(held.id, held.fence)], now=at(0.5))
    assert renewed.cancel
    assert (await end(store, held, Stopped(), now=at(0.5))).state is State.CANCELLED


async def test_a_held_lease_runs_out_like_any_other(store: Store) -> None:
    job = new_job(run_at=at(1))
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ahead=SECOND, lease=timedelta(seconds=2)), now=BASE)
    assert ids_of(await store.lost(10, now=at(2))) == [job.id]
    assert (await end(store, held, Lost(), now=at(2))).crashes == 1
    assert await state(store, job) is State.PENDING
