"""The running parts of a process: membership, scheduler, API and worker, started in order and ended in order.

A `rota …` process and `app.run()` both run these. Ports are bound before anything else is opened (`Ports`): a process
that cannot have its port fails before it leads or claims anything.

To end: the worker stops claiming, lets running jobs finish and hands the rest back; then the API finishes its requests
and the scheduler its pass. Starting may be cancelled at any moment: `end` ends whatever had been started.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rota.core.fleet import Role
from rota.core.identity import JobId
from rota.core.patience import Patience
from rota.engine import Engine
from rota.engine.app_schedules import AppSchedules
from rota.roles.assembly import Program, beat_of, build_scheduler, build_worker, handlers_of, make_presence
from rota.roles.presence import Presence
from rota.runtime import Link
from rota.scheduler import Scheduler
from rota.settings import Settings, host_of, port_of
from rota.telemetry.diary import Diary
from rota.telemetry.events import CancelAsked, Event
from rota.telemetry.tracing import Spans
from rota.worker import SourceReference, Worker
from rota.worker.builtin import CHECKS, load_http

if TYPE_CHECKING:
    from rota.roles.worker_endpoint import WorkerEndpoint

#: How long it may take to remove a worker from the members, where the store or the API is away.
REMOVE_SECONDS: Final = 2.0
_log = logging.getLogger("rota")


@dataclass(frozen=True, slots=True)
class Plan:
    """Which parts to run, and how."""

    schedules: bool
    serves: bool
    works: bool
    #: How a lease-keeper process reaches the source of work; None for a worker without one.
    keeper: SourceReference | None = None
    spans: Spans | None = None
    #: Level and form of log lines in child processes; None leaves their logging alone.
    logs: tuple[str, str] | None = None
    #: The name among the others; empty for host and process id.
    instance: str = ""


@dataclass(slots=True)
class Ports:
    """The ports that a plan needs, bound and not yet served."""

    api: list[socket.socket] = field(default_factory=list)
    worker: list[socket.socket] = field(default_factory=list)

    @classmethod
    def bound(cls, plan: Plan, settings: Settings) -> Ports:
        """Bind them all, or refuse with the address that cannot be had."""
        shows = plan.works and settings.worker_address
        if not (plan.serves or shows):
            return cls()
        # Imported when needed: most workers serve nothing.
        from rota.api.serving import bind_checked  # noqa: PLC0415

        ports = cls()
        has_token = bool(settings.token)
        try:
            if plan.serves:
                ports.api = bind_checked(settings.host, settings.port, has_token, settings.insecure)
            if shows:
                host, port = host_of(settings.worker_address), port_of(settings.worker_address)
                ports.worker = bind_checked(host, port, has_token, settings.insecure, field="worker_address")
        except BaseException:
            ports.close()
            raise
        return ports

    def close(self) -> None:
        """Close what nobody serves. To close twice does no harm."""
        for one in (*self.api, *self.worker):
            one.close()


class Parts:
    """The parts that a plan names, on the running loop."""

    def __init__(self, plan: Plan, settings: Settings, program: Program, link: Link, ports: Ports) -> None:
        self._plan = plan
        self._settings = settings
        self._program = program
        self._link = link
        self._ports = ports
        self.scheduler: Scheduler | None = None
        self._presence: Presence | None = None
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        #: Ends listening to the engine, which outlives the parts of `app.run()`.
        self._leave: list[Callable[[], None]] = []

    async def start(self) -> None:
        """Start all parts."""
        link, engine = self._link, self._link.engine
        if engine is not None:
            self._leave.append(engine.telemetry.listen(Diary(is_beside_worker=self._plan.works).heard))
            if self._plan.spans is not None:
                self._leave.append(engine.telemetry.listen(self._plan.spans.heard))
        self._presence = self._make_presence()
        if self._presence is not None:
            self._begin(self._presence.run(), "presence")
            if self._presence.coordinator.check_in is not None:
                link = replace(link, announce_member=self._presence.announce)
        if engine is not None and self._presence is not None:
            await self._start_services(engine, self._presence)
        if self._plan.works:
            await self._start_worker(link)

    def stop(self) -> None:
        """Drain the worker; a second call hurries it."""
        if self._worker is not None:
            self._worker.stop()
        self._is_stopping = True

    async def failed(self) -> None:
        """Wait until a part ends, which none does by itself, and raise why."""
        watched = [*self._tasks, *([self._working] if self._working is not None else [])]
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()

    async def end(self) -> None:
        """End all parts that were started, in order; the link stays open."""
        if self._worker is not None and self._working is not None:
            # Also if it was asked to stop before there was a worker.
            if not self._worker.is_draining:
                self._worker.stop()
            with suppress(asyncio.CancelledError):
                await self._working
        for part in reversed(self._tasks):
            part.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._worker is not None:
            await self._remove_member(self._worker.options.boot)
        self._ports.close()
        for leave in self._leave:
            leave()
        if self._presence is not None:
            await self._presence.coordinator.close()

    async def _remove_member(self, boot: str) -> None:
        """Remove a worker that has ended from those that are known; where that fails, its silence tells the others."""
        try:
            async with asyncio.timeout(REMOVE_SECONDS):
                await self._link.remove_member(boot)
        except Exception as error:  # noqa: BLE001 - a store or an API may fail in any way, and we are ending
            _log.debug("cannot remove the worker from the members: %s", error)

    def _make_presence(self) -> Presence | None:
        plan, settings = self._plan, self._settings
        roles = [*([Role.SCHEDULER] if plan.schedules else []), *([Role.API] if plan.serves else [])]
        address = f"{settings.host}:{settings.port}" if plan.serves else ""
        return make_presence(settings, self._link.engine, roles, address=address, instance=plan.instance)

    async def _start_services(self, engine: Engine, presence: Presence) -> None:
        if self._plan.schedules:
            if self._program.app:
                await self._put_schedules(engine)
            self.scheduler = build_scheduler(engine, self._settings, lambda: presence.stands_by)
            self._begin(self.scheduler.run(), "scheduler")
        if self._plan.serves:
            await self._start_api(engine, presence)

    async def _put_schedules(self, engine: Engine) -> None:
        program = self._program
        schedules = AppSchedules(engine.store, engine.schedules, program.app, secrets.token_hex(8), program.schedules)
        await schedules.put()
        self._begin(schedules.run(), "app-schedules")

    async def _start_api(self, engine: Engine, presence: Presence) -> None:
        # Imported when needed: a worker serves nothing.
        from rota.roles.serving import build_api, serve_api  # noqa: PLC0415

        # Before anyone waits for an answer: to check a request that is submitted takes what sends it.
        load_http()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known = handlers_of(self._settings, self._program).types if self._plan.works else None
        api = build_api(engine, self._settings, self._program, presence, CHECKS, known_types=known)
        self._begin(serve_api(api, self._settings, self._ports.api, ready), "api")
        await self._until(ready)

    async def _until(self, ready: asyncio.Future[Any]) -> None:
        """Wait until a part is ready; raise if one fails instead."""
        await asyncio.wait([ready, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            if task.done():
                task.result()

    async def _start_worker(self, link: Link) -> None:
        plan, settings = self._plan, self._settings
        endpoint, address = await self._start_endpoint(link) if self._ports.worker else (None, "")
        worker = self._worker = build_worker(
            settings,
            self._program,
            link,
            source=link.source if endpoint is None else endpoint.source,
            announce=link.announce_member if endpoint is None else endpoint.announce,
            name="" if settings.worker_id else plan.instance,
            address=address,
            spans=plan.spans,
            keeper=plan.keeper,
            logs=plan.logs,
        )
        if endpoint is not None:
            endpoint.show(worker)
        if self._presence is not None:
            self._presence.introduce(worker.member)
        if self._is_stopping:
            worker.stop()
        if link.engine is not None:
            self._leave.append(link.engine.telemetry.listen(partial(_pass_cancels_on, worker)))
        elif link.cancels is not None:
            self._begin(_watch_cancels(worker, link.cancels), "cancels")
        self._working = asyncio.create_task(worker.run(), name="rota-worker")
        _log.info(
            "worker %s takes jobs from %s with %d slots; it knows %s",
            worker.options.name,
            ", ".join(worker.options.queues),
            worker.options.concurrency,
            ", ".join(worker.member().types or ()),
        )

    async def _start_endpoint(self, link: Link) -> tuple[WorkerEndpoint, str]:
        # Imported when needed: most workers serve nothing.
        from rota.roles.worker_endpoint import WorkerEndpoint  # noqa: PLC0415

        endpoint = WorkerEndpoint(self._settings, link, beat_of(self._settings), self._presence)
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._begin(endpoint.serve(ready, self._ports.worker), "worker-endpoint")
        await self._until(ready)
        return endpoint, ready.result()

    def _begin(self, part: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(part, name=f"rota-{name}"))


def _pass_cancels_on(worker: Worker, event: Event) -> None:
    """Stop a job at once that was cancelled in the process that runs it."""
    if isinstance(event, CancelAsked):
        worker.cancel([(job.id, job.fence) for job in event.jobs])


async def _watch_cancels(worker: Worker, cancels: Callable[[str], Awaitable[Sequence[tuple[JobId, int]]]]) -> None:
    """Stop jobs as soon as the API says that they were cancelled. What is missed comes with the next heartbeat."""
    patience = Patience(random.random, longest=30.0)
    while True:
        asked_at = time.monotonic()
        try:
            leases = await cancels(worker.options.name)
            worker.cancel(leases)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything, and an older API knows no such route
            _log.debug("cannot wait for cancels: %s", error)
            await asyncio.sleep(patience.next())
            continue
        if leases or time.monotonic() - asked_at > 1:
            patience.reset()
        else:
            # An API that ends answers whoever waits at once: it must not be asked in a spin.
            await asyncio.sleep(patience.next())
