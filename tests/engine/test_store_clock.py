"""A store's clock that is set ahead or back: no job is taken from a live worker, and no schedule stops firing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import HOUR, MINUTE, SECOND, claim, new_job
from engine.environment import OLGA, EngineEnvironment
from rota.core.cluster import Member, Role
from rota.core.lease import Renewal
from rota.core.lifecycle import State
from rota.core.schedule import Draft, Fate
from rota.core.submission import Delivery, Template
from rota.engine import Engine
from rota.engine.store_clock import START_HOLD_SECONDS
from rota.scheduler import Scheduler

LEASE = timedelta(seconds=15)
BEAT = timedelta(seconds=5)


async def settle_in(env: EngineEnvironment) -> None:
    """Let the scheduler run for a while, as it has when a clock is set."""
    for _ in range(20):
        await env.engine.upkeep.timetable()
        env.clock.move(SECOND)


@pytest.mark.parametrize("delivery", list(Delivery))
async def test_a_step_ahead_takes_no_job_from_a_worker_that_renews(env: EngineEnvironment, delivery: Delivery) -> None:
    await settle_in(env)
    (held,) = await env.begin(new_job(delivery=delivery))
    env.clock.step(HOUR)
    for _ in range(10):
        assert await env.engine.upkeep.reap(10) == 0
        env.clock.move(BEAT)
        await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    found = await env.look(held)
    assert (found.state, found.fence, found.crashes) == (State.RUNNING, held.fence, 0)


async def lapse(env: EngineEnvironment, engine: Engine) -> timedelta:
    """Let the scheduler look at the clock and the leases each second, and say after how long it takes one."""
    waited = timedelta(0)
    while not await engine.upkeep.reap(10):
        await engine.upkeep.timetable()
        env.clock.move(SECOND)
        waited += SECOND
    return waited


@pytest.mark.parametrize("lease", [15, 60, 300], ids=str)
@pytest.mark.parametrize("step", [2, 10, 14, 50, 3600], ids=str)
async def test_a_silent_workers_job_is_taken_when_its_lease_has_lapsed_by_the_steady_clock(
    env: EngineEnvironment, step: int, lease: int
) -> None:
    """Leases of 60 s and 300 s were taken after 15 s."""
    await settle_in(env)
    await env.submit(new_job())
    (held,) = await env.engine.claim(claim(lease=timedelta(seconds=lease)))
    await env.engine.upkeep.timetable()
    env.clock.step(timedelta(seconds=step))
    assert timedelta(0) <= await lapse(env, env.engine) - timedelta(seconds=lease) <= SECOND
    assert (await env.look(held)).state is State.PENDING


@pytest.mark.parametrize("lease", [15, 60, 300], ids=str)
async def test_a_lease_that_was_renewed_before_a_step_is_held_for_its_whole_length(
    env: EngineEnvironment, lease: int
) -> None:
    await settle_in(env)
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    env.clock.move(timedelta(seconds=5.3))
    await env.engine.renew([Renewal(held.id, held.fence, timedelta(seconds=lease))])
    await env.engine.upkeep.timetable()
    env.clock.step(HOUR)
    assert timedelta(0) <= await lapse(env, env.engine) - timedelta(seconds=lease) <= SECOND


async def test_a_lease_that_was_renewed_after_a_step_lapses_as_usual(env: EngineEnvironment) -> None:
    await settle_in(env)
    (held,) = await env.begin(new_job())
    env.clock.step(HOUR)
    await env.engine.upkeep.timetable()
    env.clock.move(timedelta(seconds=4.3))
    await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    assert timedelta(0) <= await lapse(env, env.engine) - LEASE <= SECOND


async def test_a_lease_after_a_step_that_was_taken_back_lapses_as_usual(env: EngineEnvironment) -> None:
    await settle_in(env)
    for step in (HOUR, -HOUR):
        env.clock.step(step)
        await env.engine.upkeep.timetable()
    (held,) = await env.begin(new_job())
    env.clock.move(timedelta(seconds=4.3))
    await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    assert timedelta(0) <= await lapse(env, env.engine) - LEASE <= SECOND


async def test_a_short_lease_that_was_given_before_a_step_was_noticed_is_taken_in_the_end(
    env: EngineEnvironment,
) -> None:
    await settle_in(env)
    (held,) = await env.begin(new_job())
    await env.engine.upkeep.timetable()
    env.clock.step(HOUR)
    env.clock.move(timedelta(seconds=0.3))
    await env.engine.renew([Renewal(held.id, held.fence, 2 * SECOND)])
    env.clock.move(BEAT)
    assert await lapse(env, env.engine) == LEASE


async def test_a_lease_that_was_given_before_the_clock_was_wrong_lapses_when_it_is_right_again(
    env: EngineEnvironment,
) -> None:
    await settle_in(env)
    (held,) = await env.begin(new_job())
    env.clock.move(timedelta(seconds=0.3))
    await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    for step in (-HOUR, HOUR):
        await env.engine.upkeep.timetable()
        env.clock.step(step)
        await env.engine.upkeep.timetable()
        for _ in range(15):
            env.clock.move(SECOND)
            await env.engine.upkeep.timetable()
    assert await env.engine.upkeep.reap(10) == 1


async def test_a_lost_job_is_found_behind_more_held_leases_than_one_look_shows(env: EngineEnvironment) -> None:
    await settle_in(env)
    await env.submit(*[new_job() for _ in range(25)])
    await env.engine.claim(claim(lease=HOUR / 2))
    await env.engine.upkeep.timetable()
    env.clock.step(HOUR)
    await env.engine.upkeep.timetable()
    (lost,) = await env.begin(new_job())
    assert timedelta(0) <= await lapse(env, env.engine) - LEASE <= 3 * SECOND
    assert (await env.look(lost)).state is State.PENDING


async def test_a_clock_that_was_set_back_and_far_ahead_during_an_outage_takes_no_renewed_lease(
    env: EngineEnvironment,
) -> None:
    """Only the difference of the two steps is seen then, and a lease given in between seemed to have lapsed."""
    await settle_in(env)
    (held,) = await env.begin(new_job())
    env.clock.step(-16 * SECOND)
    env.clock.move(BEAT)
    await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    env.clock.move(BEAT)
    env.clock.step(HOUR)
    assert await env.engine.upkeep.reap(10) == 0


@pytest.mark.parametrize("is_renewed", [False, True], ids=["claimed", "renewed"])
@pytest.mark.parametrize("second", [HOUR, 17 * SECOND], ids=["an hour", "17 s"])
async def test_a_lease_that_was_given_between_two_steps_ahead_is_not_taken_for_them(
    env: EngineEnvironment, second: timedelta, *, is_renewed: bool
) -> None:
    """Seen as one step, they seemed to have happened before the lease was given."""
    await settle_in(env)
    await env.engine.upkeep.timetable()
    env.clock.step(HOUR)
    env.clock.move(timedelta(seconds=0.3))
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    if is_renewed:
        env.clock.move(timedelta(seconds=0.3))
        await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    env.clock.step(second)
    assert timedelta(0) <= await lapse(env, env.engine) - LEASE <= SECOND


async def test_a_lease_that_lapses_soon_after_steps_in_an_outage_is_not_taken_for_them(env: EngineEnvironment) -> None:
    """It was taken the moment it had lapsed by the store's clock: only leases that had lapsed before were held."""
    await settle_in(env)
    env.clock.step(HOUR)
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    env.clock.move(10 * SECOND)
    env.clock.step(timedelta(seconds=4.5))
    await env.engine.upkeep.timetable()
    for _ in range(3):
        env.clock.move(SECOND)
        assert await env.engine.upkeep.reap(10) == 0
    assert (await env.look(held)).state is State.RUNNING


async def test_a_lease_that_was_given_while_the_clock_was_behind_in_an_outage_is_not_taken_for_it(
    env: EngineEnvironment,
) -> None:
    """The clock was an hour behind, and then some seconds: only the latter was seen, as a step back."""
    await settle_in(env)
    (lost,) = await env.begin(new_job())
    env.clock.move(LEASE)
    await env.engine.upkeep.timetable()
    env.clock.step(-HOUR)
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    env.clock.move(10 * SECOND)
    env.clock.step(HOUR - 5 * SECOND)
    assert await env.engine.upkeep.reap(10) == 0
    assert await lapse(env, env.engine) == LEASE
    assert {(await env.look(job)).state for job in (lost, held)} == {State.PENDING, State.DEAD}


async def test_a_step_that_is_noticed_late_holds_a_silent_workers_job_for_its_lease_from_then_on(
    env: EngineEnvironment,
) -> None:
    """By one step it could be taken earlier, but there may have been several."""
    await settle_in(env)
    (held,) = await env.begin(new_job())
    env.clock.step(HOUR)
    env.clock.move(4 * SECOND)
    assert timedelta(0) <= await lapse(env, env.engine) - LEASE <= SECOND
    assert (await env.look(held)).state is State.PENDING


async def test_a_lease_that_was_given_between_opposite_steps_is_not_taken_for_them(env: EngineEnvironment) -> None:
    """Seen as one step of the difference, it made the lease lapse early by the step back."""
    await settle_in(env)
    await env.engine.upkeep.timetable()
    env.clock.step(-5 * SECOND)
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    env.clock.move(timedelta(seconds=0.3))
    await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    env.clock.step(HOUR + 5 * SECOND)
    assert timedelta(0) <= await lapse(env, env.engine) - LEASE <= SECOND


async def test_a_lease_that_was_given_while_the_clock_was_behind_is_not_taken_though_others_had_lapsed_before(
    env: EngineEnvironment,
) -> None:
    """Such a lease was recognised only if none had lapsed at the look before."""
    await settle_in(env)
    (lost,) = await env.begin(new_job())
    env.clock.move(LEASE)
    await env.engine.upkeep.timetable()
    env.clock.step(-HOUR)
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    env.clock.step(HOUR)
    await env.engine.upkeep.timetable()
    assert await env.engine.upkeep.reap(10) == 0
    assert [(await env.look(job)).state for job in (lost, held)] == [State.RUNNING] * 2


async def test_a_lease_that_was_given_while_the_clock_was_behind_unseen_is_not_taken_for_it(
    env: EngineEnvironment,
) -> None:
    await settle_in(env)
    env.clock.step(-HOUR)
    (held,) = await env.begin(new_job())
    env.clock.step(HOUR)
    for _ in range(10):
        assert await env.engine.upkeep.reap(10) == 0
        await env.engine.upkeep.timetable()
        env.clock.move(SECOND)
    env.clock.move(timedelta(seconds=0.3))
    await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    env.clock.move(10 * SECOND)
    assert await env.engine.upkeep.reap(10) == 0
    assert (await env.look(held)).state is State.RUNNING
    env.clock.move(5 * SECOND)
    assert await env.engine.upkeep.reap(10) == 1


async def test_without_a_step_a_lost_job_is_taken_the_moment_its_lease_lapses(env: EngineEnvironment) -> None:
    await settle_in(env)
    (held,) = await env.begin(new_job())
    env.clock.move(LEASE)
    assert await env.engine.upkeep.reap(10) == 1
    assert (await env.look(held)).state is State.PENDING


async def test_many_small_steps_ahead_do_not_keep_the_reaper_from_its_work(env: EngineEnvironment) -> None:
    await settle_in(env)
    await env.begin(new_job())
    waited = 0
    while not await env.engine.upkeep.reap(10):
        env.clock.step(timedelta(seconds=1.5))
        await env.engine.upkeep.timetable()
        env.clock.move(2 * SECOND)
        waited += 2
    assert LEASE.total_seconds() <= waited <= LEASE.total_seconds() + 5


async def test_a_scheduler_that_has_just_started_holds_a_renewed_lease_for_longer_than_a_heartbeat(
    env: EngineEnvironment,
) -> None:
    (held,) = await env.begin(new_job())
    env.clock.move(timedelta(seconds=4.3))
    await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    env.clock.step(HOUR)
    waited = await lapse(env, Engine(env.store, env.engine.broker, steady=env.clock.steady))
    assert BEAT.total_seconds() < START_HOLD_SECONDS == waited.total_seconds()
    assert (await env.look(held)).state is State.PENDING


@pytest.mark.parametrize("lease", [15, 60, 300], ids=str)
async def test_a_scheduler_that_has_just_started_holds_a_lease_that_was_never_renewed_for_its_length(
    env: EngineEnvironment, lease: int
) -> None:
    """They were taken after 7 s."""
    await env.submit(new_job(delivery=Delivery.AT_MOST_ONCE))
    await env.engine.claim(claim(lease=timedelta(seconds=lease)))
    env.clock.step(HOUR)
    waited = await lapse(env, Engine(env.store, env.engine.broker, steady=env.clock.steady))
    assert waited.total_seconds() == lease


async def test_a_scheduler_takes_a_lease_on_time_that_lapses_soon_after_its_start(env: EngineEnvironment) -> None:
    """It was taken 6 s late: for 7 s after its start a scheduler took nothing."""
    await env.begin(new_job())
    env.clock.move(LEASE - SECOND)
    fresh = Engine(env.store, env.engine.broker, steady=env.clock.steady)
    await fresh.upkeep.timetable()
    assert await lapse(env, fresh) == SECOND


async def test_schedulers_that_die_soon_after_their_start_take_a_lost_job_all_the_same(env: EngineEnvironment) -> None:
    """Each held it for another 7 s, so none took it."""
    await env.begin(new_job())
    env.clock.move(HOUR)
    for number in range(20):
        fresh = Engine(env.store, env.engine.broker, steady=env.clock.steady)
        await env.store.beat([Member(Role.SCHEDULER, "scheduler", f"boot-{number}")])
        if await fresh.upkeep.reap(10):
            break
        env.clock.move(4 * SECOND)
    assert LEASE.total_seconds() <= number * 4 < LEASE.total_seconds() + 4


async def test_a_slow_answer_is_no_step(env: EngineEnvironment) -> None:
    await settle_in(env)

    async def dawdle() -> None:
        env.clock.move(MINUTE)

    env.faulty_store.before("timetable", dawdle)
    await env.engine.upkeep.timetable()
    await env.begin(new_job())
    await env.engine.upkeep.timetable()
    assert await lapse(env, env.engine) == LEASE


async def test_a_schedule_is_not_silent_after_a_step_back(env: EngineEnvironment) -> None:
    scheduler = Scheduler(env.engine)
    schedule = await env.engine.schedules.create(
        Draft(name="often", rule="@every 10s", template=Template("report")), OLGA
    )
    await settle_in(env)
    env.clock.step(-HOUR)
    await scheduler.read_timetable()
    for _ in range(6):
        env.clock.move(10 * SECOND)
        await env.engine.schedules.fire(10)
    made = await env.engine.schedules.occurrences(schedule.id)
    assert [one.fate for one in made] == [Fate.FIRED] * 6


async def test_a_fire_time_that_was_made_makes_no_second_job_when_the_clock_is_set_back(env: EngineEnvironment) -> None:
    await env.engine.schedules.create(Draft(name="often", rule="@every 10s", template=Template("report")), OLGA)
    scheduler = Scheduler(env.engine)
    for _ in range(6):
        env.clock.move(10 * SECOND)
        await env.engine.schedules.fire(10)
    before = (await env.engine.census()).total()
    env.clock.step(-MINUTE)
    await scheduler.read_timetable()
    for _ in range(6):
        env.clock.move(10 * SECOND)
        await env.engine.schedules.fire(10)
    assert before == (await env.engine.census()).total() == 6


async def test_fire_times_that_a_step_ahead_passed_over_fire_when_it_is_taken_back(env: EngineEnvironment) -> None:
    schedule = await env.engine.schedules.create(
        Draft(name="often", rule="@every 10m", template=Template("report")), OLGA
    )
    scheduler = Scheduler(env.engine)
    await scheduler.read_timetable()
    env.clock.step(HOUR)
    await env.engine.schedules.fire(10)
    await scheduler.read_timetable()
    env.clock.step(-HOUR)
    await scheduler.read_timetable()
    for _ in range(6):
        env.clock.move(10 * MINUTE)
        await env.engine.schedules.fire(10)
    made = await env.engine.schedules.occurrences(schedule.id)
    assert [one.fate for one in made] == [Fate.FIRED] * 6
    assert len({one.job_id for one in made}) == 6


async def test_a_schedule_that_waits_for_its_start_or_is_paused_is_left_alone(env: EngineEnvironment) -> None:
    draft = Draft(name="later", rule="@every 10s", template=Template("report"), start_at=env.clock() + HOUR)
    later = await env.engine.schedules.create(draft, OLGA)
    paused = await env.engine.schedules.create(Draft(name="off", rule="@daily", template=Template("report")), OLGA)
    paused = await env.engine.schedules.pause(paused.id, "why not", OLGA)
    env.clock.step(-HOUR)
    assert await env.engine.schedules.rearm() == 0
    assert await env.engine.schedules.one(later.id) == later
    assert await env.engine.schedules.one(paused.id) == paused
