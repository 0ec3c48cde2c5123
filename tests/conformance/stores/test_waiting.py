"""Durable waiting through the port: sleeps, events, calls; no wake-up is lost, in any order of wait and event."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import ADA, BASE, BEN, DAY, HOUR, after, at, claim, entry, failure, means, new_job, new_jobs
from conformance.stores.adapters import SHARED, Adapter, opened
from conformance.stores.transitions import begin, call_off, complete, end, kill, look
from rota.core.decision import decide, retry
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_number
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Suspended
from rota.core.settlement import Reason
from rota.core.step import MOST_STEPS, Resolution, Step, StepKind
from rota.core.submission import NewJob, Template
from rota.core.waiting import Emission, Wait
from rota.ports.clock import wall_clock
from rota.ports.store import JobQuery, Retention, Store

SLEEP = Wait("trial", StepKind.SLEEP, span=timedelta(seconds=60))
PAID = Wait("paid", StepKind.EVENT, event="paid:7", span=timedelta(seconds=60))
PAID_WHENEVER = replace(PAID, span=None)
EMISSION = Emission("paid:7", '{"amount": 3}')


async def held(store: Store, **fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    job = new_job(**fields)
    await store.insert([job], now=BASE)
    return await begin(store, job)


async def waited(store: Store, job: Job, wait: Wait, seconds: float = 1, child: NewJob | None = None) -> Step:
    step = await store.begin_wait(job.id, job.fence, wait, child=child, now=at(seconds))
    assert step is not None
    return step


async def suspend(store: Store, job: Job, wait: Wait, seconds: float = 1, child: NewJob | None = None) -> Job:
    """Begin a wait and suspend the job for it, as the engine does."""
    step = await waited(store, job, wait, seconds, child)
    settlement = decide(job, Suspended(wait.key), replace(means(at(seconds)), step=step))
    assert await store.settle([settlement], now=at(seconds)) == [job.id]
    return await look(store, job)


async def test_a_sleep_is_stored_with_its_end_and_is_not_over(store: Store) -> None:
    job = await held(store)
    step = await waited(store, job, SLEEP)
    assert step == Step(job.id, "trial", 1, at(1), kind=StepKind.SLEEP, until=at(61))
    assert await store.step(job.id, "trial") == step
    assert await store.steps(job.id) == [step]


async def test_the_time_of_a_sleep_counts_from_its_first_call(store: Store) -> None:
    job = await held(store)
    first = await waited(store, job, SLEEP)
    assert await waited(store, job, replace(SLEEP, span=DAY), 30) == first
    over = await waited(store, job, SLEEP, 61)
    assert over == replace(first, ended_at=at(61), outcome="null")


async def test_a_sleeping_job_is_scheduled_without_lease_and_keeps_its_attempt(store: Store) -> None:
    job = await held(store)
    asleep = await suspend(store, job, SLEEP)
    assert (asleep.state, asleep.run_at, asleep.lease_until) == (State.SCHEDULED, at(61), None)
    assert (asleep.attempts, asleep.fence) == (0, 1)
    assert not await store.claim(claim(BEN), now=at(60))
    await store.promote(10, now=at(61))
    (again,) = await store.claim(claim(BEN), now=at(61))
    assert (again.id, again.fence, again.attempts) == (job.id, 2, 1)
    assert (await waited(store, again, SLEEP, 61)).is_done


async def test_a_sleeper_that_woke_before_the_clock_was_set_back_sleeps_on_until_its_time(store: Store) -> None:
    job = await held(store)
    await suspend(store, job, SLEEP, 3_600)
    await store.promote(10, now=at(3_660))
    again = await begin(store, job, at(3_660))
    asleep = await suspend(store, again, SLEEP, 100)
    assert (asleep.state, asleep.run_at, asleep.attempts) == (State.SCHEDULED, at(3_660), 0)
    await store.promote(10, now=at(3_660))
    last = await begin(store, job, at(3_660))
    assert (await waited(store, last, SLEEP, 3_660)).is_done


async def test_a_clock_that_is_set_ahead_ends_sleeps_and_waits_and_one_that_is_set_back_begins_none_again(
    store: Store,
) -> None:
    sleeper, waiter = await held(store), await held(store)
    await suspend(store, sleeper, SLEEP)
    await suspend(store, waiter, PAID)
    assert dict(await store.promote(10, now=at(1e6))) == {"default": 1}
    assert await store.end_waits(10, now=at(1e6)) == {"default": 1}
    # Set back: the wait that has ended stays so, and an event that comes now changes nothing of it.
    await store.emit(EMISSION, now=at(2))
    again = await begin(store, waiter, at(1e6))
    assert (await waited(store, again, PAID, 3)).outcome == "null"


async def test_a_job_that_waits_for_an_event_is_blocked_without_lease_and_keeps_its_attempt(store: Store) -> None:
    job = await held(store)
    blocked = await suspend(store, job, PAID)
    assert (blocked.state, blocked.blockers, blocked.lease_until) == (State.BLOCKED, 1, None)
    assert (blocked.attempts, blocked.fence) == (0, 1)
    assert not await store.claim(claim(BEN), now=at(30))


async def test_an_event_before_the_wait_ends_it_at_once(store: Store) -> None:
    job = await held(store)
    assert (await store.emit(EMISSION, now=at(0.5))).is_new
    step = await waited(store, job, PAID)
    assert (step.ended_at, step.outcome) == (at(1), '{"amount": 3}')


async def test_an_event_between_the_wait_and_the_suspension_makes_the_job_pending(store: Store) -> None:
    job = await held(store)
    step = await waited(store, job, PAID)
    await store.emit(EMISSION, now=at(2))
    settlement = decide(job, Suspended("paid"), replace(means(at(3)), step=step))
    assert await store.settle([settlement], now=at(3)) == [job.id]
    found = await look(store, job)
    assert (found.state, found.blockers, found.attempts) == (State.PENDING, 0, 0)
    again = await begin(store, job, at(4))
    assert (await waited(store, again, PAID, 5)).outcome == '{"amount": 3}'


async def test_an_event_after_the_suspension_makes_the_job_pending_with_its_payload(store: Store) -> None:
    job = await held(store, queue="mail")
    await suspend(store, job, PAID)
    emitted = await store.emit(EMISSION, now=at(10))
    assert (emitted.is_new, dict(emitted.queues), emitted.event.at) == (True, {"mail": 1}, at(10))
    found = await look(store, job)
    assert (found.state, found.run_at, found.blockers) == (State.PENDING, at(10), 0)
    (again,) = await store.claim(claim(BEN, queues=("mail",)), now=at(11))
    assert (again.fence, again.attempts) == (2, 1)
    done = await store.step(job.id, "paid")
    assert done is not None
    assert (done.ended_at, done.outcome) == (at(10), '{"amount": 3}')


async def test_of_two_emissions_the_first_counts(store: Store) -> None:
    first = await store.emit(EMISSION, now=at(1))
    second = await store.emit(replace(EMISSION, payload='"other"'), now=at(2))
    assert (first.is_new, second.is_new) == (True, False)
    assert second.event == first.event
    assert await store.event("paid:7", now=at(3)) == first.event
    job = await held(store)
    assert (await waited(store, job, PAID)).outcome == '{"amount": 3}'


async def test_an_expired_event_is_none_and_can_be_emitted_again(store: Store) -> None:
    await store.emit(replace(EMISSION, keep=HOUR), now=at(0))
    job = await held(store)
    later = HOUR.total_seconds()
    assert await store.event("paid:7", now=at(later)) is None
    assert not (await waited(store, job, PAID_WHENEVER, later)).is_done
    again = await store.emit(replace(EMISSION, payload='"again"'), now=at(later + 1))
    assert again.is_new
    assert (await waited(store, job, PAID_WHENEVER, later + 2)).outcome == '"again"'


async def test_an_event_is_not_found_under_another_name(store: Store) -> None:
    await store.emit(EMISSION, now=at(0))
    for name in ("paid:70", "paid:", "PAID:7", "paid:7 "):
        assert await store.event(name, now=at(1)) is None
        job = await held(store)
        assert not (await waited(store, job, replace(PAID, event=name))).is_done


async def test_a_wait_ends_at_its_timeout_with_nothing(store: Store) -> None:
    job = await held(store)
    await suspend(store, job, PAID)
    assert (await store.timetable()).wait == at(61)
    assert await store.end_waits(10, now=at(60)) == {}
    assert await store.end_waits(10, now=at(61)) == {"default": 1}
    assert (await store.timetable()).wait is None
    assert (await look(store, job)).state is State.PENDING
    again = await begin(store, job, at(62))
    assert (await waited(store, again, PAID, 62)).outcome == "null"


async def test_a_wait_without_timeout_is_never_due(store: Store) -> None:
    job = await held(store)
    await suspend(store, job, PAID_WHENEVER)
    assert (await store.timetable()).wait is None
    assert await store.end_waits(10, now=at(1e6)) == {}


async def test_waits_end_the_longest_due_first_and_no_more_than_asked_for(store: Store) -> None:
    jobs = [await held(store) for _ in range(3)]
    for number, job in enumerate(jobs):
        await suspend(store, job, replace(PAID, event=f"e{number}", span=timedelta(seconds=30 - number)))
    assert await store.end_waits(2, now=at(100)) == {"default": 2}
    states = [(await look(store, job)).state for job in jobs]
    assert states == [State.BLOCKED, State.PENDING, State.PENDING]


async def test_an_event_wakes_all_that_wait_for_it_and_no_others(store: Store) -> None:
    waiting = [await held(store) for _ in range(3)]
    for job in waiting:
        await suspend(store, job, PAID)
    other = await held(store)
    await suspend(store, other, replace(PAID, event="paid:8"))
    assert dict((await store.emit(EMISSION, now=at(5))).queues) == {"default": 3}
    assert (await look(store, other)).state is State.BLOCKED


async def test_a_job_may_wait_for_one_event_under_two_keys(store: Store) -> None:
    job = await held(store)
    await waited(store, job, PAID)
    await suspend(store, job, replace(PAID, key="paid again"))
    await store.emit(EMISSION, now=at(5))
    assert [step.outcome for step in await store.steps(job.id)] == ['{"amount": 3}'] * 2


async def test_a_step_of_another_kind_is_returned_as_it_is(store: Store) -> None:
    job = await held(store)
    sleep = await waited(store, job, SLEEP)
    assert await waited(store, job, replace(PAID, key="trial"), 2) == sleep
    await store.intend(job.id, job.fence, "charge", now=at(2))
    assert (await waited(store, job, replace(SLEEP, key="charge"), 1e6)).kind is StepKind.EFFECT


async def test_a_stale_fence_begins_no_wait(store: Store) -> None:
    job = await held(store)
    await end(store, job, Lost(), at(60))
    await begin(store, job, at(60), BEN)
    assert await store.begin_wait(job.id, job.fence, PAID, now=at(61)) is None
    assert await store.begin_wait(job.id, job.fence, SLEEP, now=at(61)) is None
    assert await store.steps(job.id) == []


async def test_a_stale_fence_suspends_nothing(store: Store) -> None:
    job = await held(store)
    step = await waited(store, job, PAID)
    await end(store, job, Lost(), at(60))
    await begin(store, job, at(60), BEN)
    late = decide(job, Suspended("paid"), replace(means(at(61)), step=step))
    assert await store.settle([late], now=at(61)) == []
    assert (await look(store, job)).state is State.RUNNING


async def test_a_wait_of_an_attempt_that_was_lost_is_found_by_the_next(store: Store) -> None:
    job = await held(store)
    first = await waited(store, job, PAID)
    await end(store, job, Lost(), at(30))
    await store.emit(EMISSION, now=at(31))
    assert (await look(store, job)).state is State.PENDING
    again = await begin(store, job, at(32), BEN)
    assert await waited(store, again, PAID, 33) == replace(first, ended_at=at(31), outcome='{"amount": 3}')


async def test_a_job_with_a_cancel_request_is_not_suspended(store: Store) -> None:
    job = await held(store)
    step = await waited(store, job, PAID)
    await store.ask_cancel([(job.id, job.fence)], now=at(2))
    settlement = decide(job, Suspended("paid"), replace(means(at(3)), step=step))
    assert await store.settle([settlement], now=at(3)) == []


async def test_a_suspended_job_can_be_cancelled_and_the_event_does_not_wake_it(store: Store) -> None:
    for wait in (SLEEP, PAID):
        job = await held(store)
        await suspend(store, job, wait)
        await call_off(store, job, now=at(2))
        assert (await store.emit(replace(EMISSION, keep=timedelta(seconds=1)), now=at(3))).queues == {}
        await store.promote(10, now=at(100))
        await store.end_waits(10, now=at(100))
        assert (await look(store, job)).state is State.CANCELLED


async def test_a_suspended_job_expires_like_any_waiting_one(store: Store) -> None:
    job = await held(store, expires_at=at(30))
    await suspend(store, job, PAID_WHENEVER)
    assert [one.id for one in await store.expired(10, now=at(30))] == [job.id]


async def test_a_call_makes_its_child_once(store: Store) -> None:
    job = await held(store)
    call = Wait("invoice", StepKind.CALL)
    first = await waited(store, job, call, child=new_job(type="invoice", parent_id=job.id))
    child = await look(store, child_of(first))
    assert (child.type, child.state, child.parent_id) == ("invoice", State.PENDING, job.id)
    other = new_job(type="invoice")
    assert await waited(store, job, call, 2, child=other) == first
    assert await store.get([other.id]) == []


async def test_a_job_that_called_waits_for_the_end_of_its_child(store: Store) -> None:
    for final in (complete, kill, call_off):
        job = await held(store)
        call = Wait("invoice", StepKind.CALL)
        blocked = await suspend(store, job, call, child=new_job())
        step = await store.step(job.id, "invoice")
        assert step is not None
        assert (blocked.state, blocked.blockers) == (State.BLOCKED, 1)
        assert await store.blockers(job.id, 10) == [child_of(step)]
        await final(store, child_of(step), now=at(5))
        found = await look(store, job)
        assert (found.state, found.run_at, found.blockers) == (State.PENDING, at(5), 0)


async def test_a_child_that_ended_before_the_suspension_makes_the_job_pending(store: Store) -> None:
    job = await held(store)
    step = await waited(store, job, Wait("invoice", StepKind.CALL), child=new_job())
    await complete(store, child_of(step), now=at(2))
    settlement = decide(job, Suspended("invoice"), replace(means(at(3)), step=step))
    await store.settle([settlement], now=at(3))
    assert (await look(store, job)).state is State.PENDING


async def test_the_failure_of_a_child_is_followed_also_if_its_caller_is_suspended_in_the_same_batch(
    store: Store,
) -> None:
    """Another job needs the success of the child, and has a job for its own failure."""
    job = await held(store)
    step = await waited(store, job, Wait("invoice", StepKind.CALL), child=new_job("invoice"))
    child = await begin(store, child_of(step), at(2))
    follower = new_job("ship", after=after(child.id), on_failure=Template("alarm"))
    await store.insert([follower], now=at(2))
    suspension = decide(job, Suspended("invoice"), replace(means(at(3)), step=step))
    death = decide(child, failure(permanent=True), means(at(3)))
    assert await store.settle([suspension, death], now=at(3)) == [job.id, child.id]
    assert (await look(store, job)).state is State.PENDING
    assert (await look(store, follower)).reason is Reason.DEPENDENCY_FAILED
    assert [one.parent_id for one in await store.find(JobQuery(types=("alarm",)))] == [follower.id]


async def test_a_job_may_wait_for_the_same_child_again(store: Store) -> None:
    """The child died, was retried, and its caller came back before it had ended."""
    job = await held(store)
    call = Wait("invoice", StepKind.CALL)
    await suspend(store, job, call, child=new_job())
    step = await store.step(job.id, "invoice")
    assert step is not None
    await kill(store, child_of(step), now=at(5))
    again = await begin(store, job, at(6), BEN)
    dead = await look(store, child_of(step))
    await store.settle([retry(dead, at(7))], now=at(7))
    blocked = await suspend(store, again, call, 8)
    assert blocked.state is State.BLOCKED
    await complete(store, child_of(step), now=at(9))
    assert (await look(store, job)).state is State.PENDING


async def test_calls_are_not_among_the_dependencies_that_a_job_was_submitted_with(store: Store) -> None:
    job = await held(store)
    await suspend(store, job, Wait("invoice", StepKind.CALL), child=new_job())
    assert await store.edges(children=[job.id]) == []


async def test_a_job_that_was_run_before_its_dependency_ended_no_longer_fails_with_it(store: Store) -> None:
    """An operator cancelled and retried it, so it started; then it waits for an event, blocked as a new job is."""
    parent = new_job("extract")
    job = new_job(after=after(parent))
    await store.insert([parent, job], now=BASE)
    await call_off(store, job, now=at(1))
    await store.settle([retry(await look(store, job), at(2))], now=at(2))
    waiting = await suspend(store, await begin(store, job, at(3)), PAID, 4)
    assert waiting.state is State.BLOCKED
    await kill(store, parent, now=at(5))
    assert (await look(store, job)).state is State.BLOCKED
    await store.emit(EMISSION, now=at(6))
    assert (await look(store, job)).state is State.PENDING


async def test_a_child_is_kept_while_its_caller_may_need_it(store: Store) -> None:
    job = await held(store)
    await suspend(store, job, Wait("invoice", StepKind.CALL), child=new_job())
    step = await store.step(job.id, "invoice")
    assert step is not None
    await complete(store, child_of(step), now=at(2))
    await store.prune(Retention(), 100, now=BASE + 2 * DAY)
    assert len(await store.get([child_of(step)])) == 1


async def test_a_child_is_kept_while_its_caller_waits_for_something_else(store: Store) -> None:
    """The caller has called it, sleeps for days, and asks for its result only then."""
    job = await held(store)
    step = await waited(store, job, Wait("invoice", StepKind.CALL), child=new_job())
    await suspend(store, job, replace(SLEEP, span=3 * DAY))
    await complete(store, child_of(step), now=at(2))
    await store.prune(Retention(), 100, now=BASE + 2 * DAY)
    assert len(await store.get([child_of(step)])) == 1
    await call_off(store, job, now=BASE + 2 * DAY)
    await store.prune(Retention(), 100, now=BASE + 4 * DAY)
    await store.prune(Retention(), 100, now=BASE + 4 * DAY)
    assert await store.get([child_of(step)]) == []


async def test_a_job_has_no_more_than_so_many_steps(store: Store) -> None:
    job = await held(store)
    for number in range(MOST_STEPS):
        await store.intend(job.id, job.fence, f"step {number}", now=at(1))
    assert await store.intend(job.id, job.fence, "step 0", now=at(2)) is not None
    child = new_job()
    with pytest.raises(InvalidRequest, match="1,000 steps"):
        await store.intend(job.id, job.fence, "one more", now=at(2))
    with pytest.raises(InvalidRequest, match="1,000 steps"):
        await store.begin_wait(job.id, job.fence, SLEEP, now=at(2))
    with pytest.raises(InvalidRequest, match="1,000 steps"):
        await store.begin_wait(job.id, job.fence, Wait("call", StepKind.CALL), child=child, now=at(2))
    assert await store.get([child.id]) == []
    assert len(await store.steps(job.id)) == MOST_STEPS


async def test_an_operator_cannot_resolve_a_wait(store: Store) -> None:
    job = await held(store)
    await suspend(store, job, PAID)
    for outcome in ("null", None):
        assert not await store.resolve(Resolution(job.id, "paid", outcome), now=at(2))
    step = await store.step(job.id, "paid")
    assert step is not None
    assert not step.is_done


async def test_a_wait_cannot_be_withdrawn(store: Store) -> None:
    job = await held(store)
    await waited(store, job, SLEEP)
    assert not await store.withdraw(job.id, job.fence, "trial")


async def test_the_emission_of_an_operator_is_in_the_ledger_once(store: Store) -> None:
    written = entry(action="events.emit")
    await store.emit(EMISSION, entry=written, now=at(1))
    await store.emit(EMISSION, entry=written, now=at(2))
    assert [one.action for one in await store.ledger()] == ["events.emit"]


async def test_retention_deletes_expired_events_and_the_waits_of_pruned_jobs(store: Store) -> None:
    job = await held(store)
    await suspend(store, job, PAID)
    await call_off(store, job, now=at(2))
    await store.emit(replace(EMISSION, name="other", keep=HOUR), now=at(2))
    await store.prune(Retention(), 100, now=BASE + 2 * DAY)
    assert await store.steps(job.id) == []
    assert (await store.timetable()).wait is None
    assert await store.check() == []


@pytest.mark.parametrize("adapter", SHARED, ids=lambda one: one.name)
async def test_an_event_that_very_many_wait_for_wakes_all_of_them(adapter: Adapter, tmp_path: Path) -> None:
    async with opened(adapter, tmp_path, lambda: BASE) as store:
        jobs = new_jobs(1_001)
        await store.insert(jobs, now=BASE)
        running = await store.claim(claim(ADA, 2_000), now=BASE)
        steps = await asyncio.gather(
            *(store.begin_wait(job.id, job.fence, PAID_WHENEVER, now=at(1)) for job in running)
        )
        settlements = [
            decide(job, Suspended("paid"), replace(means(at(1)), step=step))
            for job, step in zip(running, steps, strict=True)
        ]
        assert len(await store.settle(settlements, now=at(1))) == 1_001
        emitted = await store.emit(replace(EMISSION, keep=timedelta(seconds=5)), now=at(2))
        assert (emitted.is_new, dict(emitted.queues)) == (True, {})
        assert (await store.timetable()).wait == at(2)
        woken, seconds = 0, 3
        while batch := await store.end_waits(500, now=at(seconds)):
            woken += batch["default"]
            # The event expires before the last of them are woken; it was emitted for them all the same.
            seconds += 5
            await store.prune(Retention(), 100, now=at(seconds))
        assert woken == 1_001
        assert len(await store.claim(claim(BEN, 2_000), now=at(seconds))) == 1_001
        ended = await asyncio.gather(*(store.step(job.id, "paid") for job in running))
        assert {None if one is None else one.outcome for one in ended} == {EMISSION.payload}
        # No job waits for it now, so it is deleted, and the name can be used again.
        await store.prune(Retention(), 100, now=at(seconds))
        assert (await store.emit(EMISSION, now=at(seconds))).is_new


@pytest.mark.parametrize("adapter", SHARED, ids=lambda one: one.name)
async def test_waits_and_events_outlive_the_store_that_wrote_them(adapter: Adapter, tmp_path: Path) -> None:
    async for place in adapter.place(tmp_path):
        first = await adapter.open(place, lambda: BASE)
        waiting, asleep, late = [await held(first) for _ in range(3)]
        await suspend(first, waiting, PAID)
        await suspend(first, asleep, SLEEP)
        await first.emit(replace(EMISSION, name="early"), now=at(1))
        await first.close()
        second = await adapter.open(place, lambda: BASE)
        assert dict((await second.emit(EMISSION, now=at(5))).queues) == {"default": 1}
        assert dict(await second.promote(10, now=at(61))) == {"default": 1}
        assert (await waited(second, late, replace(PAID, event="early"), 6)).outcome == EMISSION.payload
        await second.close()


@pytest.mark.parametrize("adapter", SHARED, ids=lambda one: one.name)
async def test_no_wake_up_is_lost_when_all_come_at_the_same_moment(adapter: Adapter, tmp_path: Path) -> None:
    """Waits, suspensions and emissions race on two stores of one database; every job must be pending in the end."""
    async for place in adapter.place(tmp_path):
        store = await adapter.open(place, wall_clock)
        other = await adapter.open(place, wall_clock)
        jobs = new_jobs(60)
        await store.insert(jobs)
        running = await store.claim(claim(ADA, 100))

        async def work(job: Job, place: int, store: Store = store) -> None:
            wait = replace(PAID_WHENEVER, event=f"event:{place % 6}")
            step = await store.begin_wait(job.id, job.fence, wait)
            assert step is not None
            settlement = decide(job, Suspended("paid"), replace(means(BASE), step=step))
            assert await store.settle([settlement]) == [job.id]

        async def emit(number: int, by: Store) -> bool:
            await asyncio.sleep(0.002 * number)
            return (await by.emit(Emission(f"event:{number % 6}", str(number)))).is_new

        emissions = [emit(number, by) for number in range(6) for by in (store, other)]
        _, firsts = await asyncio.gather(
            asyncio.gather(*(work(job, place) for place, job in enumerate(running))), asyncio.gather(*emissions)
        )
        assert sum(firsts) == 6
        found = await store.get([job.id for job in jobs])
        assert {job.state for job in found} == {State.PENDING}
        await store.close()
        await other.close()


def child_of(step: Step) -> JobId:
    return JobId(to_number(step.subject or ""))
