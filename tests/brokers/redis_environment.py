"""Test environment of the broker on Redis: a store, a dispatcher, and a broker for each process that reads."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from builders import ADA, claim, new_jobs
from rota.brokers.in_store import InStoreBroker
from rota.brokers.redis_streams import RedisStreamsBroker
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.broker import Broker, DispatchQueue
from rota.ports.client import AttemptReport
from rota.ports.store import Store
from rota.scheduler.dispatcher import Dispatcher
from rota.stores.sqlite import SqliteStore
from servers.valkey import ValkeyServer

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
TYPES = ("mail",)


async def until(read: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """Poll until a condition holds; the failure shows the value read last."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + PATIENCE_SECONDS
    while True:
        seen = await read()
        if holds(seen):
            return seen
        assert loop.time() < give_up_at, f"still {seen!r}"
        await asyncio.sleep(0.01)


@dataclass
class RedisEnvironment:
    """A store and a Redis server, with the brokers opened on them."""

    store: Store
    server: ValkeyServer
    url: str
    stream: str = field(default_factory=lambda: f"test-{secrets.token_hex(4)}")
    opened: list[Broker] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def broker(self) -> RedisStreamsBroker:
        """Open a broker, as one more process would."""
        broker = await RedisStreamsBroker.open(self.store, self.url, stream=self.stream)
        self.opened.append(broker)
        return broker

    async def engine(self) -> Engine:
        return Engine(self.store, await self.broker())

    async def dispatching(self) -> Engine:
        """Start a dispatcher."""
        engine = await self.engine()
        self.tasks.append(asyncio.create_task(Dispatcher(engine).run()))
        return engine

    def dispatch_queue(self, engine: Engine) -> DispatchQueue:
        dispatch_queue = engine.broker.dispatch_queue
        assert dispatch_queue is not None
        return dispatch_queue

    async def dispatch(self, engine: Engine) -> int:
        """Do one pass of a dispatcher."""
        return await engine.dispatch.dispatch(self.dispatch_queue(engine))

    async def submit(self, number: int = 1, **fields: object) -> list[NewJob]:
        jobs = new_jobs(number, **fields)  # type: ignore[arg-type] # any field of a job
        await self.store.insert(jobs)
        return jobs

    async def count(self, state: State) -> int:
        return (await self.store.census()).total(state)

    def entries(self, band: str = "normal", queue: str = "default") -> int:
        """Count the entries of a stream, past our own adapter."""
        count: int = self.server.ask("XLEN", f"{self.stream}:{{{queue}}}:mail:{band}")
        return count

    def key(self, band: str = "normal", queue: str = "default") -> str:
        return f"{self.stream}:{{{queue}}}:mail:{band}"


async def take(engine: Engine, limit: int = 100, worker: WorkerId = ADA, **fields: object) -> Sequence[Job]:
    """Claim as a worker does that waits."""
    request = claim(worker, limit, types=TYPES, **fields)
    return await engine.claim(request, wait=timedelta(seconds=5))


async def finish(engine: Engine, jobs: Sequence[Job]) -> Sequence[JobId]:
    return await engine.settle([AttemptReport(job.id, job.fence, Succeeded()) for job in jobs])


@asynccontextmanager
async def redis_environment(server: ValkeyServer, url: str | None = None) -> AsyncIterator[RedisEnvironment]:
    store = await SqliteStore.open(":memory:")
    env = RedisEnvironment(store, server, url or server.url)
    try:
        yield env
    finally:
        for task in env.tasks:
            task.cancel()
        await asyncio.gather(*env.tasks, return_exceptions=True)
        for broker in env.opened:
            await broker.close()
        await store.close()


@asynccontextmanager
async def in_store() -> AsyncIterator[tuple[Store, Broker]]:
    store = await SqliteStore.open(":memory:")
    broker = InStoreBroker(store)
    try:
        yield store, broker
    finally:
        await broker.close()
        await store.close()
