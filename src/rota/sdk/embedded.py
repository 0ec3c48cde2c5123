"""A worker and a scheduler inside the program that defines the tasks: nothing else to start."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from rota.core.errors import InvalidRequest
from rota.ports.faces import Actor
from rota.runtime import Link
from rota.scheduler import Scheduler
from rota.sdk.app import Rota
from rota.sdk.handlers import handlers_of
from rota.telemetry.tracing import spans_in_use
from rota.worker import Worker, WorkerOptions


@dataclass(slots=True)
class Embedded:
    """What runs, and how to end it."""

    worker: Worker
    working: asyncio.Task[None]
    scheduling: asyncio.Task[None]

    async def stop(self) -> None:
        """Let running jobs finish, hand back the rest, and end."""
        self.worker.stop()
        await self.working
        self.scheduling.cancel()
        with suppress(asyncio.CancelledError):
            await self.scheduling


async def start(link: Link, app: Rota, *, concurrency: int, queues: tuple[str, ...]) -> Embedded:
    """Start a worker and a scheduler for an app; runs on the portal's loop."""
    engine = link.engine
    if engine is None:
        raise InvalidRequest("run() needs a store; over HTTP start `rota worker --app …` instead", field="url")
    spans = spans_in_use()
    if spans is not None:
        engine.telemetry.listen(spans.heard)
    for draft in app.recurring:
        await engine.schedules.put(draft, Actor("app"))
    options = WorkerOptions(
        name=f"{socket.gethostname()}-{os.getpid()}", concurrency=concurrency, queues=queues, house=link.house
    )
    worker = Worker(
        engine,
        handlers_of(app),
        options,
        announce_member=lambda member: engine.store.beat([member]),
        steps=engine.steps,
        spans=spans,
        store_time=engine.store.time,
    )
    loop = asyncio.get_running_loop()
    return Embedded(
        worker,
        loop.create_task(worker.run(), name="rota-embedded-worker"),
        loop.create_task(Scheduler(engine).run(), name="rota-embedded-scheduler"),
    )
