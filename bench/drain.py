"""Draining a queue with real processes: jobs wait in a paused queue, and the time counts from its resumption until all
have ended.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from journeys.system import System, open_system
from rota.core.cluster import Role
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import JobQuery
from rota.runtime import connect

ROOT: Final = Path(__file__).parent.parent
BY: Final = Actor("bench")
PAYLOAD: Final = '{"args": [], "kwargs": {}}'
_PATIENCE_SECONDS: Final = 300.0
#: Submits so many jobs of a type.
Submit = Callable[[Engine, int, str], Awaitable[None]]


@asynccontextmanager
async def engine_on(url: str) -> AsyncIterator[Engine]:
    """Return an engine on a store, in this process."""
    link = await connect(url)
    assert link.engine is not None
    try:
        yield link.engine
    finally:
        await link.close()


@asynccontextmanager
async def system_for(url: str) -> AsyncIterator[System]:
    """Return a system whose processes can import `bench.tasks`."""
    with tempfile.TemporaryDirectory() as folder, open_system(Path(folder), url) as system:
        yield system


def start_worker(system: System, name: str, *arguments: str, over_http: bool = False) -> int:
    """Start a worker on the system's store, or over HTTP, and return its process id."""
    where = ("--api-url", system.url) if over_http else ("--store", system.store)
    words = ("worker", *where, "--worker-id", name, "--app", "bench.tasks:app", *arguments)
    return system.start(*words, cwd=ROOT).pid


async def start_api(system: System) -> int:
    """Start the API of the system's store, and return its process id."""
    pid = system.start("api", "--store", system.store, "--port", str(system.port)).pid
    await asyncio.to_thread(system.until_up)
    return pid


async def submit(engine: Engine, number: int, job_type: str, payload: str = PAYLOAD) -> None:
    for start in range(0, number, 1000):
        some = min(1000, number - start)
        await engine.submit([NewJob(engine.fresh_id(), job_type, payload) for _ in range(some)])


async def until_workers(engine: Engine, number: int) -> None:
    # What other processes do has no event to wait for, here and below.
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while len(await engine.store.members(role=Role.WORKER)) < number:
        assert time.monotonic() < give_up_at, "the workers do not come"
        await asyncio.sleep(0.05)


async def until_completed(engine: Engine, number: int) -> None:
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while (completed := (await engine.census()).total(State.COMPLETED)) < number:
        assert time.monotonic() < give_up_at, f"{completed} of {number} jobs completed"
        await asyncio.sleep(0.05)


async def until_done(engine: Engine) -> None:
    """Wait until no job waits or runs. Counting all of them, again and again, would take a part of the machine."""
    unfinished = JobQuery(states=(State.BLOCKED, State.PENDING, State.QUEUED, State.RUNNING), limit=1, is_light=True)
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while (await engine.store.find_some(unfinished)).jobs:
        assert time.monotonic() < give_up_at, "the jobs do not end"
        await asyncio.sleep(0.05)


async def drain(
    engine: Engine, number: int, job_type: str, names: Sequence[str], submit_all: Submit | None = None
) -> float:
    """Have workers that are there, or about to come, run so many jobs, and give how many they ran in a second.

    A few jobs go first: what a worker does once, such as starting children, is not what a job costs.
    """
    before = (await engine.census()).total(State.COMPLETED)
    await until_workers(engine, len(names))
    await submit(engine, 20 * len(names), job_type)
    before += 20 * len(names)
    await until_completed(engine, before)
    await engine.queues.pause("default", "bench", BY)
    await (submit_all or submit)(engine, number, job_type)
    begun = time.perf_counter()
    await engine.queues.resume("default", BY)
    await until_done(engine)
    seconds = time.perf_counter() - begun
    await until_completed(engine, before + number)
    return number / seconds
