"""Catch-up policies: fire times that passed while no scheduler ran, on every store."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from builders import BASE, SECOND, ManualClock
from rota.brokers.in_store import InStoreBroker
from rota.core.schedule import CatchUp, Draft, Fate, Schedule
from rota.core.submission import Template
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import Store

OLGA = Actor("olga")
#: The tests begin 123 ms after a full second: the fire times of `@every 2s` come 1.876543 s later, then every 2 s.
PHASE = timedelta(microseconds=123_457)


@asynccontextmanager
async def scheduler_on(store: Store, clock: ManualClock) -> AsyncIterator[Engine]:
    """Start a scheduler process: an engine that has not looked at anything yet."""
    broker = InStoreBroker(store)
    try:
        yield Engine(store, broker, clock=clock, steady=clock.steady)
    finally:
        await broker.close()


async def put(engine: Engine, catch_up: CatchUp, limit: int = 100, grace: timedelta = 60 * SECOND) -> Schedule:
    draft = Draft(
        name="often",
        rule="@every 2s",
        template=Template("report"),
        catch_up=catch_up,
        catch_up_limit=limit,
        grace=grace,
    )
    return await engine.schedules.create(draft, OLGA)


async def fates(engine: Engine, schedule: Schedule, since: datetime = BASE) -> Counter[Fate]:
    found = await engine.schedules.occurrences(schedule.id, limit=1000)
    return Counter(one.fate for one in found if one.fire_time > since)


async def pass_time(engine: Engine, clock: ManualClock, seconds: int) -> None:
    """Let time pass while a scheduler is up, which looks a moment after each fire time."""
    for _ in range(seconds):
        clock.move(SECOND)
        await engine.schedules.fire(10)


@pytest.mark.parametrize(
    ("catch_up", "limit", "fired", "missed"),
    [(CatchUp.SKIP, 100, 0, 10), (CatchUp.LATEST, 100, 1, 9), (CatchUp.ALL, 4, 4, 6), (CatchUp.ALL, 100, 10, 0)],
    ids=["skip", "latest", "all(4)", "all(100)"],
)
@pytest.mark.parametrize("down", [20.0, 21.2], ids=str)
async def test_each_policy_does_what_it_says_from_the_first_second(
    store: Store, clock: ManualClock, catch_up: CatchUp, limit: int, fired: int, missed: int, down: float
) -> None:
    async with scheduler_on(store, clock) as engine:
        schedule = await put(engine, catch_up, limit)
        await pass_time(engine, clock, 10)
        assert await fates(engine, schedule) == {Fate.FIRED: 5}
    stopped = clock()
    clock.move(timedelta(seconds=down))
    up = clock()
    async with scheduler_on(store, clock) as engine:
        # What came due just now another scheduler might be about to fire; a second later none is.
        for _ in range(3):
            await engine.schedules.fire(10)
            clock.move(timedelta(milliseconds=600))
        found = await engine.schedules.occurrences(schedule.id, limit=1000)
        answer = Counter(one.fate for one in found if stopped < one.fire_time <= up)
        assert answer == Counter({Fate.FIRED: fired, Fate.MISSED: missed}) - Counter()
        # And from then on it fires as ever.
        since = clock()
        await pass_time(engine, clock, 10)
        assert await fates(engine, schedule, since) == {Fate.FIRED: 5}


async def test_skip_without_grace_fires_normally(store: Store, clock: ManualClock) -> None:
    async with scheduler_on(store, clock) as engine:
        schedule = await put(engine, CatchUp.SKIP, grace=timedelta(0))
        await pass_time(engine, clock, 20)
        assert await fates(engine, schedule) == {Fate.FIRED: 10}


async def test_a_second_scheduler_that_starts_takes_nothing_from_the_first(store: Store, clock: ManualClock) -> None:
    async with scheduler_on(store, clock) as first, scheduler_on(store, clock) as second:
        schedule = await put(first, CatchUp.SKIP)
        await first.schedules.fire(10)
        clock.move(2 * SECOND)
        assert await second.schedules.fire(10) == 0
        assert await first.schedules.fire(10) == 1
        assert await fates(first, schedule) == {Fate.FIRED: 1}


async def test_what_was_missed_is_made_up_for_by_a_backfill_once(store: Store, clock: ManualClock) -> None:
    async with scheduler_on(store, clock) as engine:
        schedule = await put(engine, CatchUp.LATEST)
        clock.move(20 * SECOND)
        await engine.schedules.fire(10)
        assert await fates(engine, schedule) == {Fate.FIRED: 1, Fate.MISSED: 9}
        assert len(await engine.schedules.backfill(schedule.id, BASE, clock(), OLGA)) == 9
        assert await fates(engine, schedule) == {Fate.FIRED: 10}
        assert len(await engine.schedules.backfill(schedule.id, BASE, clock(), OLGA)) == 0
    jobs = [one.job_id for one in await store.occurrences(schedule.id)]
    assert [job.id for job in await store.get([one for one in jobs if one is not None])] == jobs


async def test_a_fire_time_that_was_made_is_never_recorded_as_missed(store: Store, clock: ManualClock) -> None:
    async with scheduler_on(store, clock) as engine:
        schedule = await put(engine, CatchUp.LATEST)
        await pass_time(engine, clock, 10)
        clock.step(-10 * SECOND)
        await engine.schedules.rearm()
        clock.move(10 * SECOND)
        await engine.schedules.fire(10)
        assert await fates(engine, schedule) == {Fate.FIRED: 5}
