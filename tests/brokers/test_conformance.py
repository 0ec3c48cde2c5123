"""Obligations of every broker: listeners are woken, due jobs are found, and no job that was handed over is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from brokers.redis_environment import TYPES, finish, in_store, redis_environment, take, until
from builders import ADA, BEN, claim, new_job, new_jobs
from rota.core.lifecycle import State
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.wakeup import EVERY_QUEUE, TIMETABLE, Topic
from rota.scheduler.dispatcher import Dispatcher
from servers.valkey import shared_valkey

LONG = timedelta(seconds=60)


@pytest_asyncio.fixture(params=["in_store", "redis_streams"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    """An engine with a running dispatcher, if the broker has dispatch queues."""
    if request.param == "in_store":
        async with in_store() as (store, broker):
            yield Engine(store, broker)
        return
    async with redis_environment(shared_valkey()) as env:
        engine = await env.engine()
        dispatching = asyncio.create_task(Dispatcher(engine).run())
        env.tasks.append(dispatching)
        yield engine


@pytest.mark.parametrize("place", [TIMETABLE, EVERY_QUEUE])
async def test_what_was_announced_since_the_attendance_began_ends_the_wait(engine: Engine, place: Topic) -> None:
    with engine.broker.subscribe((place,)) as subscription:
        await engine.broker.announce(("default",) if place == EVERY_QUEUE else (TIMETABLE,))
        async with asyncio.timeout(30):
            await subscription.wait(LONG)


async def test_a_wait_ends_when_its_time_is_over(engine: Engine) -> None:
    with engine.broker.subscribe(("quiet",)) as subscription:
        async with asyncio.timeout(30):
            await subscription.wait(timedelta(milliseconds=20))


async def test_a_claim_that_waits_is_woken_by_a_submission(engine: Engine) -> None:
    waiting = asyncio.create_task(engine.claim(claim(types=TYPES), wait=LONG))
    await asyncio.sleep(0)
    job = new_job()
    await engine.submit([job])
    async with asyncio.timeout(30):
        (held,) = await waiting
    assert (held.id, held.state, held.fence) == (job.id, State.RUNNING, 1)


async def test_every_job_is_claimed_once_and_settled(engine: Engine) -> None:
    jobs = new_jobs(300)
    await engine.submit(jobs)

    found: list[int] = []

    async def work() -> None:
        while len(found) < len(jobs):
            held = await engine.claim(claim(limit=7, types=TYPES), wait=timedelta(milliseconds=100))
            found.extend(await finish(engine, held))

    async with asyncio.timeout(60):
        await asyncio.gather(*(work() for _ in range(4)))
    assert sorted(found) == sorted(job.id for job in jobs)
    assert (await engine.census()).total(State.COMPLETED) == len(jobs)


async def test_a_claim_gives_no_more_than_its_limit_and_nothing_that_was_not_asked_for(engine: Engine) -> None:
    await engine.submit([*new_jobs(5), *new_jobs(5, "text"), *new_jobs(5, queue="other")])
    held = await take(engine, 3)
    assert {(job.queue, job.type) for job in held} == {("default", "mail")}
    assert len(held) <= 3


async def test_a_repeated_claim_gives_the_same_jobs_and_no_others(engine: Engine) -> None:
    await engine.submit(new_jobs(4))
    wanted = claim(ADA, 2, types=TYPES, claim_id="question-1")
    first = await engine.claim(wanted, wait=timedelta(seconds=5))
    assert first
    assert await engine.claim(wanted, wait=timedelta(seconds=5)) == first
    # Jobs that were handed over to the second request must not be lost.
    rest = 4 - len(first)
    async with asyncio.timeout(30):
        while rest:
            rest -= len(await take(engine, 10, BEN))


async def test_acknowledging_and_handing_back_what_is_unknown_does_nothing(engine: Engine) -> None:
    await engine.broker.acknowledge([new_job().id])
    await engine.broker.hand_back([new_job().id])
    assert not await engine.broker.take(("default",), TYPES, 10)


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(engine: Engine) -> None:
    await engine.queues.pause("default", "repairs", Actor("olga"))
    (job,) = new_jobs(1)
    await engine.submit([job])
    assert not await engine.claim(claim(types=TYPES), wait=timedelta(milliseconds=300))
    await engine.queues.resume("default", Actor("olga"))
    async with asyncio.timeout(30):
        (held,) = await engine.claim(claim(types=TYPES), wait=LONG)
    assert held.id == job.id


async def test_a_broker_that_is_there_says_so(engine: Engine) -> None:
    async def is_up() -> bool:
        return engine.broker.is_up

    assert await until(is_up, bool)
