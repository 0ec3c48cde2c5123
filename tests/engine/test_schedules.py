"""Schedules: creating them, editing them, and making exactly one job for each fire time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from builders import BASE, HOUR, MINUTE, SECOND, at
from engine.environment import OLGA, EngineEnvironment
from rota.core.errors import (
    IllegalTransition,
    InvalidCron,
    InvalidRequest,
    QueueFull,
    ScheduleNotFound,
    StoreUnavailable,
)
from rota.core.ids import ScheduleId
from rota.core.lifecycle import State
from rota.core.schedule import CatchUp, Draft, Fate, Overlap, Schedule
from rota.core.submission import Template
from rota.engine.schedules import LONGEST_PREVIEW
from rota.ports.store import JobQuery
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.events import ScheduleChanged, ScheduleFired

DRAFT = Draft(name="nightly", rule="@every 1m", template=Template("report"))


async def put_up(env: EngineEnvironment, **fields: object) -> Schedule:
    return await env.engine.schedules.create(replace(DRAFT, **fields), OLGA)  # type: ignore[arg-type]


async def jobs_of(env: EngineEnvironment) -> list[str]:
    return [str(job.state) for job in await env.store.find(JobQuery())]


# Putting up


async def test_a_new_schedule_is_due_at_its_first_time_by_the_stores_clock(env: EngineEnvironment) -> None:
    env.host_clock.move(HOUR)
    made = await put_up(env)
    assert made.next_fire_at is not None
    assert BASE < made.next_fire_at <= BASE + MINUTE


async def test_a_new_schedule_is_told_entered_and_rung_for(env: EngineEnvironment) -> None:
    assert await env.wakes(TIMETABLE, put_up(env))
    assert [(one.name, one.action) for one in env.events_of(ScheduleChanged)] == [("nightly", "created")]
    assert [(one.actor, one.action) for one in await env.store.ledger()] == [("olga", "schedules.create")]


async def test_a_name_belongs_to_one_schedule(env: EngineEnvironment) -> None:
    await put_up(env)
    with pytest.raises(IllegalTransition, match="nightly"):
        await put_up(env)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"rule": "61 * * * *"}, "cron"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"catch_up_limit": 0}, "catch_up_limit"),
        ({"jitter": -SECOND}, "jitter"),
        ({"grace": -SECOND}, "grace"),
        ({"start_at": at(60), "end_at": at(60)}, "end_at"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_schedule_that_cannot_be_is_refused(
    env: EngineEnvironment, fields: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await put_up(env, **fields)
    assert isinstance(refused.value, InvalidCron) or refused.value.field == field
    assert await env.store.schedules() == []


async def test_put_creates_then_leaves_then_edits(env: EngineEnvironment) -> None:
    put = env.engine.schedules.put
    made = await put(DRAFT, OLGA)
    assert await put(DRAFT, OLGA) == made
    edited = await put(replace(DRAFT, rule="@every 2m"), OLGA)
    assert (edited.id, edited.rule, edited.version) == (made.id, "@every 2m", made.version + 1)


async def test_two_processes_that_put_up_the_same_schedule_both_have_it(env: EngineEnvironment) -> None:
    """One of them failed: it had looked before the other wrote, and found the name taken."""
    put = env.engine.schedules.put
    env.faulty_store.before("put_schedules", lambda: put(DRAFT, OLGA))
    made = await put(DRAFT, OLGA)
    assert [found.id for found in await env.store.schedules()] == [made.id]


async def test_an_edit_of_what_was_changed_meanwhile_is_refused(env: EngineEnvironment) -> None:
    made = await put_up(env)
    await env.engine.schedules.edit(replace(made, jitter=SECOND), OLGA)
    with pytest.raises(IllegalTransition, match="changed meanwhile"):
        await env.engine.schedules.edit(replace(made, grace=SECOND), OLGA)


async def test_an_edit_that_leaves_the_times_leaves_what_is_owed(env: EngineEnvironment) -> None:
    made = await put_up(env)
    env.clock.move(HOUR)
    edited = await env.engine.schedules.edit(replace(made, jitter=SECOND), OLGA)
    assert edited.next_fire_at == made.next_fire_at


async def test_a_paused_schedule_fires_nothing_and_owes_nothing_when_it_goes_on(env: EngineEnvironment) -> None:
    made = await put_up(env)
    await env.engine.schedules.pause(made.id, "deploy", OLGA)
    env.clock.move(HOUR)
    assert await env.engine.schedules.fire(10) == 0
    resumed = await env.engine.schedules.resume(made.id, OLGA)
    assert resumed.next_fire_at is not None
    assert resumed.next_fire_at > BASE + HOUR
    assert await jobs_of(env) == []


async def test_a_dropped_schedule_leaves_its_jobs(env: EngineEnvironment) -> None:
    made = await put_up(env)
    await env.engine.schedules.run_now(made.id, OLGA)
    await env.engine.schedules.drop(made.id, OLGA)
    assert await jobs_of(env) == ["pending"]
    with pytest.raises(ScheduleNotFound):
        await env.engine.schedules.one(made.id)


async def test_an_unknown_schedule_is_not_found_by_id_or_name(env: EngineEnvironment) -> None:
    with pytest.raises(ScheduleNotFound):
        await env.engine.schedules.one(ScheduleId(7))
    with pytest.raises(ScheduleNotFound):
        await env.engine.schedules.named("nobody")


# Firing


async def test_a_fire_time_makes_one_job_however_many_fire(env: EngineEnvironment) -> None:
    await put_up(env)
    env.clock.move(MINUTE)
    await asyncio.gather(*(env.engine.schedules.fire(10) for _ in range(5)))
    assert await jobs_of(env) == ["pending"]


async def test_a_firing_is_told_with_its_jobs_and_how_late_it_is(env: EngineEnvironment) -> None:
    made = await put_up(env)
    assert made.next_fire_at is not None
    env.clock.moment = made.next_fire_at + 3 * SECOND
    assert await env.engine.schedules.fire(10) == 1
    (event,) = env.events_of(ScheduleFired)
    (job,) = await env.store.find(JobQuery())
    assert (list(event.jobs), event.late_seconds) == ([job.id], 3.0)


async def test_what_another_one_fired_is_no_event(env: EngineEnvironment) -> None:
    await put_up(env)
    env.clock.move(MINUTE)
    env.faulty_store.before("fire", lambda: env.engine.schedules.fire(10))
    await env.engine.schedules.fire(10)
    assert len(env.events_of(ScheduleFired)) == 1


@pytest.mark.parametrize("host_is_off_by", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_fire_times_are_computed_by_the_stores_clock(env: EngineEnvironment, host_is_off_by: timedelta) -> None:
    """A scheduler whose clock was an hour ahead planned past fire times that had not come yet."""
    made = await put_up(env, catch_up=CatchUp.ALL)
    env.host_clock.move(host_is_off_by)
    env.clock.move(2 * MINUTE)
    await env.engine.schedules.fire(10)
    assert len(await jobs_of(env)) == 2
    found = await env.engine.schedules.one(made.id)
    assert found.next_fire_at is not None
    assert BASE + 2 * MINUTE < found.next_fire_at <= BASE + 3 * MINUTE


async def test_a_pass_fires_no_more_schedules_than_its_limit(env: EngineEnvironment) -> None:
    for name in "abc":
        await put_up(env, name=name)
    env.clock.move(MINUTE)
    assert [await env.engine.schedules.fire(2) for _ in range(3)] == [2, 1, 0]


async def test_an_overlapping_fire_time_is_recorded_and_makes_no_job(env: EngineEnvironment) -> None:
    made = await put_up(env, overlap=Overlap.SKIP)
    for _ in range(2):
        env.clock.move(MINUTE)
        await env.engine.schedules.fire(10)
    assert [one.fate for one in await env.engine.schedules.occurrences(made.id)] == [Fate.OVERLAPPED, Fate.FIRED]


async def test_a_store_that_is_away_pauses_no_schedule(env: EngineEnvironment) -> None:
    """Whatever went wrong while a schedule was planned paused it for good."""
    made = await put_up(env, overlap=Overlap.SKIP)
    env.clock.move(MINUTE)
    await env.engine.schedules.fire(10)
    env.clock.move(MINUTE)
    env.faulty_store.cut("get")
    with pytest.raises(StoreUnavailable):
        await env.engine.schedules.fire(10)
    assert (await env.engine.schedules.one(made.id)).paused_at is None


async def test_a_schedule_that_cannot_be_planned_is_set_aside_and_hinders_nobody(env: EngineEnvironment) -> None:
    bad = await put_up(env, name="bad")
    await put_up(env, name="good")
    # As if the zone had vanished from the tz data since.
    await env.store.put_schedules([replace(bad, zone="Mars/Olympus")])
    env.clock.move(MINUTE)
    await env.engine.schedules.fire(10)
    found = await env.engine.schedules.named("bad")
    assert found.paused_at is not None
    assert "cannot be planned" in (found.pause_reason or "")
    assert await jobs_of(env) == ["pending"]


# Beside the fire times


async def test_run_now_makes_a_job_beside_the_fire_times(env: EngineEnvironment) -> None:
    made = await put_up(env)
    job = await env.look((await env.engine.schedules.run_now(made.id, OLGA)).job_id)
    assert (job.schedule_id, job.fire_time, job.state) == (made.id, None, State.PENDING)
    assert await env.engine.schedules.occurrences(made.id) == []


async def test_run_now_is_refused_while_its_queue_is_full(env: EngineEnvironment) -> None:
    """It gave the id of a job that was not there."""
    made = await put_up(env)
    await env.engine.queues.limit("default", 0, OLGA)
    with pytest.raises(QueueFull):
        await env.engine.schedules.run_now(made.id, OLGA)
    assert [one.action for one in await env.store.ledger()] == ["queues.limit", "schedules.create"]


async def test_a_backfill_does_not_reach_beyond_the_record_of_fire_times(env: EngineEnvironment) -> None:
    """What was pruned from the record would be made a second time."""
    made = await put_up(env)
    with pytest.raises(InvalidRequest, match="no longer on record"):
        await env.engine.schedules.backfill(made.id, BASE - timedelta(days=100), BASE, OLGA)


async def test_a_backfill_is_of_a_past_period(env: EngineEnvironment) -> None:
    """Of a period in the future it made all jobs ahead, which nobody could take back by deleting the schedule."""
    made = await put_up(env)
    env.clock.move(10 * MINUTE)
    for verb in (env.engine.schedules.backfill_times, partial(env.engine.schedules.backfill, by=OLGA)):
        with pytest.raises(InvalidRequest, match=r"to: .* is not past") as refusal:
            await verb(made.id, BASE, BASE + 11 * MINUTE)
        assert refusal.value.field == "to"
    assert await jobs_of(env) == []


async def test_a_schedule_that_ends_before_its_first_fire_time_is_refused(env: EngineEnvironment) -> None:
    """It was created and never fired."""
    for ends in ({"end_at": BASE - MINUTE}, {"start_at": BASE + SECOND, "end_at": BASE + 2 * SECOND}):
        with pytest.raises(InvalidRequest, match=r"end_at: .* before the first fire time"):
            await put_up(env, **ends)


async def test_a_schedule_of_code_may_have_ended(env: EngineEnvironment) -> None:
    """Or an app with such a schedule could not start on a new store any more."""
    made = await env.engine.schedules.put(replace(DRAFT, end_at=BASE - MINUTE), OLGA)
    assert made.next_fire_at is None


async def test_a_backfill_makes_what_was_missed_and_nothing_twice(env: EngineEnvironment) -> None:
    made = await put_up(env)
    env.clock.move(10 * MINUTE)
    backfill = env.engine.schedules.backfill
    assert len(await backfill(made.id, BASE, BASE + 5 * MINUTE, OLGA)) == 5
    assert list(await backfill(made.id, BASE, BASE + 5 * MINUTE, OLGA)) == []
    assert (await env.store.ledger())[0].action == "schedules.backfill"


async def test_a_preview_counts_from_a_moment_in_its_zone(env: EngineEnvironment) -> None:
    (first, second) = env.engine.schedules.preview("0 9 * * *", "Europe/Berlin", 2, BASE)
    assert (first.isoformat(), second.isoformat()) == ("2026-03-02T09:00:00+01:00", "2026-03-03T09:00:00+01:00")


@pytest.mark.parametrize("count", [0, LONGEST_PREVIEW + 1])
async def test_a_preview_is_of_a_sensible_length(env: EngineEnvironment, count: int) -> None:
    with pytest.raises(InvalidRequest, match="count"):
        env.engine.schedules.preview("* * * * *", "UTC", count)
