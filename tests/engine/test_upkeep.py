"""Upkeep in bounded passes, and ids that only grow."""

from __future__ import annotations

from datetime import timedelta

from builders import HOUR, MINUTE, ManualClock, at, claim, new_job, new_jobs
from engine.environment import EngineEnvironment
from rota.core.ids import SEQUENCE_BITS
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.settlement import Reason
from rota.engine.ids import IdMaker
from rota.ports.store import Retention
from rota.telemetry.events import JobsPromoted, JobsPruned, JobsSettled


async def test_what_is_due_is_promoted_told_and_rung_for(env: EngineEnvironment) -> None:
    await env.submit(*new_jobs(2, queue="bulk", run_at=at(30)), new_job(queue="bulk", run_at=at(90)))
    env.clock.move(MINUTE)
    assert await env.wakes("bulk", env.engine.upkeep.promote(10))
    (event,) = env.events_of(JobsPromoted)
    assert dict(event.queues) == {"bulk": 2}


async def test_a_pass_promotes_no_more_than_its_limit(env: EngineEnvironment) -> None:
    await env.submit(*new_jobs(5, run_at=at(30)))
    env.clock.move(MINUTE)
    assert [await env.engine.upkeep.promote(2) for _ in range(4)] == [2, 2, 1, 0]


async def test_nothing_due_is_no_event(env: EngineEnvironment) -> None:
    await env.submit(new_job(run_at=at(30)))
    env.events.clear()
    assert await env.engine.upkeep.promote(10) == 0
    assert await env.engine.upkeep.prune(Retention(), 10) == 0
    assert env.events == []


async def test_a_pass_prunes_no_more_than_its_limit_and_tells_how_many(env: EngineEnvironment) -> None:
    for job in await env.begin(*new_jobs(3)):
        await env.report(job, Succeeded())
    env.clock.move(HOUR)
    retention = Retention(completed=MINUTE)
    env.events.clear()
    assert [await env.engine.upkeep.prune(retention, 2) for _ in range(3)] == [2, 1, 0]
    assert [event.count for event in env.events_of(JobsPruned)] == [2, 1]


async def test_what_is_too_late_to_start_ends_and_is_told(env: EngineEnvironment) -> None:
    job, other = new_job(expires_at=at(30)), new_job()
    await env.submit(job, other)
    env.clock.move(MINUTE)
    env.events.clear()
    assert await env.engine.upkeep.expire(10) == 1
    (event,) = env.events_of(JobsSettled)
    assert [one.job_id for one in event.settlements] == [job.id]
    ended = await env.look(job)
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.EXPIRED)


async def test_a_job_that_begins_while_it_is_found_too_late_runs(env: EngineEnvironment) -> None:
    job = new_job(expires_at=at(30))
    await env.submit(job)
    (held,) = await env.engine.claim(claim())
    env.clock.move(MINUTE)
    await env.engine.upkeep.expire(10)
    assert (await env.look(held)).state is State.RUNNING


async def test_due_is_the_earliest_of_all_that_waits_for_its_time(env: EngineEnvironment) -> None:
    assert (await env.engine.upkeep.timetable()).first is None
    await env.submit(new_job(run_at=at(90)), new_job(run_at=at(30)))
    assert (await env.engine.upkeep.timetable()).first == at(30)


def test_ids_grow_also_when_the_clock_steps_back() -> None:
    clock = ManualClock()
    make = IdMaker(clock, lambda: 0.9)
    made = [make()]
    for step in (0, 1, -3600, 0, 7200):
        clock.move(timedelta(seconds=step))
        made.append(make())
    assert made == sorted(set(made))


def test_ids_of_one_millisecond_count_on_from_a_random_start() -> None:
    make = IdMaker(ManualClock(), lambda: 0.5)
    first, second = make(), make()
    assert second == first + 1
    assert first >> SEQUENCE_BITS == second >> SEQUENCE_BITS


def test_several_ids_are_in_a_row_and_no_later_one_is_among_them() -> None:
    clock = ManualClock()
    make = IdMaker(clock, lambda: 0.5)
    before, several, after = make(), make.several(clock(), 3), make()
    assert list(several) == [before + 1, before + 2, before + 3]
    assert after == before + 4
