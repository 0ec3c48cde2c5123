"""The store's clock is set while a real worker and a real scheduler are at work, on every store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import HOUR, SECOND, claim, new_job
from conformance.stores.adapters import SHARED, Adapter, opened
from rota.brokers.in_store import InStoreBroker
from rota.core.lifecycle import State
from rota.core.schedule import Draft, Fate
from rota.core.submission import Delivery, NewJob, Template
from rota.engine import Engine, store_clock
from rota.ports.client import Actor
from rota.scheduler import Scheduler
from rota.worker import Handlers, Worker, WorkerOptions, handler_of

PATIENCE_SECONDS = 30
LEASE = 3 * SECOND


@dataclass(slots=True)
class SetClock:
    """The right time, and the offset of the clock that was set."""

    off_by: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.off_by


@dataclass(slots=True)
class SteadyClock:
    """The loop's clock, and how much time the test has let pass besides."""

    passed: float = 0.0

    def __call__(self) -> float:
        return store_clock.steady_clock() + self.passed


@asynccontextmanager
async def at_work(adapter: Adapter, folder: Path, clock: SetClock) -> AsyncIterator[Engine]:
    """Run a scheduler on a store whose clock can be set."""
    async with opened(adapter, folder, clock) as store:
        broker = InStoreBroker(store)
        engine = Engine(store, broker)
        running = asyncio.create_task(Scheduler(engine).run())
        try:
            yield engine
        finally:
            running.cancel()
            await asyncio.wait([running])
            await broker.close()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():  # noqa: ASYNC110 - nobody would set an event
            await asyncio.sleep(0.05)


async def renewed(engine: Engine, jobs: Sequence[NewJob], now: datetime) -> bool:
    """Return whether all leases have been renewed since a moment."""
    found = await engine.get([job.id for job in jobs])
    return all(job.lease_until is not None and job.lease_until > now for job in found)


@pytest.mark.parametrize("adapter", SHARED, ids=lambda one: one.name)
async def test_no_job_starts_twice_when_the_clock_is_set_ahead(adapter: Adapter, tmp_path: Path) -> None:
    """All running jobs were started a second time, and those that must start once were dead."""
    starts: Counter[int] = Counter()
    release = asyncio.Event()

    async def slow(number: int) -> None:
        starts[number] += 1
        await release.wait()

    clock = SetClock()
    async with at_work(adapter, tmp_path, clock) as engine:
        options = WorkerOptions(name="ada", concurrency=20, lease=LEASE, beat=LEASE / 3)
        worker = Worker(engine, Handlers([handler_of(slow)]), options)
        working = asyncio.create_task(worker.run())
        jobs = [
            new_job(type="slow", payload=f'{{"args":[{number}],"kwargs":{{}}}}', delivery=delivery)
            for number, delivery in enumerate([*Delivery] * 5)
        ]
        await engine.submit(jobs)
        await until(lambda: _has(starts, 10))
        await engine.upkeep.timetable()
        clock.off_by = HOUR
        # The reaper looks before any worker has renewed.
        assert await engine.upkeep.reap(100) == 0
        await until(lambda: renewed(engine, jobs, clock()))
        assert await engine.upkeep.reap(100) == 0
        release.set()
        for job in jobs:
            await engine.wait(job.id, timedelta(seconds=PATIENCE_SECONDS))
        worker.stop()
        await working
        found = await engine.get([job.id for job in jobs])
    assert sorted(starts.values()) == [1] * 10
    assert {(job.state, job.attempts, job.crashes) for job in found} == {(State.COMPLETED, 1, 0)}


@pytest.mark.parametrize("adapter", SHARED, ids=lambda one: one.name)
async def test_a_long_lease_is_held_when_the_clock_is_set_ahead(adapter: Adapter, tmp_path: Path) -> None:
    """Workers over HTTP need not renew: leases of 60 s and 300 s were taken after 15 s."""
    clock, steady = SetClock(), SteadyClock()
    async with opened(adapter, tmp_path, clock) as store:
        broker = InStoreBroker(store)
        engine = Engine(store, broker, steady=steady)
        await engine.upkeep.timetable()
        for lease in (15, 60, 300):
            await engine.submit([new_job(delivery=Delivery.AT_MOST_ONCE)])
            (job,) = await engine.claim(claim(lease=timedelta(seconds=lease)))
            assert (job.lease_until, job.updated_at) == (job.updated_at + timedelta(seconds=lease), job.updated_at)
        clock.off_by = HOUR
        await engine.upkeep.timetable()
        taken = []
        for second in range(305):
            if await engine.upkeep.reap(100):
                taken.append(second)
            clock.off_by += SECOND
            steady.passed += 1
        await broker.close()
    assert taken == [pytest.approx(lease, abs=2) for lease in (15, 60, 300)]


async def _has(starts: Counter[int], count: int) -> bool:
    return len(starts) == count


@pytest.mark.parametrize("adapter", SHARED, ids=lambda one: one.name)
async def test_no_schedule_is_silent_when_the_clock_is_set_back(adapter: Adapter, tmp_path: Path) -> None:
    """Every schedule was silent for an hour."""
    clock = SetClock()
    async with at_work(adapter, tmp_path, clock) as engine:
        draft = Draft(name="often", rule="@every 1s", template=Template("report"))
        schedule = await engine.schedules.create(draft, Actor("olga"))

        async def fired() -> list[datetime]:
            found = await engine.schedules.occurrences(schedule.id, limit=1000)
            return [one.fire_time for one in found if one.fate is Fate.FIRED]

        async def has_fired(count: int, before: datetime) -> bool:
            return len([at for at in await fired() if at < before]) >= count

        await until(lambda: has_fired(2, clock() + HOUR))
        clock.off_by = -HOUR
        await until(lambda: has_fired(3, schedule.created_at - HOUR / 2))
        times = await fired()
    assert len(times) == len(set(times))
