from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import (
    ADA,
    BASE,
    BEN,
    HOUR,
    MICROSECOND,
    SECOND,
    after,
    at,
    claim,
    entry,
    error,
    failure,
    ids_of,
    means,
    new_job,
    new_jobs,
)
from conformance.stores.transitions import begin, call_off, complete, end, kill, look, refused, snapshot
from rota.core.decision import cancel, decide, expire, retry, run_now
from rota.core.job import Job
from rota.core.lease import Renewal
from rota.core.lifecycle import FINISHED, MOVES, Event, State
from rota.core.outcome import Lost, Outcome, Released, Snoozed, Stopped, Succeeded, Unknown
from rota.core.retry import Backoff, Growth
from rota.core.settlement import Reason
from rota.core.submission import Delivery
from rota.ports.store import JobQuery, Store

CONSTANT = Backoff(growth=Growth.CONSTANT, base=10 * SECOND, jitter=0)


async def test_success_completes_the_job_with_its_result(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), Succeeded('{"sent": true}'), at(3))
    assert (ended.state, ended.result) == (State.COMPLETED, '{"sent": true}')
    assert (ended.finished_at, ended.updated_at, ended.lease_until) == (at(3), at(3), None)


async def test_the_last_worker_and_start_stay_with_a_finished_job(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job, at(1)), Succeeded(), at(3))
    assert (ended.worker, ended.boot, ended.started_at) == (ADA.name, ADA.boot, at(1))


async def test_of_two_successes_of_one_job_in_a_batch_the_first_counts(store: Store) -> None:
    """As when a report is repeated whose answer was late, and both come to the store together."""
    first, second = new_jobs(2)
    await store.insert([first, second], now=BASE)
    held, other = await store.claim(claim(), now=BASE)
    batch = [decide(job, Succeeded(result), means(at(3))) for job, result in ((held, "1"), (other, "2"), (held, "3"))]
    assert list(await store.settle(batch, now=at(3))) == [first.id, second.id]
    assert (await look(store, first)).result == "1"


async def test_a_failure_waits_for_its_next_attempt(store: Store) -> None:
    job = new_job(backoff=CONSTANT)
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), failure("no route"), at(1))
    assert (ended.state, ended.run_at, ended.error) == (State.RETRYING, at(11), error("no route"))
    assert (ended.attempts, ended.finished_at, ended.lease_until) == (1, None, None)


async def test_a_failure_past_the_last_attempt_is_dead(store: Store) -> None:
    job = new_job(max_attempts=1)
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), failure(), at(1))
    assert (ended.state, ended.reason, ended.finished_at) == (State.DEAD, Reason.EXHAUSTED, at(1))


async def test_a_lost_lease_is_pending_again_and_counted(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), Lost(), at(60))
    assert (ended.state, ended.attempts, ended.crashes) == (State.PENDING, 1, 1)


async def test_a_snoozed_job_waits_and_gets_its_attempt_back(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), Snoozed(HOUR), BASE)
    assert (ended.state, ended.run_at, ended.attempts, ended.fence) == (State.SCHEDULED, BASE + HOUR, 0, 1)


async def test_a_released_job_keeps_its_time_and_gets_its_attempt_back(store: Store) -> None:
    job = new_job(run_at=at(-7))
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), Released(), at(1))
    assert (ended.state, ended.run_at, ended.attempts, ended.fence) == (State.PENDING, at(-7), 0, 1)


async def test_a_stopped_job_is_cancelled(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), Stopped(), at(1))
    assert (ended.state, ended.reason, ended.finished_at) == (State.CANCELLED, Reason.CANCEL_REQUESTED, at(1))


async def test_a_job_in_doubt_is_dead(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    ended = await end(store, await begin(store, job), Unknown(error()), at(1))
    assert (ended.state, ended.reason) == (State.DEAD, Reason.OUTCOME_UNKNOWN)


async def test_success_after_a_failure_shows_no_error(store: Store) -> None:
    job = new_job(backoff=CONSTANT)
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), failure())
    await store.promote(1, now=at(60))
    ended = await end(store, await begin(store, job, at(60)), Succeeded(), at(61))
    assert ended.error is None


async def test_what_a_settlement_does_not_give_is_gone(store: Store) -> None:
    """`result`, `error` and `reason` replace what the job showed before."""
    job = new_job()
    await store.insert([job], now=BASE)
    await kill(store, job)
    dead = await look(store, job)
    assert None not in {dead.error, dead.reason}
    await store.settle([retry(dead, at(1))], now=at(1))
    revived = await look(store, job)
    assert (revived.error, revived.reason, revived.result) == (None, None, None)


@pytest.mark.parametrize("final", [State.DEAD, State.CANCELLED])
async def test_a_retried_job_is_pending_with_a_fresh_budget(store: Store, final: State) -> None:
    job = new_job(max_attempts=2)
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), Lost())
    await (kill if final is State.DEAD else call_off)(store, job)
    await store.settle([retry(await look(store, job), at(9))], now=at(9))
    revived = await look(store, job)
    assert (revived.state, revived.run_at, revived.attempts, revived.crashes) == (State.PENDING, at(9), 0, 0)
    assert revived.finished_at is None


async def test_a_retried_job_keeps_its_fence(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await kill(store, job)
    await store.settle([retry(await look(store, job), BASE)], now=BASE)
    assert (await begin(store, job)).fence == 2


async def test_a_retried_job_that_had_been_asked_to_stop_runs(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.ask_cancel([(job.id, held.fence)], now=BASE)
    await end(store, await look(store, job), Stopped())
    await store.settle([retry(await look(store, job), BASE)], now=BASE)
    assert (await begin(store, job)).cancel_requested_at is None


async def test_a_job_in_backoff_that_is_retried_keeps_counting(store: Store) -> None:
    job = new_job(max_attempts=5)
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), failure())
    await store.settle([retry(await look(store, job), at(1))], now=at(1))
    held = await begin(store, job, at(1))
    assert (held.attempts, held.fence) == (2, 2)


async def test_a_scheduled_job_can_be_run_now(store: Store) -> None:
    job = new_job(run_at=BASE + HOUR)
    await store.insert([job], now=BASE)
    await store.settle([run_now(await look(store, job), at(1))], now=at(1))
    assert ids_of(await store.claim(claim(), now=at(1))) == [job.id]


async def test_a_waiting_job_past_its_time_ends_as_expired(store: Store) -> None:
    job = new_job(expires_at=at(5))
    await store.insert([job], now=BASE)
    await store.settle([expire(await look(store, job))], now=at(6))
    ended = await look(store, job)
    assert (ended.state, ended.reason, ended.finished_at) == (State.CANCELLED, Reason.EXPIRED, at(6))


async def test_the_ids_of_what_was_applied_come_back_in_order(store: Store) -> None:
    jobs = new_jobs(20)
    await store.insert(jobs, now=BASE)
    held = list(await store.claim(claim(ADA), now=BASE))
    held.reverse()
    assert await store.settle([decide(job, Succeeded(), means()) for job in held], now=BASE) == ids_of(held)


async def test_a_stale_settlement_does_not_hinder_those_around_it(store: Store) -> None:
    first, stale, last = new_jobs(3)
    await store.insert([first, stale, last], now=BASE)
    settlements = [decide(await begin(store, job), Succeeded(), means()) for job in (first, stale, last)]
    await store.settle([settlements[1]], now=BASE)
    assert await store.settle(settlements, now=BASE) == [first.id, last.id]


async def test_of_two_settlements_of_one_job_in_a_batch_the_first_holds(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    both = [decide(held, Succeeded('"first"'), means()), decide(held, failure(), means())]
    assert await store.settle(both, now=BASE) == [job.id]
    assert (await look(store, job)).result == '"first"'


async def test_a_settlement_that_is_repeated_is_refused_and_changes_nothing(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    settlement = decide(await begin(store, job), failure(), means())
    await store.settle([settlement], now=BASE)
    before = await snapshot(store)
    assert await refused(store, settlement, at(1))
    assert await snapshot(store) == before


async def test_a_late_settlement_of_an_expired_lease_changes_nothing(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    late = await begin(store, job, worker=ADA)
    await end(store, late, Lost(), at(60))
    await begin(store, job, at(60), worker=BEN)
    before = await snapshot(store)
    assert await refused(store, decide(late, Succeeded(), means()), at(61))
    assert await snapshot(store) == before


async def test_reaping_does_not_take_a_job_whose_lease_was_renewed_meanwhile(store: Store) -> None:
    """The reaper looked, the worker renewed, the reaper spoke: the job is not lost after all."""
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job, lease=5 * SECOND)
    (lost,) = await store.lost(1, now=at(5))
    await store.renew([Renewal(job.id, held.fence, lease=5 * SECOND)], now=at(5))
    before = await snapshot(store)
    assert await refused(
        store, replace(decide(lost, Lost(), means()), lapsed_at=lost.lease_until), at(10) - MICROSECOND
    )
    assert await snapshot(store) == before
    # The store's clock leaps ahead between the reaper's read and its write: the renewed lease seems to have lapsed.
    assert await refused(store, replace(decide(lost, Lost(), means()), lapsed_at=lost.lease_until), at(60))
    assert await snapshot(store) == before


async def test_a_lease_that_has_run_out_is_taken_from_its_silent_worker(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job, lease=5 * SECOND)
    assert await store.settle([replace(decide(held, Lost(), means()), lapsed_at=held.lease_until)], now=at(5)) == [
        job.id
    ]


async def test_a_retried_job_that_had_expired_can_run(store: Store) -> None:
    """A retry by an operator removes earlier requests to stop and the expiry."""
    job = new_job(expires_at=at(5))
    await store.insert([job], now=BASE)
    await store.settle([expire(await look(store, job))], now=at(6))
    await store.settle([retry(await look(store, job), at(9))], now=at(9))
    assert (await begin(store, job, at(9))).expires_at is None


async def test_an_expired_lease_that_nobody_has_reaped_can_still_be_settled(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    assert (await end(store, held, Succeeded(), at(1000))).state is State.COMPLETED


async def test_a_cancel_decided_before_a_claim_is_refused(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    decided = cancel(await look(store, job))
    assert decided is not None
    await begin(store, job)
    assert await refused(store, decided)
    assert (await look(store, job)).state is State.RUNNING


async def test_a_cancel_decided_in_an_earlier_life_of_the_state_is_refused(store: Store) -> None:
    """Pending, running, pending again: the state is the same, the fence is not."""
    job = new_job()
    await store.insert([job], now=BASE)
    decided = cancel(await look(store, job))
    assert decided is not None
    await end(store, await begin(store, job), Released())
    assert await refused(store, decided)


async def test_a_settlement_of_an_unknown_job_is_refused(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    settlement = decide(await begin(store, job), Succeeded(), means())
    unknown = new_job()
    moved = type(settlement)(
        unknown.id, settlement.fence, settlement.source, settlement.target, settlement.event, result="null"
    )
    assert await refused(store, moved)


@pytest.mark.parametrize(
    "outcome", [failure(), Snoozed(SECOND), Released(), Lost()], ids=lambda each: type(each).__name__
)
async def test_a_job_asked_to_stop_meanwhile_is_not_sent_back(store: Store, outcome: Outcome) -> None:
    """Decided before the cancel was asked for, settled after it: an acknowledged cancel forbids another attempt."""
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    decided = decide(held, outcome, means())
    await store.ask_cancel([(job.id, held.fence)], now=BASE)
    before = await snapshot(store)
    assert await refused(store, decided)
    assert await snapshot(store) == before


@pytest.mark.parametrize(
    "outcome", [Succeeded(), failure(permanent=True), Stopped()], ids=lambda each: type(each).__name__
)
async def test_a_job_asked_to_stop_meanwhile_may_still_end(store: Store, outcome: Outcome) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    decided = decide(held, outcome, means())
    await store.ask_cancel([(job.id, held.fence)], now=BASE)
    assert await store.settle([decided], now=BASE) == [job.id]


async def test_an_at_most_once_job_never_runs_again_after_a_lost_lease(store: Store) -> None:
    job = new_job(delivery=Delivery.AT_MOST_ONCE)
    await store.insert([job], now=BASE)
    await end(store, await begin(store, job), Lost(), at(60))
    assert (await look(store, job)).state is State.DEAD
    assert await store.claim(claim(), now=BASE + HOUR) == []


async def test_attempts_never_exceed_their_maximum_whatever_ends_them(store: Store) -> None:
    job = new_job(max_attempts=2, backoff=Backoff(growth=Growth.CONSTANT, base=timedelta(0)))
    await store.insert([job], now=BASE)
    for outcome in (Lost(), failure()):
        await store.promote(10, now=BASE)
        await end(store, await begin(store, job), outcome)
    ended = await look(store, job)
    assert (ended.state, ended.attempts) == (State.DEAD, 2)


async def test_an_entry_is_written_when_anything_was_applied(store: Store) -> None:
    jobs = new_jobs(2)
    await store.insert(jobs, now=BASE)
    settlements = [decide(await begin(store, job), Succeeded(), means()) for job in jobs]
    await store.settle(settlements[:1], now=BASE)
    await store.settle(settlements, entry=entry("finish"), now=BASE)
    assert [written.action for written in await store.ledger()] == ["finish"]


async def test_no_entry_is_written_when_nothing_was_applied(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    settlement = decide(await begin(store, job), Succeeded(), means())
    await store.settle([settlement], now=BASE)
    await store.settle([settlement], entry=entry(), now=BASE)
    assert await store.ledger() == []


async def test_an_empty_batch_of_settlements_writes_no_entry(store: Store) -> None:
    assert await store.settle([], entry=entry(), now=BASE) == []
    assert await store.ledger() == []


@pytest.mark.parametrize(
    ("source", "event"), [(source, event) for source, moves in MOVES.items() for event in moves if event != Event.CLAIM]
)
async def test_every_move_of_the_lifecycle_can_be_written(store: Store, source: State, event: Event) -> None:
    job = await _in(store, source)
    settlement = job.settled(event, run_at=at(99))
    assert await store.settle([settlement], now=at(100)) == [job.id]
    moved = await look(store, job)
    assert (moved.state, moved.finished_at is not None) == (settlement.target, settlement.target in FINISHED)


@pytest.mark.parametrize("source", sorted(State))
async def test_only_a_running_job_has_a_lease(store: Store, source: State) -> None:
    job = await _in(store, source)
    assert (job.lease_until is not None) == (source is State.RUNNING)


async def test_dead_jobs_of_one_cause_are_found_by_its_fingerprint(store: Store) -> None:
    one, same, other = new_jobs(3)
    await store.insert([one, same, other], now=BASE)
    for job, message in ((one, "port 80"), (same, "port 81"), (other, "no port")):
        await end(store, await begin(store, job), failure(message, permanent=True))
    found = await store.find(JobQuery(fingerprint=error("port 99").fingerprint("mail")))
    assert set(ids_of(found)) == {one.id, same.id}


async def _in(store: Store, wanted: State) -> Job:
    """Bring a job into a state."""
    parent = new_job()
    job = new_job(
        run_at=BASE + HOUR if wanted is State.SCHEDULED else None,
        after=after(parent) if wanted is State.BLOCKED else (),
    )
    await store.insert([parent, job], now=BASE)
    match wanted:
        case State.QUEUED:
            await store.settle([(await look(store, job)).settled(Event.DISPATCH)], now=BASE)
        case State.RUNNING:
            await begin(store, job)
        case State.RETRYING:
            await end(store, await begin(store, job), failure())
        case State.COMPLETED:
            await complete(store, job)
        case State.DEAD:
            await kill(store, job)
        case State.CANCELLED:
            await call_off(store, job)
        case _:
            pass
    found = await look(store, job)
    assert found.state is wanted
    return found
