"""A process of Rota: its parts, the signals that end it, and in which order they end.

The first signal stops the worker from claiming, lets running jobs finish and hands the rest back; then the API finishes
its requests and the scheduler its pass. The second signal hurries. Whatever part fails takes the process down with a
message: half a process would be a lie.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rota import __version__
from rota.core.fleet import Role
from rota.engine import Engine
from rota.loops import new_loop
from rota.ports.faces import Actor
from rota.ports.store import Retention
from rota.roles.presence import Presence
from rota.runtime import BrokerChoice, Link, connect, open_coordinator
from rota.scheduler import Scheduler
from rota.sdk.app import Rota
from rota.sdk.handlers import handlers_of, load_app
from rota.settings import Settings
from rota.telemetry.diary import Diary
from rota.telemetry.logs import set_up
from rota.telemetry.tracing import spans_to_send
from rota.worker import Handlers, SourceReference, Worker, WorkerOptions
from rota.worker.builtin import CHECKS, load_http
from rota.worker.context import fields_for

if TYPE_CHECKING:
    from rota.roles.worker_endpoint import WorkerEndpoint

_log = logging.getLogger("rota")
_BEATS_PER_LEASE: Final = 3
_YOUNG_OBJECTS: Final = 50_000


def retention_of(settings: Settings) -> Retention:
    """Say how long what is finished is kept."""
    return Retention(completed=settings.keep_completed, cancelled=settings.keep_completed, dead=settings.keep_dead)


def worker_name(settings: Settings) -> str:
    """Say what a worker of this process is called."""
    return settings.worker_id or f"{socket.gethostname()}-{os.getpid()}"


def run_role(role: str, settings: Settings) -> None:
    """Run a role until a signal ends it."""
    set_up(settings.log_level, settings.log_format, fields_for(worker_name(settings)))
    _let_live()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(Process(role, settings).run())


def _let_live() -> None:
    """Look less often for garbage in rings: jobs come and go by the thousand and leave none, and each look costs."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])


class Process:
    """One running process."""

    def __init__(self, role: str, settings: Settings) -> None:
        self._role = role
        self._settings = settings
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._parts: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self._spans = spans_to_send(role)
        self._presence: Presence | None = None

    async def run(self) -> None:
        """Start the parts, wait for a signal or a failure, and end them in order."""
        app = load_app(self._settings.app) if self._settings.app else None
        link = await self._linked()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        try:
            await self._start(link, app)
            await self._until_stopped()
        finally:
            await self._end(link)

    async def _linked(self) -> Link:
        settings = self._settings
        if self._works_over_http:
            return await connect(*settings.api_url, token=settings.token)
        broker = BrokerChoice(settings.broker, settings.redis_stream, settings.redis_group)
        return await connect(settings.store, queue_bound=settings.queue_size or None, broker=broker)

    async def _start(self, link: Link, app: Rota | None) -> None:
        if link.engine is not None:
            link.engine.telemetry.listen(Diary().heard)
            if self._spans is not None:
                link.engine.telemetry.listen(self._spans.heard)
        self._presence = self._present(link.engine)
        if self._presence is not None:
            self._begin(self._presence.run(), "presence")
            if self._presence.coordinator.check_in is not None:
                link = replace(link, announce_member=self._presence.announce)
        if link.engine is not None and self._presence is not None and self._role != "worker":
            await self._start_services(link.engine, self._presence, app)
        if self._role in {"standalone", "worker"}:
            await self._start_worker(link, app)

    @property
    def _works_over_http(self) -> bool:
        return self._role == "worker" and self._settings.origin("store") == "default"

    @property
    def _keeps_time(self) -> bool:
        return self._role in {"standalone", "scheduler"}

    @property
    def _serves(self) -> bool:
        return self._role != "worker" and (self._role != "scheduler" or self._settings.origin("port") != "default")

    def _present(self, engine: Engine | None) -> Presence | None:
        """Say what this process is to the others; None for one that has nobody to say it to but its API."""
        settings = self._settings
        coordinator = open_coordinator(settings.coordinator, None if engine is None else engine.store)
        if coordinator is None:
            return None
        roles = [*([Role.SCHEDULER] if self._keeps_time else []), *([Role.API] if self._serves else [])]
        address = f"{settings.host}:{settings.port}" if self._serves else ""
        return Presence(coordinator, engine, roles, address=address, log_level=settings.log_level)

    async def _start_services(self, engine: Engine, presence: Presence, app: Rota | None) -> None:
        if self._keeps_time:
            for draft in app.recurring if app is not None else ():
                await engine.schedules.put(draft, Actor("app"))
            scheduler = Scheduler(engine, retention=retention_of(self._settings), stands_by=lambda: presence.stands_by)
            self._begin(scheduler.run(), "scheduler")
        if self._serves:
            await self._start_api(engine, presence, app)

    async def _start_api(self, engine: Engine, presence: Presence, app: Rota | None) -> None:
        # Imported when needed: a worker serves nothing.
        from rota.roles.serving import api_of, serve_api  # noqa: PLC0415

        # Before anyone waits for an answer: to check a request that is submitted takes what sends it.
        load_http()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        api = api_of(engine, self._settings, presence, CHECKS, app=app, known_types=self._known_types(app))
        self._begin(serve_api(api, self._settings, ready), "api")
        await asyncio.wait([ready, *self._parts], return_when=asyncio.FIRST_COMPLETED)

    def _known_types(self, app: Rota | None) -> tuple[str, ...] | None:
        return self._handlers(app).types if self._role == "standalone" else None

    def _handlers(self, app: Rota | None) -> Handlers:
        return handlers_of(app, allow_hosts=self._settings.allow_hosts, file_root=self._settings.file_root)

    async def _start_worker(self, link: Link, app: Rota | None) -> None:
        settings = self._settings
        beat = min(settings.lease / _BEATS_PER_LEASE, timedelta(seconds=5))
        endpoint, address = await self._start_endpoint(link, beat) if settings.worker_address else (None, "")
        options = WorkerOptions(
            name=worker_name(settings),
            queues=settings.queues,
            concurrency=settings.concurrency,
            lease=settings.lease,
            beat=beat,
            poll_interval=settings.poll_interval,
            drain_timeout=settings.drain_timeout,
            fail_rate=settings.fail_rate,
            version=__version__,
            address=address,
            logs=(settings.log_level, settings.log_format),
            house=link.house,
        )
        self._worker = Worker(
            link.source if endpoint is None else endpoint.source,
            self._handlers(app),
            options,
            announce_member=link.announce_member if endpoint is None else endpoint.announce,
            steps=link.steps,
            spans=self._spans,
            store_time=None if link.engine is None else link.engine.store.time,
            companion=None if self._role == "standalone" else self._companion(),
        )
        if endpoint is not None:
            endpoint.show(self._worker)
        if self._presence is not None:
            self._presence.introduce(self._worker.member)
        self._working = asyncio.create_task(self._worker.run(), name="rota-worker")
        _log.info(
            "worker %s takes jobs from %s with %d slots; it knows %s",
            options.name,
            ", ".join(options.queues),
            options.concurrency,
            ", ".join(self._handlers(app).types),
        )

    async def _start_endpoint(self, link: Link, beat: timedelta) -> tuple[WorkerEndpoint, str]:
        # Imported when needed: most workers serve nothing.
        from rota.roles.worker_endpoint import WorkerEndpoint  # noqa: PLC0415

        endpoint = WorkerEndpoint(self._settings, link, beat, self._presence)
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._begin(endpoint.serve(ready), "worker-endpoint")
        serving = self._parts[-1]
        either: list[asyncio.Future[Any]] = [ready, serving]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        return endpoint, ready.result()

    def _companion(self) -> SourceReference:
        settings = self._settings
        if self._works_over_http:
            # It loads nothing but the client: half of what a process with a store at hand loads.
            told = {"urls": list(settings.api_url), "token": settings.token}
            return SourceReference("rota.client.client:source_of", told)
        return SourceReference("rota.roles.sources:source_of", {"url": settings.store})

    def _begin(self, part: Coroutine[Any, Any, None], name: str) -> None:
        self._parts.append(asyncio.create_task(part, name=f"rota-{name}"))

    def _on_signal(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        if self._stop.is_set():
            _log.warning("hurrying")
        else:
            _log.info("stopping: running jobs may finish; signal again to hurry")
        self._stop.set()

    async def _until_stopped(self) -> None:
        stop = asyncio.create_task(self._stop.wait())
        watched = [stop, *self._parts, *([self._working] if self._working is not None else [])]
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        for part in done:
            if part is not stop:
                part.result()

    async def _end(self, link: Link) -> None:
        if self._worker is not None and self._working is not None:
            if not self._stop.is_set():
                self._worker.stop()
            with suppress(asyncio.CancelledError):
                await self._working
        for part in reversed(self._parts):
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        if self._presence is not None:
            await self._presence.coordinator.close()
        await link.close()
        _log.info("stopped")
