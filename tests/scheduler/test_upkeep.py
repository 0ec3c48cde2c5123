"""One pass of each duty: what it does at a given time, and how much it counts."""

from __future__ import annotations

from builders import HOUR, MINUTE, at, new_job, new_jobs
from engine.environment import OLGA, EngineEnvironment
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.schedule import Draft
from rota.core.submission import Template
from rota.ports.store import JobQuery, Retention
from rota.scheduler import Scheduler
from rota.scheduler.upkeep import BATCH, Expirer, Promoter, Pruner, Reaper, Ticker

DRAFT = Draft(name="nightly", rule="@every 1m", template=Template("report"))


async def test_the_ticker_submits_the_jobs_of_due_schedules(env: EngineEnvironment) -> None:
    await env.engine.schedules.create(DRAFT, OLGA)
    ticker = Ticker(env.engine)
    assert await ticker.tick() == 0
    env.clock.move(MINUTE)
    assert [await ticker.tick() for _ in range(2)] == [1, 0]
    (job,) = await env.store.find(JobQuery())
    assert (job.type, job.state) == ("report", State.PENDING)


async def test_the_promoter_makes_due_jobs_pending(env: EngineEnvironment) -> None:
    due, later = new_job(run_at=at(30)), new_job(run_at=at(90))
    await env.submit(due, later)
    promoter = Promoter(env.engine)
    env.clock.move(MINUTE)
    assert [await promoter.tick() for _ in range(2)] == [1, 0]
    assert [(await env.look(job)).state for job in (due, later)] == [State.PENDING, State.SCHEDULED]


async def test_the_reaper_takes_back_jobs_of_lapsed_leases(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    reaper = Reaper(env.engine)
    assert await reaper.tick() == 0
    env.clock.move(MINUTE)
    assert [await reaper.tick() for _ in range(2)] == [1, 0]
    assert (await env.look(held)).state is State.PENDING


async def test_the_expirer_cancels_jobs_not_started_in_time(env: EngineEnvironment) -> None:
    late, patient = new_job(expires_at=at(30)), new_job()
    await env.submit(late, patient)
    env.clock.move(MINUTE)
    expirer = Expirer(env.engine)
    assert [await expirer.tick() for _ in range(2)] == [1, 0]
    assert [(await env.look(job)).state for job in (late, patient)] == [State.CANCELLED, State.PENDING]


async def test_the_pruner_deletes_jobs_after_their_retention(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    waiting = new_job()
    await env.submit(waiting)
    await env.report(held, Succeeded())
    pruner = Pruner(env.engine, Retention(completed=MINUTE))
    assert await pruner.tick() == 0
    env.clock.move(HOUR)
    assert [await pruner.tick() for _ in range(2)] == [1, 0]
    assert [job.id for job in await env.store.find(JobQuery())] == [waiting.id]


async def test_a_pass_takes_a_batch_and_leaves_the_rest_to_the_next(env: EngineEnvironment) -> None:
    await env.submit(*new_jobs(BATCH + 1, run_at=at(30)))
    env.clock.move(MINUTE)
    promoter = Promoter(env.engine)
    assert [await promoter.tick() for _ in range(3)] == [BATCH, 1, 0]


async def test_a_tick_of_the_scheduler_does_every_timely_duty(env: EngineEnvironment) -> None:
    await env.begin(new_job(queue="busy"))
    await env.engine.schedules.create(DRAFT, OLGA)
    await env.submit(new_job(run_at=at(30)), new_job(expires_at=at(30)))
    env.clock.move(MINUTE)
    scheduler = Scheduler(env.engine)
    assert await scheduler.tick() == 4
    assert await scheduler.tick() == 0
