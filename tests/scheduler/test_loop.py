"""The scheduler's loops in virtual time: on time, cheap while nothing is due, and continued after failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import cast

import pytest

from builders import BASE, new_job
from engine.environment import FaultyStore
from rota.brokers.in_store import InStoreBroker
from rota.core.lifecycle import State
from rota.core.queue import Lane
from rota.core.schedule import Draft
from rota.core.submission import NewJob, Template
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import JobQuery, Retention, Store
from rota.scheduler import Scheduler
from rota.scheduler.dispatcher import ABANDONED, Dispatcher
from rota.scheduler.loop import LONGEST_SLEEP_SECONDS, LONGEST_STUCK_PAUSE_SECONDS
from rota.scheduler.operations import LOOK_EVERY, OperationRunner
from rota.scheduler.upkeep import Promoter
from rota.stores.sqlite import SqliteStore
from simulation.loop import run


class Night:
    """A scheduler at work, and the store it works on."""

    def __init__(self, engine: Engine, store: Store, faulty_store: FaultyStore) -> None:
        self.engine = engine
        self.store = store
        self.faulty_store = faulty_store

    def now(self) -> datetime:
        return BASE + timedelta(seconds=asyncio.get_running_loop().time())

    async def became_pending_after(self, job: NewJob) -> float:
        """Return how many seconds passed until a job was pending."""
        begun = asyncio.get_running_loop().time()
        while (await self.store.get([job.id]))[0].state is not State.PENDING:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.005)
        return asyncio.get_running_loop().time() - begun


@asynccontextmanager
async def night(
    *,
    host_is_off_by: timedelta = timedelta(0),
    stands_by: Callable[[], bool] = lambda: False,
    failing: str | None = None,
) -> AsyncIterator[Night]:
    loop = asyncio.get_running_loop()

    def clock() -> datetime:
        return BASE + timedelta(seconds=loop.time())

    store = await SqliteStore.open(":memory:", clock=clock)
    faulty_store = FaultyStore(store)
    if failing is not None:
        faulty_store.fail(failing, RuntimeError("the transport is closed"))
    seen = cast("Store", faulty_store)
    broker = InStoreBroker(seen)
    engine = Engine(seen, broker, clock=lambda: clock() + host_is_off_by, rng=lambda: 0.5)
    scheduler = Scheduler(engine, retention=Retention(), stands_by=stands_by, rng=lambda: 0.5)
    running = asyncio.create_task(scheduler.run())
    try:
        yield Night(engine, store, faulty_store)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await broker.close()
        await store.close()


@pytest.mark.parametrize("off", [0, 3600, -3600], ids=["right", "ahead", "behind"])
def test_a_job_is_pending_on_time_whatever_the_hosts_clock_says(off: int) -> None:
    async def story() -> float:
        async with night(host_is_off_by=timedelta(seconds=off)) as one:
            job = new_job(run_at=one.now() + timedelta(seconds=40))
            await one.engine.submit([job])
            return await one.became_pending_after(job)

    assert run(story()) == pytest.approx(40, abs=0.02)


def test_an_earlier_time_wakes_it() -> None:
    async def story() -> float:
        async with night() as one:
            await one.engine.submit([new_job(run_at=one.now() + timedelta(hours=1))])
            await asyncio.sleep(1)
            job = new_job(run_at=one.now() + timedelta(seconds=2))
            await one.engine.submit([job])
            return await one.became_pending_after(job)

    assert run(story()) == pytest.approx(2, abs=0.02)


def test_a_job_without_a_notification_is_found_before_long() -> None:
    async def story() -> float:
        async with night() as one:
            await asyncio.sleep(1)
            job = new_job(run_at=one.now() + timedelta(milliseconds=1))
            await one.store.insert([job])
            return await one.became_pending_after(job)

    assert run(story()) <= LONGEST_SLEEP_SECONDS + 0.02


def test_while_nothing_is_due_it_only_looks_at_the_timetable() -> None:
    async def story() -> list[str]:
        async with night(host_is_off_by=timedelta(hours=1)) as one:
            await one.engine.submit([new_job(run_at=one.now() + timedelta(hours=2))])
            await asyncio.sleep(1)
            one.faulty_store.calls.clear()
            await asyncio.sleep(60)
            return [verb for verb in one.faulty_store.calls if verb not in {"watch", "prune"}]

    calls = run(story())
    # And now and then for due operations, once a minute for queued jobs that an unused broker has left.
    assert set(calls) - {"queued", "due_operations"} == {"timetable"}
    looks = calls.count("due_operations")
    assert looks <= 60 / LOOK_EVERY.total_seconds() + 2
    assert len(calls) - looks <= 60 / LONGEST_SLEEP_SECONDS + 2


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times of passes of a promoter that moves nothing, as if another transaction held the row."""
    passes: list[float] = []

    async def nothing(duty: Promoter) -> int:
        del duty
        passes.append(asyncio.get_running_loop().time())
        return 0

    monkeypatch.setattr(Promoter, "tick", nothing)
    return passes


async def stuck() -> int:
    """Let a job be due that cannot be moved, for a minute; return how often the timetable was read."""
    async with night() as one:
        await one.engine.submit([new_job(run_at=one.now() + timedelta(seconds=1))])
        await asyncio.sleep(61)
        return one.faulty_store.calls.count("timetable")


@pytest.mark.usefixtures("passes")
def test_a_stuck_job_is_tried_less_and_less_often() -> None:
    """It did all duties two hundred times a second, for as long as that lasted."""
    # Once after each pass, and every now and then whatever happens.
    assert run(stuck()) <= 60 / LONGEST_STUCK_PAUSE_SECONDS + 60 / LONGEST_SLEEP_SECONDS + 15


def test_a_stuck_job_delays_jobs_behind_it_only_a_little(passes: list[float]) -> None:
    """Jobs that became due meanwhile were five seconds late."""
    run(stuck())
    assert max(later - earlier for earlier, later in pairwise(passes)) <= LONGEST_STUCK_PAUSE_SECONDS + 0.1


def test_a_pass_that_fails_is_repeated() -> None:
    async def story() -> tuple[float, int]:
        async with night() as one:
            job = new_job(run_at=one.now() + timedelta(seconds=10))
            await one.engine.submit([job])
            await asyncio.sleep(9)
            one.faulty_store.cut("promote")
            pending = await one.became_pending_after(job)
            return pending, one.faulty_store.calls.count("promote")

    seconds, passes = run(story())
    assert seconds == pytest.approx(1.05, abs=0.1)
    assert passes >= 2


@pytest.mark.parametrize(
    "verb",
    ["promote", "end_waits", "timetable", "due_schedules", "lost", "expired", "prune", "due_operations", "watch"],
)
def test_a_pass_that_fails_unexpectedly_ends_no_scheduler(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """A driver that raised a plain RuntimeError while the server was away ended every scheduler for good."""

    async def story() -> tuple[float, int]:
        async with night(failing=verb) as one:
            job = new_job(run_at=one.now() + timedelta(seconds=40))
            await one.engine.submit([job])
            pending = await one.became_pending_after(job)
            return pending, one.faulty_store.calls.count(verb)

    seconds, calls = run(story())
    assert seconds == pytest.approx(40, abs=0.02)
    assert calls >= 2
    assert "the transport is closed" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("part", [Dispatcher, OperationRunner])
def test_a_loop_that_fails_outside_its_passes_is_run_again(
    part: type[Dispatcher | OperationRunner], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[float] = []
    go_on = part.run

    async def fail_once(self: Dispatcher | OperationRunner) -> None:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) == 1:
            raise RuntimeError("nobody expected this")
        await go_on(self)  # type: ignore[arg-type]

    monkeypatch.setattr(part, "run", fail_once)

    async def story() -> float:
        async with night() as one, asyncio.timeout(60):
            job = new_job(run_at=one.now() + timedelta(seconds=40))
            await one.engine.submit([job])
            return await one.became_pending_after(job)

    assert run(story()) == pytest.approx(40, abs=0.02)
    assert len(begun) == 2
    assert "nobody expected this" in caplog.text


def test_two_schedulers_make_one_job_of_each_fire_time() -> None:
    async def story() -> list[datetime | None]:
        async with night() as one:
            beside = asyncio.create_task(Scheduler(one.engine, rng=lambda: 0.25).run())
            draft = Draft(name="often", rule="*/5 * * * * *", template=Template("report"))
            await one.engine.schedules.create(draft, Actor("olga"))
            await asyncio.sleep(30)
            beside.cancel()
            await asyncio.wait([beside])
            return [job.fire_time for job in await one.store.find(JobQuery())]

    times = run(story())
    assert len(times) == len(set(times)) == 6


def test_while_another_scheduler_leads_nothing_is_pruned_and_due_jobs_are_promoted() -> None:
    async def story() -> tuple[float, list[str], list[str]]:
        is_led = True
        async with night(stands_by=lambda: is_led) as one:
            job = new_job(run_at=one.now() + timedelta(seconds=40))
            await one.engine.submit([job])
            late = await one.became_pending_after(job) - 40
            await asyncio.sleep(100)
            before = [verb for verb in one.faulty_store.calls if verb == "prune"]
            is_led = False
            await asyncio.sleep(100)
            return late, before, [verb for verb in one.faulty_store.calls if verb == "prune"]

    late, before, after = run(story())
    assert late <= 0.02
    assert not before
    assert after


def test_jobs_left_queued_for_an_unused_broker_are_pending_again() -> None:
    async def story() -> float:
        async with night() as one:
            job = new_job()
            await one.store.insert([job])
            await one.store.dispatch({Lane(job.queue, job.type): 1})
            return await one.became_pending_after(job)

    assert run(story()) <= 3 * ABANDONED.total_seconds()
