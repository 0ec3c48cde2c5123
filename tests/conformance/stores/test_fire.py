from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest

from builders import BASE, DAY, MINUTE, after, at, entry, fresh_id, ids_of, new_job, schedule
from conformance.stores.transitions import begin, complete, look, snapshot, state
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.schedule import (
    Blackout,
    CatchUp,
    Fate,
    Firing,
    Occurrence,
    Overlap,
    Schedule,
    backfill,
    plan,
)
from rota.core.settlement import Reason
from rota.core.submission import Template
from rota.ports.store import JobQuery, Store


async def put(store: Store, new: Schedule) -> Schedule:
    await store.put_schedules([new], now=BASE)
    return await stored(store, new)


async def stored(store: Store, wanted: Schedule) -> Schedule:
    (found,) = await store.schedules([wanted.id])
    return found


def planned(found: Schedule, now: datetime, *, active: bool = False) -> Firing:
    return plan(found, now, previous_is_active=active, fresh_id=fresh_id)


async def made(store: Store, found: Schedule) -> list[JobId]:
    return ids_of(await store.find(JobQuery(schedule_id=found.id, limit=10_000)))


async def test_a_fire_time_makes_one_job(store: Store) -> None:
    found = await put(store, schedule(template=Template("report", queue="q", priority=9, tags=("cron",))))
    firing = planned(found, at(61))
    (job_id,) = await store.fire([firing], now=at(61))
    job = await look(store, job_id)
    fire_time = firing.occurrences[0].fire_time
    assert (job.type, job.queue, job.priority, job.tags) == ("report", "q", 9, ("cron",))
    assert (job.schedule_id, job.fire_time, job.run_at) == (found.id, fire_time, fire_time)
    assert (job.state, job.created_at) == (State.PENDING, at(61))


async def test_a_fire_time_is_recorded_with_its_job(store: Store) -> None:
    found = await put(store, schedule())
    firing = planned(found, at(61))
    (job_id,) = await store.fire([firing], now=at(61))
    assert await store.occurrences(found.id) == [
        Occurrence(found.id, firing.occurrences[0].fire_time, Fate.FIRED, job_id)
    ]


async def test_the_next_fire_time_is_moved_and_the_last_one_told(store: Store) -> None:
    found = await put(store, schedule())
    firing = planned(found, at(61))
    (job_id,) = await store.fire([firing], now=at(61))
    moved = await stored(store, found)
    assert (moved.next_fire_at, moved.last_job_id) == (firing.next_fire_at, job_id)
    assert moved.last_fire_at == firing.occurrences[0].fire_time


async def test_a_schedule_that_ends_is_never_due_again(store: Store) -> None:
    found = await put(store, schedule(end_at=at(100)))
    await store.fire([planned(found, at(101))], now=at(101))
    assert (await stored(store, found)).next_fire_at is None


async def test_a_firing_that_is_repeated_makes_nothing(store: Store) -> None:
    found = await put(store, schedule())
    firing = planned(found, at(61))
    await store.fire([firing], now=at(61))
    before = await snapshot(store)
    assert await store.fire([firing], now=at(62)) == []
    assert await snapshot(store) == before


async def test_two_schedulers_with_the_same_plan_make_one_job(store: Store) -> None:
    found = await put(store, schedule())
    first, second = planned(found, at(61)), planned(found, at(61))
    assert len(await store.fire([first], now=at(61))) == 1
    before = await snapshot(store)
    assert await store.fire([second], now=at(61)) == []
    assert await snapshot(store) == before


async def test_ten_concurrent_schedulers_make_one_job_per_fire_time(store: Store) -> None:
    found = await put(store, schedule(catch_up=CatchUp.ALL))
    firings = [planned(found, BASE + 5 * MINUTE) for _ in range(10)]
    answers = await asyncio.gather(*(store.fire([firing], now=BASE + 5 * MINUTE) for firing in firings))
    assert sorted(map(len, answers)) == 9 * [0] + [5]
    assert len(await made(store, found)) == 5


async def test_a_firing_of_a_changed_schedule_writes_nothing(store: Store) -> None:
    found = await put(store, schedule())
    firing = planned(found, at(61))
    await store.put_schedules([replace(found, template=Template("other"))], now=at(1))
    before = await snapshot(store)
    assert await store.fire([firing], now=at(61)) == []
    assert await snapshot(store) == before


async def test_a_firing_of_a_schedule_that_was_paused_meanwhile_writes_nothing(store: Store) -> None:
    found = await put(store, schedule())
    firing = planned(found, at(61))
    await store.put_schedules([replace(found, paused_at=at(1))], now=at(1))
    assert await store.fire([firing], now=at(61)) == []


async def test_a_firing_of_a_dropped_schedule_writes_nothing(store: Store) -> None:
    found = await put(store, schedule())
    firing = planned(found, at(61))
    await store.drop_schedules([found.id], now=at(1))
    before = await snapshot(store)
    assert await store.fire([firing], now=at(61)) == []
    assert await snapshot(store) == before
    assert await store.occurrences(found.id) == []


async def test_a_stale_firing_does_not_cancel_what_it_would_have_replaced(store: Store) -> None:
    previous = new_job()
    await store.insert([previous], now=BASE)
    found = await put(store, schedule())
    firing = replace(planned(found, at(61)), cancels=(previous.id,))
    await store.put_schedules([found], now=at(1))
    await store.fire([firing], now=at(61))
    assert await state(store, previous) is State.PENDING


async def test_a_fire_time_that_is_on_record_cancels_nothing(store: Store) -> None:
    """An edit that was on its way while the schedule fired brought the fire time back; the job it had made was the
    previous one then, and was cancelled for a successor that was never made."""
    found = await put(store, schedule(overlap=Overlap.CANCEL_PREVIOUS))
    (made,) = await store.fire([planned(found, at(61))], now=at(61))
    await store.put_schedules([found], now=at(62))
    (again,) = await store.schedules([found.id])
    firing = plan(again, at(63), previous_is_active=True, fresh_id=fresh_id)
    assert firing.cancels == (made,)
    assert await store.fire([firing], now=at(63)) == []
    assert await state(store, made) is State.PENDING


async def test_a_stale_firing_does_not_hinder_those_around_it(store: Store) -> None:
    first, stale, last = [await put(store, schedule(name)) for name in ("a", "b", "c")]
    firings = [planned(found, at(61)) for found in (first, stale, last)]
    await store.fire([firings[1]], now=at(61))
    assert await store.fire(firings, now=at(61)) == [firings[0].jobs[0].id, firings[2].jobs[0].id]


async def test_a_fire_time_that_was_recorded_before_makes_no_job_among_new_ones(store: Store) -> None:
    """A backfill made it already; the schedule is as it was planned from all the same."""
    found = await put(store, schedule(catch_up=CatchUp.ALL))
    await store.fire([backfill(found, at(60), at(120), at(200), fresh_id=fresh_id)], now=at(200))
    firing = planned(found, BASE + 4 * MINUTE)
    assert len(firing.jobs) == 4
    assert len(await store.fire([firing], now=BASE + 4 * MINUTE)) == 3
    assert len(await made(store, found)) == 4


async def test_a_fire_time_keeps_the_job_that_it_made_first(store: Store) -> None:
    found = await put(store, schedule())
    (job_id,) = await store.fire([backfill(found, at(0), at(60), at(61), fresh_id=fresh_id)], now=at(61))
    await store.fire([planned(found, at(61))], now=at(61))
    assert [occurrence.job_id for occurrence in await store.occurrences(found.id)] == [job_id]


async def test_the_next_fire_time_is_moved_even_if_every_fire_time_was_recorded_before(store: Store) -> None:
    found = await put(store, schedule())
    await store.fire([backfill(found, at(0), at(60), at(61), fresh_id=fresh_id)], now=at(61))
    firing = planned(found, at(61))
    assert await store.fire([firing], now=at(61)) == []
    assert (await stored(store, found)).next_fire_at == firing.next_fire_at


async def test_a_backfill_leaves_the_next_fire_time_alone(store: Store) -> None:
    found = await put(store, schedule())
    jobs = await store.fire([backfill(found, BASE - DAY / 24, BASE, BASE, fresh_id=fresh_id)], now=BASE)
    assert len(jobs) == 60
    after_it = await stored(store, found)
    assert (after_it.next_fire_at, after_it.last_fire_at) == (found.next_fire_at, None)


async def test_a_backfill_that_is_repeated_makes_nothing(store: Store) -> None:
    found = await put(store, schedule())
    await store.fire([backfill(found, BASE - DAY / 24, BASE, BASE, fresh_id=fresh_id)], now=BASE)
    again = backfill(found, BASE - DAY / 24, BASE, BASE, fresh_id=fresh_id)
    assert await store.fire([again], now=BASE) == []


async def test_overlapping_backfills_make_each_job_once(store: Store) -> None:
    found = await put(store, schedule())
    await store.fire([backfill(found, BASE - 10 * MINUTE, BASE - 4 * MINUTE, BASE, fresh_id=fresh_id)], now=BASE)
    await store.fire([backfill(found, BASE - 7 * MINUTE, BASE, BASE, fresh_id=fresh_id)], now=BASE)
    assert len(await made(store, found)) == 10


async def test_a_backfill_of_a_changed_schedule_writes_nothing(store: Store) -> None:
    found = await put(store, schedule())
    old = backfill(found, BASE - DAY / 24, BASE, BASE, fresh_id=fresh_id)
    await store.put_schedules([found], now=BASE)
    assert await store.fire([old], now=BASE) == []


async def test_a_backfill_does_not_stand_in_the_way_of_a_firing(store: Store) -> None:
    """It was planned before the backfill and is written behind it: nothing that it was planned from has changed."""
    found = await put(store, schedule())
    firing = planned(found, at(61))
    await store.fire([backfill(found, BASE - DAY / 24, BASE, BASE, fresh_id=fresh_id)], now=BASE)
    assert len(await store.fire([firing], now=at(61))) == 1


async def test_a_blacked_out_fire_time_is_recorded_and_makes_no_job(store: Store) -> None:
    found = await put(store, schedule(blackouts=(Blackout(lasting=DAY, start=BASE),)))
    assert await store.fire([planned(found, at(61))], now=at(61)) == []
    (occurrence,) = await store.occurrences(found.id)
    assert (occurrence.fate, occurrence.job_id) == (Fate.BLACKED_OUT, None)


async def test_an_overlapped_fire_time_is_recorded_and_makes_no_job(store: Store) -> None:
    found = await put(store, schedule(overlap=Overlap.SKIP))
    await store.fire([planned(found, at(61))], now=at(61))
    found = await stored(store, found)
    assert await store.fire([planned(found, at(121), active=True)], now=at(121)) == []
    assert [one.fate for one in await store.occurrences(found.id)] == [Fate.OVERLAPPED, Fate.FIRED]
    assert (await stored(store, found)).last_job_id == found.last_job_id


async def test_a_waiting_predecessor_is_cancelled_as_replaced(store: Store) -> None:
    found = await put(store, schedule(overlap=Overlap.CANCEL_PREVIOUS))
    (previous,) = await store.fire([planned(found, at(61))], now=at(61))
    await store.fire([planned(await stored(store, found), at(121), active=True)], now=at(121))
    job = await look(store, previous)
    assert (job.state, job.reason, job.finished_at) == (State.CANCELLED, Reason.REPLACED, at(121))


async def test_a_running_predecessor_is_asked_to_stop(store: Store) -> None:
    found = await put(store, schedule(overlap=Overlap.CANCEL_PREVIOUS))
    (previous,) = await store.fire([planned(found, at(61))], now=at(61))
    await begin(store, previous, at(61))
    await store.fire([planned(await stored(store, found), at(121), active=True)], now=at(121))
    job = await look(store, previous)
    assert (job.state, job.cancel_requested_at) == (State.RUNNING, at(121))


async def test_a_finished_predecessor_is_left_alone(store: Store) -> None:
    found = await put(store, schedule(overlap=Overlap.CANCEL_PREVIOUS))
    (previous,) = await store.fire([planned(found, at(61))], now=at(61))
    await complete(store, previous, now=at(61))
    before = await look(store, previous)
    await store.fire([planned(await stored(store, found), at(121), active=True)], now=at(121))
    assert await look(store, previous) == before


async def test_a_job_that_waited_for_a_replaced_one_is_cancelled_with_it(store: Store) -> None:
    found = await put(store, schedule(overlap=Overlap.CANCEL_PREVIOUS))
    (previous,) = await store.fire([planned(found, at(61))], now=at(61))
    waiter = new_job(after=after(previous))
    await store.insert([waiter], now=at(61))
    await store.fire([planned(await stored(store, found), at(121), active=True)], now=at(121))
    assert await state(store, waiter) is State.CANCELLED


async def test_a_queued_up_successor_waits_for_its_predecessors_end(store: Store) -> None:
    found = await put(store, schedule(overlap=Overlap.QUEUE))
    (previous,) = await store.fire([planned(found, at(61))], now=at(61))
    (successor,) = await store.fire([planned(await stored(store, found), at(121), active=True)], now=at(121))
    assert await state(store, successor) is State.BLOCKED
    await complete(store, previous, now=at(122))
    assert await state(store, successor) is State.PENDING


async def test_several_missed_fire_times_queue_up_behind_each_other(store: Store) -> None:
    found = await put(store, schedule(overlap=Overlap.QUEUE, catch_up=CatchUp.ALL))
    jobs = await store.fire([planned(found, BASE + 3 * MINUTE)], now=BASE + 3 * MINUTE)
    assert [await state(store, job) for job in jobs] == [State.PENDING, State.BLOCKED, State.BLOCKED]


async def test_fire_times_of_different_schedules_do_not_meet(store: Store) -> None:
    first, second = [await put(store, schedule(name)) for name in ("a", "b")]
    made_jobs = await store.fire([planned(first, at(61)), planned(second, at(61))], now=at(61))
    assert len(made_jobs) == 2


async def test_what_fires_together_is_judged_one_by_one(store: Store) -> None:
    """Of five schedules due at once, one was edited, one is dropped, and one has its fire time on record."""
    names = ("a", "b", "c", "d", "e")
    found = [await put(store, schedule(name)) for name in names]
    firings = [planned(one, at(61)) for one in found]
    await store.put_schedules([replace(found[1], zone="Europe/Berlin")], now=at(60))
    await store.drop_schedules([found[2].id])
    await store.fire([backfill(found[3], at(0), at(60), at(61), fresh_id=fresh_id)], now=at(61))
    assert await store.fire(firings, now=at(61)) == [firings[0].jobs[0].id, firings[4].jobs[0].id]
    assert [len(await made(store, one)) for one in found] == [1, 0, 0, 1, 1]
    moved = {one.name: one.next_fire_at for one in await store.schedules()}
    expected = [firings[0].next_fire_at, found[1].next_fire_at, firings[3].next_fire_at, firings[4].next_fire_at]
    assert moved == dict(zip("abde", expected, strict=True))


async def test_a_schedule_named_twice_fires_once(store: Store) -> None:
    found = await put(store, schedule())
    first, second = planned(found, at(61)), planned(found, at(61))
    assert await store.fire([first, second], now=at(61)) == [first.jobs[0].id]


async def test_ids_that_are_taken_are_told_apart_among_many(store: Store) -> None:
    """Two jobs made together were to have the same id, which a third has already."""
    taken = new_job()
    await store.insert([taken], now=BASE)
    found = [await put(store, schedule(name)) for name in ("a", "b", "c")]
    ids = iter([taken.id, JobId(taken.id + 1), taken.id])
    firings = [plan(one, at(61), previous_is_active=False, fresh_id=lambda: next(ids)) for one in found]
    jobs = await store.fire(firings, now=at(61))
    assert len({*jobs, taken.id}) == 4
    assert sorted(jobs) == sorted([(await made(store, one))[0] for one in found])
    assert sorted(jobs) == sorted([(await store.occurrences(one.id))[0].job_id or 0 for one in found])
    assert sorted(jobs) == sorted([(await stored(store, one)).last_job_id or 0 for one in found])


async def test_a_job_whose_id_is_taken_is_made_under_another(store: Store) -> None:
    """No submitter can take another id; the fire time must not be lost."""
    taken = new_job()
    await store.insert([taken], now=BASE)
    found = await put(store, schedule(overlap=Overlap.QUEUE, catch_up=CatchUp.ALL))
    ids = iter([taken.id, fresh_id()])
    firing = plan(found, BASE + 2 * MINUTE, previous_is_active=False, fresh_id=lambda: next(ids))
    first, second = await store.fire([firing], now=BASE + 2 * MINUTE)
    assert taken.id not in {first, second}
    assert sorted(one.job_id or 0 for one in await store.occurrences(found.id)) == sorted([first, second])
    assert await state(store, second) is State.BLOCKED
    await complete(store, first, now=BASE + 3 * MINUTE)
    assert await state(store, second) is State.PENDING


@pytest.mark.parametrize("count", [1000])
async def test_a_thousand_fire_times_are_caught_up_at_once(store: Store, count: int) -> None:
    found = await put(store, schedule(catch_up=CatchUp.ALL, catch_up_limit=count))
    firing = planned(found, BASE + 2 * count * MINUTE)
    assert len(await store.fire([firing], now=BASE + 2 * count * MINUTE)) == count
    assert len(await made(store, found)) == count


async def test_the_entry_of_a_backfill_is_written_with_its_jobs(store: Store) -> None:
    found = await put(store, schedule())
    firing = backfill(found, BASE - DAY, BASE - DAY + 2 * MINUTE, BASE, fresh_id=fresh_id)
    made = await store.fire([firing], entry=entry("backfill"), now=BASE)
    assert made
    again = backfill(found, BASE - DAY, BASE - DAY + 2 * MINUTE, BASE, fresh_id=fresh_id)
    assert list(await store.fire([again], entry=entry("again"), now=BASE)) == []
    assert [one.action for one in await store.ledger()] == ["backfill"]
