from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

from builders import (
    ADA,
    BASE,
    HOUR,
    SECOND,
    after,
    at,
    claim,
    failure,
    fresh_id,
    key,
    means,
    new_job,
    new_jobs,
    schedule,
)
from conformance.stores.transitions import begin, call_off, complete, end, kill, look
from rota.core.decision import cancel, decide, retry
from rota.core.lifecycle import FINISHED, Event, State
from rota.core.outcome import Lost, Outcome, Released, Succeeded
from rota.core.queue import Lane, LaneCount
from rota.core.schedule import CatchUp, plan
from rota.core.submission import Template
from rota.ports.store import LATEST_COMMIT, CompletedCount, Retention, Store

AT_ONCE = Retention(timedelta(0), timedelta(0), timedelta(0))


async def test_an_empty_store_counts_nothing(store: Store) -> None:
    census = await store.census()
    assert (census.total(), sum(census.finished.values()), sum(census.pruned.values())) == (0, 0, 0)


async def test_unfinished_jobs_are_counted_by_lane_and_state(store: Store) -> None:
    await store.insert(
        [
            *new_jobs(3, "mail", queue="a"),
            *new_jobs(2, "mail", queue="b"),
            *new_jobs(1, "report", queue="a"),
            *new_jobs(4, "mail", queue="a", run_at=BASE + HOUR),
        ],
        now=BASE,
    )
    assert {lane for lane in (await store.census()).lanes if lane.count} == {
        LaneCount(Lane("a", "mail"), State.PENDING, 3, BASE),
        LaneCount(Lane("b", "mail"), State.PENDING, 2, BASE),
        LaneCount(Lane("a", "report"), State.PENDING, 1, BASE),
        LaneCount(Lane("a", "mail"), State.SCHEDULED, 4),
    }


async def _due_since(store: Store) -> dict[str, datetime | None]:
    return {one.lane.type: one.due_since for one in (await store.census()).lanes}


async def test_a_lane_says_since_when_its_next_job_has_been_due(store: Store) -> None:
    await store.insert([new_job("mail", run_at=at(9))], now=BASE)
    assert await _due_since(store) == {"mail": None}, "it is not due"
    await store.promote(9, now=at(20))
    await store.insert(new_jobs(2, "mail"), now=at(20))
    await store.insert([new_job("report"), new_job("report", run_at=BASE)], now=at(30))
    assert await _due_since(store) == {"mail": at(9), "report": at(30)}, "none is due before it was submitted"
    await store.claim(claim(limit=1, types=("mail",)), now=at(40))
    assert {one.due_since for one in (await store.census()).lanes if one.state is not State.PENDING} == {None}
    assert {one.due_since for one in (await store.census()).lanes if one.state is State.PENDING} == {at(20), at(30)}


async def test_the_next_job_of_a_lane_is_the_one_that_is_claimed_next(store: Store) -> None:
    await store.insert([new_job("mail", priority=5)], now=BASE)
    await store.insert([new_job("mail", priority=6)], now=at(60))
    assert await _due_since(store) == {"mail": at(60)}
    await store.claim(claim(limit=1), now=at(60))
    pending = [one for one in (await store.census()).lanes if one.state is State.PENDING]
    assert [one.due_since for one in pending] == [BASE]


async def test_jobs_that_a_broker_holds_are_due_still(store: Store) -> None:
    jobs = [new_job("mail", priority=5), new_job("mail", priority=6)]
    await store.insert(jobs[:1], now=BASE)
    await store.insert(jobs[1:], now=at(60))
    for job in jobs:
        await store.settle([(await look(store, job)).settled(Event.DISPATCH)], now=at(60))
    (lane,) = [one for one in (await store.census()).lanes if one.count]
    assert (lane.state, lane.count, lane.due_since) == (State.QUEUED, 2, BASE), "the oldest, whatever its priority"


async def test_every_state_is_counted(store: Store) -> None:
    parent, running, retrying, done, dead, gone, queued = new_jobs(7)
    rest = [new_job(after=after(parent)), new_job(run_at=BASE + HOUR)]
    await store.insert([parent, running, retrying, done, dead, gone, queued, *rest], now=BASE)
    await begin(store, running)
    await end(store, await begin(store, retrying), failure())
    await complete(store, done)
    await kill(store, dead)
    await call_off(store, gone)
    await store.settle([(await look(store, queued)).settled(Event.DISPATCH)], now=BASE)
    census = await store.census()
    assert {state: census.total(state) for state in State} == dict.fromkeys(State, 1)
    assert census.total() == len(State)


async def test_finished_jobs_are_counted_by_state_alone(store: Store) -> None:
    jobs = [new_job("a"), new_job("b"), new_job("c")]
    await store.insert(jobs, now=BASE)
    await complete(store, *jobs)
    census = await store.census()
    assert {state: count for state, count in census.finished.items() if count} == {State.COMPLETED: 3}
    assert sum(lane.count for lane in census.lanes) == 0


async def test_pruned_jobs_are_counted_by_the_state_they_ended_in(store: Store) -> None:
    done, dead, gone = new_jobs(3)
    await store.insert([done, dead, gone, new_job()], now=BASE)
    await complete(store, done)
    await kill(store, dead)
    await call_off(store, gone)
    await store.prune(AT_ONCE, 100, now=at(1))
    census = await store.census()
    assert {state: census.pruned.get(state, 0) for state in FINISHED} == dict.fromkeys(FINISHED, 1)
    assert census.total() == 1


async def test_pruned_jobs_are_added_up(store: Store) -> None:
    for _ in range(3):
        job = new_job()
        await store.insert([job], now=BASE)
        await complete(store, job)
        await store.prune(AT_ONCE, 100, now=at(1))
    assert (await store.census()).pruned[State.COMPLETED] == 3


async def _done(store: Store, count: int, now: datetime) -> None:
    jobs = new_jobs(count)
    await store.insert(jobs, now=now)
    await complete(store, *jobs, now=now)


async def _completed(store: Store, known: CompletedCount | None) -> int:
    """Count completed jobs from what is known, which must give as many as a count of all."""
    total = (await store.census(known)).total(State.COMPLETED)
    assert total == (await store.census()).total(State.COMPLETED)
    return total


async def test_completed_jobs_are_counted_from_what_the_last_count_knew(store: Store) -> None:
    known = None
    for hour in range(4):
        await _done(store, 3, BASE + hour * HOUR)
        known = (await store.census(known)).completed
        assert await _completed(store, known) == 3 * (hour + 1)


async def test_completed_jobs_that_are_known_are_not_read_again(store: Store) -> None:
    await _done(store, 3, BASE)
    await _done(store, 2, BASE + HOUR)
    known = (await store.census()).completed
    if known is None:
        # The reference always counts all.
        return
    assert (known.count, known.until) == (3, BASE + HOUR - LATEST_COMMIT)
    wrong = replace(known, count=known.count + 10)
    assert (await store.census(wrong)).finished[State.COMPLETED] == 15


async def test_a_completion_that_is_stored_late_is_counted(store: Store) -> None:
    await _done(store, 3, BASE + HOUR)
    known = (await store.census()).completed
    await _done(store, 1, BASE + HOUR - LATEST_COMMIT + SECOND)
    assert await _completed(store, known) == 4


async def test_pruned_jobs_leave_the_count_of_completed_ones(store: Store) -> None:
    await _done(store, 3, BASE)
    await _done(store, 2, BASE + HOUR)
    await _done(store, 4, BASE + 2 * HOUR)
    known = (await store.census()).completed
    kept = Retention(HOUR, HOUR, HOUR)
    assert await store.prune(kept, 2, now=BASE + HOUR) == 2
    assert await _completed(store, known) == 7
    assert await store.prune(kept, 100, now=BASE + 2 * HOUR) == 3
    assert await _completed(store, known) == 4


async def test_what_is_known_of_jobs_that_are_all_gone_is_forgotten(store: Store) -> None:
    await _done(store, 3, BASE)
    known = (await store.census()).completed
    await _done(store, 2, BASE + HOUR)
    await _done(store, 4, BASE + 2 * HOUR)
    # Some of those deleted were not known.
    assert await store.prune(Retention(HOUR, HOUR, HOUR), 100, now=BASE + 2 * HOUR) == 5
    assert await _completed(store, known) == 4
    assert await store.prune(AT_ONCE, 100, now=BASE + 3 * HOUR) == 4
    assert await _completed(store, known) == 0


async def test_nothing_disappears(store: Store) -> None:
    """Submitted = counted + pruned, at every moment of a busy and seeded life."""
    rng = random.Random(20260301)
    outcomes: list[Outcome] = [Succeeded(), Lost(), Released(), failure(), failure(permanent=True)]
    submitted = 0
    nightly = schedule(catch_up=CatchUp.ALL)
    await store.put_schedules([nightly], now=BASE)
    for minute in range(40):
        now = BASE + minute * HOUR / 60
        parents = new_jobs(3, on_success=Template("next") if rng.random() < 0.5 else None)
        batch = [*parents, new_job(after=after(rng.choice(parents))), new_job(idempotency=key(str(minute // 3)))]
        answers = await store.insert(batch, now=now)
        submitted += sum(answer.receipt == "created" for answer in answers)
        for job in await store.claim(claim(ADA, 4), now=now):
            outcome = rng.choice(outcomes)
            settlement = decide(job, outcome, means(now))
            await store.settle([settlement], now=now)
            submitted += settlement.follow_up is not None
        await store.promote(5, now=now)
        for found in await store.due_schedules(1, now=now):
            firing = plan(found, now, previous_is_active=False, fresh_id=fresh_id)
            submitted += len(await store.fire([firing], now=now))
        for job in await store.expired(1, now=now):
            await store.settle([retry(job, now)], now=now)
        if rng.random() < 0.3:
            await store.prune(AT_ONCE, rng.randrange(1, 10), now=now)
        if rng.random() < 0.3:
            for job in await store.claim(claim(limit=1), now=now):
                await end(store, job, Released(), now)
                settlement_ = cancel(await look(store, job))
                assert settlement_ is not None
                await store.settle([settlement_], now=now)
        census = await store.census()
        assert census.total() + sum(census.pruned.values()) == submitted
