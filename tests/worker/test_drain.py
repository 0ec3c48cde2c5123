"""Stopping a worker loses no job and uses no attempt, within its drain timeout."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.worker import Handlers, Worker, WorkerOptions, current, handler_of
from worker.environment import RecordingSource, WorkerEnvironment


def worker_of(env: WorkerEnvironment, *functions: object, seconds: float = 2.0, **settings: object) -> Worker:
    options = WorkerOptions(name="ada", drain_timeout=timedelta(seconds=seconds), **settings)  # type: ignore[arg-type]
    return Worker(env.engine, Handlers(handler_of(one) for one in functions), options)  # type: ignore[arg-type]


async def test_an_idle_worker_stops_at_once(env: WorkerEnvironment) -> None:
    async def quick() -> None:
        return

    worker = worker_of(env, quick, seconds=30)
    running = asyncio.create_task(worker.run())
    await env.end_of(await env.submit("quick"))
    begun = time.monotonic()
    worker.stop()
    await running
    assert time.monotonic() - begun < 3


@dataclass(slots=True)
class Overtaken(RecordingSource):
    """A source that a claim reaches late: after it was withdrawn, and after it was repeated for the first time."""

    arrive: Callable[[Claim], Awaitable[None]] = field(kw_only=True)
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        self.claims.append(claim)
        if len(self.claims) == 1:
            self.sent.set()
            await asyncio.Event().wait()
        jobs = await self.source.claim(claim, wait=wait)
        if len(self.claims) == 2:
            await self.arrive(self.claims[0])
        return jobs


async def test_a_withdrawn_claim_that_reaches_the_store_late_leaves_no_job_to_its_lease(env: WorkerEnvironment) -> None:
    """The worker repeated its last claim once, and the repetition overtook the claim."""

    async def quick() -> None:
        return

    job_ids = []

    async def arrive(claim: Claim) -> None:
        job_ids.append(await env.submit("quick"))
        assert len(await env.engine.claim(claim)) == 1

    source = Overtaken(env.engine, arrive=arrive)
    worker = Worker(source, Handlers([handler_of(quick)]), WorkerOptions(name="ada"))
    running = asyncio.create_task(worker.run())
    await source.sent.wait()
    worker.stop()
    await running
    job = await env.look(*job_ids)
    assert (job.state, job.attempts, job.fence) == (State.PENDING, 0, 1)
    assert len({claim.claim_id for claim in source.claims}) == 1


async def test_what_runs_may_finish(env: WorkerEnvironment) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        release.wait(timeout=20)
        return "finished"

    worker = worker_of(env, slow, seconds=20)
    running = asyncio.create_task(worker.run())
    job_id = await env.submit("slow")
    await asyncio.to_thread(begun.wait, 20)
    worker.stop()
    waiting = await env.submit("slow")
    release.set()
    await running
    assert (await env.look(job_id)).result == '"finished"'
    untouched = await env.look(waiting)
    assert (untouched.state, untouched.attempts) == (State.PENDING, 0)


async def test_what_does_not_finish_is_handed_back_without_using_an_attempt(env: WorkerEnvironment) -> None:
    begun = [threading.Event(), threading.Event(), threading.Event()]
    release = threading.Event()

    async def obeys() -> None:
        begun[0].set()
        await asyncio.sleep(60)

    def listens() -> None:
        begun[1].set()
        while not current().cancelled():
            time.sleep(0.005)
        current().heartbeat()

    def deaf() -> None:
        begun[2].set()
        release.wait(timeout=60)

    worker = worker_of(env, obeys, listens, deaf, seconds=1)
    running = asyncio.create_task(worker.run())
    ids = [await env.submit(name, max_attempts=1) for name in ("obeys", "listens", "deaf")]
    for event in begun:
        await asyncio.to_thread(event.wait, 20)
    at = time.monotonic()
    worker.stop()
    await running
    took = time.monotonic() - at
    release.set()
    jobs = [await env.look(job_id) for job_id in ids]
    assert [(job.state, job.attempts, job.crashes) for job in jobs] == [(State.PENDING, 0, 0)] * 3
    assert took < 1.5


async def test_a_second_stop_hurries(env: WorkerEnvironment) -> None:
    begun = threading.Event()

    async def slow() -> None:
        begun.set()
        await asyncio.sleep(60)

    worker = worker_of(env, slow, seconds=60)
    running = asyncio.create_task(worker.run())
    job_id = await env.submit("slow")
    await asyncio.to_thread(begun.wait, 20)
    at = time.monotonic()
    worker.stop()
    await asyncio.sleep(0)
    worker.stop()
    await running
    assert time.monotonic() - at < 5
    job = await env.look(job_id)
    assert (job.state, job.attempts) == (State.PENDING, 0)


async def test_cancelling_the_run_hands_back_too(env: WorkerEnvironment) -> None:
    begun = threading.Event()

    async def slow() -> None:
        begun.set()
        await asyncio.sleep(60)

    running = asyncio.create_task(worker_of(env, slow, seconds=60).run())
    job_id = await env.submit("slow")
    await asyncio.to_thread(begun.wait, 20)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    job = await env.look(job_id)
    assert (job.state, job.attempts) == (State.PENDING, 0)


async def test_fifty_stops_under_load_lose_no_job_and_use_no_attempt(env: WorkerEnvironment) -> None:
    """Each job may be tried once: an attempt that a stop had used up would leave it dead."""
    rng = Random(11)
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(rng.random() * 0.01)
        done.append(current().id)

    def swork() -> None:
        time.sleep(rng.random() * 0.005)
        done.append(current().id)

    ids = await env.submit_many(3000, "work", max_attempts=1) + await env.submit_many(1000, "swork", max_attempts=1)
    for number in range(50):
        source = RecordingSource(env.engine)
        options = WorkerOptions(
            name=f"w{number}", concurrency=20, drain_timeout=timedelta(seconds=rng.choice([0.2, 1.0, 5.0]))
        )
        worker = Worker(source, Handlers([handler_of(work), handler_of(swork)]), options)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(rng.random() * 0.1)
        worker.stop()
        if rng.random() < 0.3:
            worker.stop()
        await running
        census = await env.engine.census()
        assert census.total(State.RUNNING) == 0, f"stop {number} left a job to its lease"
        assert census.total(State.DEAD) == 0, f"stop {number} burnt a job"
    async with env.worker(work, swork, concurrency=50):
        jobs = await env.ends_of(ids)
    assert {(job.state, job.attempts, job.crashes) for job in jobs} == {(State.COMPLETED, 1, 0)}


@pytest.mark.parametrize("seconds", [1.0, 3.0])
@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_worker_whose_source_does_not_answer_ends_within_its_time(
    env: WorkerEnvironment, seconds: float, *, is_busy: bool
) -> None:
    """It took two seconds more: the open claim, the reports and the announcement each had their own time."""
    silent, begun = asyncio.Event(), threading.Event()

    async def swallow(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        if silent.is_set():
            answer.close()  # type: ignore[attr-defined]
            await asyncio.Event().wait()
        return await answer

    async def announce(_: object) -> None:
        await swallow(asyncio.sleep(0))

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def quick() -> None:
        begun.set()

    source = RecordingSource(env.engine, on_claim=swallow, on_settle=swallow, on_renew=swallow)
    options = WorkerOptions(name="ada", drain_timeout=timedelta(seconds=seconds))
    handlers = Handlers(handler_of(one) for one in (endless, quick))
    worker = Worker(source, handlers, options, announce_member=announce)
    running = asyncio.create_task(worker.run())
    await env.submit("endless" if is_busy else "quick")
    await asyncio.to_thread(begun.wait, 20)
    silent.set()
    stopped_at = time.monotonic()
    worker.stop()
    await running
    assert time.monotonic() - stopped_at < seconds + 0.5
