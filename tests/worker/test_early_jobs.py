"""Jobs that are claimed ahead of their time: held, and started on time. In virtual time, without a promoter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import BASE
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import Actor
from rota.stores.sqlite import SqliteStore
from rota.worker import Handlers, Worker, WorkerOptions, handler_of
from simulation.loop import run

OPERATOR = Actor("olga")
#: A loop's timers, and ours, are as exact as this.
MILLISECOND = 0.001


@dataclass(slots=True)
class Scene:
    """A store whose clock can be set, an engine, a worker, and when which handler began."""

    engine: Engine
    loop: asyncio.AbstractEventLoop
    #: How far the store's clock is ahead.
    skew: float = 0.0
    #: How long an answer of the store's clock takes.
    way: float = 0.0
    is_away: bool = False
    #: How far the store's clock is ahead from the moment on at which the worker reads it next.
    skew_when_read: float | None = None
    begun: dict[int, datetime] = field(default_factory=dict)

    def clock(self) -> datetime:
        return BASE + timedelta(seconds=self.loop.time() + self.skew)

    async def time(self) -> datetime:
        if self.skew_when_read is not None:
            self.skew, self.skew_when_read = self.skew_when_read, None
        now = self.clock()
        if self.is_away:
            raise StoreUnavailable("the clock is unavailable")
        await asyncio.sleep(self.way)
        return now

    async def touch(self, number: int) -> None:
        self.begun[number] = self.clock()

    async def submit(self, number: int, seconds: float, **fields: Any) -> JobId:  # noqa: ANN401 - any field of a job
        run_at = BASE + timedelta(seconds=seconds)
        job = NewJob(self.engine.fresh_id(), "touch", payload=f'{{"number": {number}}}', run_at=run_at, **fields)
        await self.engine.submit([job])
        return job.id

    async def look(self, job_id: JobId) -> Job:
        (job,) = await self.engine.get([job_id])
        return job

    def lateness(self, number: int, seconds: float) -> float:
        return (self.begun[number] - BASE).total_seconds() - seconds


def played(act: Callable[[Scene, Worker], Awaitable[None]], *, keeps_time: bool = True, **settings: Any) -> None:  # noqa: ANN401
    """Let a test happen beside a worker, and see the worker end."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        scenes: list[Scene] = []
        store = await SqliteStore.open(":memory:", clock=lambda: scenes[0].clock() if scenes else BASE)
        broker = InStoreBroker(store)
        scene = Scene(Engine(store, broker, rng=lambda: 0.5), loop)
        scenes.append(scene)
        options = WorkerOptions(**{"name": "ada", "boot": "b", "own_loop": False, **settings})
        handlers = Handlers([handler_of(scene.touch, type="touch")])
        time = scene.time if keeps_time else None
        worker = Worker(scene.engine, handlers, options, store_time=time, rng=lambda: 0.5, clock=loop.time)
        running = asyncio.create_task(worker.run())
        try:
            await act(scene, worker)
        finally:
            worker.stop()
            await running
            await broker.close()
            await store.close()

    run(play(), seed=1)


def test_a_job_begins_at_its_moment_and_not_before() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        job_id = await scene.submit(1, 10.0)
        await asyncio.sleep(11)
        assert 0 <= scene.lateness(1, 10.0) < MILLISECOND
        job = await scene.look(job_id)
        assert (job.state, job.attempts, job.started_at) == (State.COMPLETED, 1, job.run_at)

    played(act)


def test_a_worker_that_cannot_ask_for_the_stores_time_claims_nothing_ahead() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        job_id = await scene.submit(1, 10.0)
        await asyncio.sleep(11)
        assert (await scene.look(job_id)).state is State.SCHEDULED

    played(act, keeps_time=False)


def test_each_of_many_begins_at_its_own_moment() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        moments = [10 + number * 0.0137 for number in range(100)]
        for number, moment in enumerate(moments):
            await scene.submit(number, moment)
        await asyncio.sleep(13)
        late = [scene.lateness(number, moment) for number, moment in enumerate(moments)]
        assert min(late) >= 0
        assert max(late) < MILLISECOND

    played(act)


def test_of_more_than_there_are_slots_the_earliest_are_held() -> None:
    async def act(scene: Scene, worker: Worker) -> None:
        ids = [await scene.submit(number, 10 + number / 100) for number in range(4)]
        await asyncio.sleep(9.97)
        assert worker.busy == 2
        states = [(await scene.look(job_id)).state for job_id in ids]
        assert states == [State.RUNNING, State.RUNNING, State.SCHEDULED, State.SCHEDULED]
        await asyncio.sleep(1)
        assert all(0 <= scene.lateness(number, 10 + number / 100) < MILLISECOND for number in range(4))

    played(act, concurrency=2)


@pytest.mark.parametrize("skew", [3600.0, -3600.0], ids=["ahead", "behind"])
def test_it_is_the_stores_clock_that_counts(skew: float) -> None:
    async def act(scene: Scene, _: Worker) -> None:
        scene.skew = skew
        await scene.submit(1, skew + 10.0)
        await asyncio.sleep(11)
        assert 0 <= scene.lateness(1, skew + 10.0) < MILLISECOND

    played(act)


def test_a_slow_answer_of_the_stores_clock_makes_jobs_late_by_that_and_never_early() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        scene.way = 0.015
        await scene.submit(1, 10.0)
        await asyncio.sleep(11)
        assert 0 <= scene.lateness(1, 10.0) < scene.way + MILLISECOND

    played(act)


@pytest.mark.parametrize("leap", [5.0, -5.0, -0.05])
def test_a_clock_that_was_set_begins_nothing_early(leap: float) -> None:
    async def act(scene: Scene, _: Worker) -> None:
        await scene.submit(1, 10.0)
        await asyncio.sleep(11)
        scene.skew = leap
        await scene.submit(2, 30.0)
        await asyncio.sleep(30)
        assert 0 <= scene.lateness(2, 30.0) < MILLISECOND

    played(act)


def test_a_job_is_handed_back_when_the_clock_is_set_back_while_it_is_held() -> None:
    """The worker held it for an hour, although the clock was right again after some seconds."""

    async def act(scene: Scene, worker: Worker) -> None:
        scene.skew_when_read = -3600.0
        job_id = await scene.submit(1, 10.0, max_attempts=1)
        await asyncio.sleep(11)
        job = await scene.look(job_id)
        assert (job.state, job.attempts, job.run_at) == (State.SCHEDULED, 0, BASE + timedelta(seconds=10))
        assert (worker.busy, scene.begun) == (0, {})
        scene.skew = 0.0
        assert await scene.engine.upkeep.promote(10) == 1
        await asyncio.sleep(1)
        assert scene.lateness(1, 10.0) >= 1

    played(act)


def test_a_worker_that_stops_hands_back_early_jobs_without_an_attempt() -> None:
    async def act(scene: Scene, worker: Worker) -> None:
        job_id = await scene.submit(1, 10.0, max_attempts=1)
        await asyncio.sleep(9.95)
        assert (await scene.look(job_id)).state is State.RUNNING
        worker.stop()
        await asyncio.sleep(0.01)
        job = await scene.look(job_id)
        assert (job.state, job.attempts, job.run_at) == (State.SCHEDULED, 0, BASE + timedelta(seconds=10))
        await asyncio.sleep(1)
        assert not scene.begun

    played(act)


def test_a_job_that_is_cancelled_while_it_is_held_is_not_begun() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        job_id = await scene.submit(1, 10.0)
        await asyncio.sleep(9.92)
        await scene.engine.cancel([job_id], OPERATOR)
        await asyncio.sleep(1)
        job = await scene.look(job_id)
        assert (job.state, scene.begun) == (State.CANCELLED, {})

    played(act, lease=timedelta(seconds=1), beat=timedelta(seconds=0.03))


def test_the_leases_of_early_jobs_are_renewed() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        job_id = await scene.submit(1, 10.0)
        await asyncio.sleep(9.91)
        before = (await scene.look(job_id)).lease_until
        await asyncio.sleep(0.06)
        after = (await scene.look(job_id)).lease_until
        assert before is not None
        assert after is not None
        assert after > before

    played(act, lease=timedelta(seconds=1), beat=timedelta(seconds=0.03))


def test_a_worker_with_a_short_lease_holds_no_job() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        job_id = await scene.submit(1, 10.0)
        await asyncio.sleep(11)
        assert (await scene.look(job_id)).state is State.SCHEDULED

    played(act, lease=timedelta(seconds=0.9), beat=timedelta(seconds=0.05))


def test_a_clock_that_cannot_be_read_only_makes_jobs_late(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rota.worker")

    async def act(scene: Scene, _: Worker) -> None:
        scene.is_away = True
        await scene.submit(1, 10.0)
        await asyncio.sleep(11)
        assert 0 <= scene.lateness(1, 10.0) < MILLISECOND
        assert "the store's clock could not be read: StoreUnavailable" in caplog.text

    played(act)


def test_a_repeated_claim_starts_no_job_early_although_the_first_of_them_was_cancelled() -> None:
    """The cancel writes a later time into its row, and that must not speak for the others."""

    async def act(scene: Scene, _: Worker) -> None:
        right = scene.engine.leases.claim
        lost = list[JobId]()

        async def claim(claim: Claim, *, wait: timedelta = timedelta(0), looks_again: bool = False) -> Sequence[Job]:
            jobs = await right(claim, wait=wait, looks_again=looks_again)
            if len(jobs) == 2 and not lost:
                lost.extend(job.id for job in jobs)
                raise StoreUnavailable("the answer is lost")
            return jobs

        scene.engine.claim = claim  # type: ignore[method-assign] # the answer is lost on its way
        # Long enough for the open claim to end.
        await asyncio.sleep(69.94)
        first, second = await scene.submit(1, 70.0), await scene.submit(2, 70.055)
        await asyncio.sleep(70.001 - scene.loop.time())
        await scene.engine.cancel([first], OPERATOR)
        await asyncio.sleep(20)
        assert lost == [first, second]
        assert scene.lateness(2, 70.055) >= 0

    played(act)


def test_a_clock_that_does_not_answer_delays_no_other_job() -> None:
    async def act(scene: Scene, _: Worker) -> None:
        await asyncio.sleep(0.5)
        scene.way = 5.0
        await scene.submit(1, 10.0)
        await asyncio.sleep(9.45)
        await scene.engine.submit([NewJob(scene.engine.fresh_id(), "touch", payload='{"number": 2}')])
        await asyncio.sleep(1)
        assert scene.lateness(2, 9.95) < 0.06
        assert 0 <= scene.lateness(1, 10.0) < 0.1

    played(act)


@pytest.mark.parametrize("step", [-0.004, -0.015, -0.019])
def test_a_clock_that_is_set_back_a_little_begins_nothing_early(step: float) -> None:
    async def act(scene: Scene, _: Worker) -> None:
        await scene.submit(1, 5.0)
        await asyncio.sleep(6)
        scene.skew = step
        await scene.submit(2, 8.0)
        await asyncio.sleep(4)
        assert scene.lateness(2, 8.0) >= 0

    played(act)
