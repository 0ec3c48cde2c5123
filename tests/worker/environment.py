"""Test environment of the worker: real store, engine and worker in one process, and sources with faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.brokers.in_store import InStoreBroker
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import FINISHED
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import Actor, AttemptReport, WorkSource
from rota.scheduler import Scheduler
from rota.stores.sqlite import SqliteStore
from rota.worker import Handler, Handlers, Worker, WorkerOptions, handler_of

OPERATOR = Actor("olga")
PATIENCE = timedelta(seconds=30)


@dataclass(slots=True)
class WorkerEnvironment:
    """An engine on a store, and helpers to submit, wait and run workers."""

    engine: Engine
    path: Path

    async def submit(self, job_type: str, payload: str = "null", **fields: Any) -> JobId:  # noqa: ANN401 - any field
        job = NewJob(id=self.engine.fresh_id(), type=job_type, payload=payload, **fields)
        await self.engine.submit([job])
        return job.id

    async def submit_many(self, number: int, job_type: str, **fields: Any) -> list[JobId]:  # noqa: ANN401 - as above
        jobs = [NewJob(id=self.engine.fresh_id(), type=job_type, **fields) for _ in range(number)]
        await self.engine.submit(jobs)
        return [job.id for job in jobs]

    async def end_of(self, job_id: JobId) -> Job:
        job = await self.engine.wait(job_id, PATIENCE)
        assert job.state in FINISHED, f"still {job.state}"
        return job

    async def ends_of(self, ids: Iterable[JobId]) -> list[Job]:
        return [await self.end_of(job_id) for job_id in ids]

    async def look(self, job_id: JobId) -> Job:
        (job,) = await self.engine.get([job_id])
        return job

    async def until(self, job_id: JobId, holds: Callable[[Job], bool]) -> Job:
        """Wait until a job is as it should be; it is read again after each write to the store."""
        async with asyncio.timeout(PATIENCE.total_seconds()):
            with self.engine.broker.subscribe(("\0nothing",)) as subscription:
                while not holds(job := await self.look(job_id)):
                    await subscription.wait(timedelta(milliseconds=50))
        return job

    @asynccontextmanager
    async def worker(
        self,
        *handlers: Handler | Callable[..., Any],
        source: WorkSource | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> AsyncIterator[Worker]:
        """Run a worker with these handlers until the block ends."""
        parts = {
            name: settings.pop(name)
            for name in ("lease_keeper", "rng", "announce_member", "register_schemas", "steps", "inputs")
            if name in settings
        }
        options = WorkerOptions(**{"name": "ada", "drain_timeout": timedelta(seconds=5), **settings})
        known = Handlers(one if isinstance(one, Handler) else handler_of(one) for one in handlers)
        worker = Worker(source or self.engine, known, options, **{"steps": self.engine.steps, **parts})
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await running

    @asynccontextmanager
    async def scheduler(self) -> AsyncIterator[None]:
        """Run a scheduler: reaps, promotes."""
        running = asyncio.create_task(Scheduler(self.engine).run())
        try:
            yield
        finally:
            while not running.done():
                # More than once: before Python 3.12 `wait_for` may swallow a cancellation that comes as it ends.
                running.cancel()
                await asyncio.wait([running], timeout=0.25)


@asynccontextmanager
async def worker_environment(path: Path) -> AsyncIterator[WorkerEnvironment]:
    store = await SqliteStore.open(path)
    broker = InStoreBroker(store)
    try:
        yield WorkerEnvironment(Engine(store, broker), path)
    finally:
        await broker.close()
        await store.close()


async def eventually(holds: Callable[[], bool]) -> None:
    """Poll for something that happens in another process or thread without an event."""
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while not holds():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)


async def as_is(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
    return await answer


Fault = Callable[[Awaitable[Any]], Awaitable[Any]]


@dataclass(slots=True)
class RecordingSource:
    """A source that records its calls and passes them on, through a fault if one is set."""

    source: WorkSource
    claims: list[Claim] = field(default_factory=list)
    claimed: list[int] = field(default_factory=list)
    settled: list[list[AttemptReport]] = field(default_factory=list)
    renewed: list[list[Renewal]] = field(default_factory=list)
    on_claim: Fault = as_is
    on_settle: Fault = as_is
    on_renew: Fault = as_is

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        self.claims.append(claim)
        jobs: Sequence[Job] = await self.on_claim(self.source.claim(claim, wait=wait))
        self.claimed.append(len(jobs))
        return jobs

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        self.renewed.append(list(renewals))
        answers: Sequence[Renewed] = await self.on_renew(self.source.renew(renewals))
        return answers

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        self.settled.append(list(reports))
        applied: Sequence[JobId] = await self.on_settle(self.source.settle(reports))
        return applied


class LostResponses:
    """A fault: the responses of the next calls are lost, or with `arrives=False` the requests too."""

    def __init__(self, times: int, *, arrives: bool = False) -> None:
        self.left = times
        self._arrives = arrives

    async def __call__(self, answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        if self.left <= 0:
            return await answer
        self.left -= 1
        if self._arrives:
            await answer
        else:
            answer.close()  # type: ignore[attr-defined]
        raise StoreUnavailable("the connection is down")


@asynccontextmanager
async def open_source(argument: dict[str, str]) -> AsyncIterator[WorkSource]:
    """Open the source of a lease keeper."""
    async with worker_environment(Path(argument["path"])) as env:
        yield env.engine
