"""The running components of a process: membership, scheduler, API and worker, started and stopped in order.

A `rota …` process and `app.run()` both run these. Ports are bound before anything else is opened (`BoundPorts`): a
process whose port is in use fails before it leads or claims anything.

To stop: the worker claims no more, lets running jobs finish and releases the rest; then the API finishes its requests
and the scheduler its pass. Starting may be cancelled at any moment: `end` stops what had been started.
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

from rota.backoff import JitteredBackoff
from rota.core.cluster import Role
from rota.core.ids import JobId
from rota.engine import Engine
from rota.engine.app_schedules import AppSchedules
from rota.runtime import Link
from rota.runtime.assembly import (
    AppDefinition,
    beat_of,
    build_membership,
    build_scheduler,
    build_worker,
    handlers_of,
    instance_name,
)
from rota.runtime.history import HistoryWriter
from rota.runtime.membership import Membership
from rota.runtime.namespaces import NamespaceServices
from rota.runtime.webhooks import WebhookDelivery
from rota.scheduler import Scheduler
from rota.settings import Settings, host_of, port_of
from rota.telemetry.events import CancelAsked, Event
from rota.telemetry.log_events import EventLogger
from rota.telemetry.tracing import Spans
from rota.worker import SourceReference, Worker
from rota.worker.builtin import CHECKS, load_http

if TYPE_CHECKING:
    from rota.api.server.tls import ServerTls
    from rota.runtime.worker_endpoint import WorkerEndpoint

#: How long to try to remove a worker from the members while the store or the API is unavailable.
REMOVE_SECONDS: Final = 2.0
_log = logging.getLogger("rota")


@dataclass(frozen=True, slots=True)
class RolePlan:
    """Which components a process runs: scheduler, API, worker; and how."""

    schedules: bool
    serves: bool
    works: bool
    #: How a lease-keeper process opens the work source; None for a worker without one.
    keeper: SourceReference | None = None
    spans: Spans | None = None
    #: Log level and log format of child processes; None leaves their logging alone.
    logs: tuple[str, str] | None = None
    #: The name in the cluster; empty for host and process id.
    instance: str = ""
    #: Whether this is a namespace that the process hosts beside its own; the API serves it on the same port.
    is_hosted: bool = False


@dataclass(slots=True)
class BoundPorts:
    """The sockets that a plan needs, bound and not yet served."""

    api: list[socket.socket] = field(default_factory=list)
    worker: list[socket.socket] = field(default_factory=list)
    tls: ServerTls | None = None

    @classmethod
    def bound(cls, plan: RolePlan, settings: Settings) -> BoundPorts:
        """Bind them all, or refuse with the address that is not available."""
        has_endpoint = plan.works and settings.worker_address
        if not (plan.serves or has_endpoint):
            return cls()
        # Imported when needed: most workers serve nothing.
        from rota.api.server.serve import bind_checked  # noqa: PLC0415
        from rota.runtime.api_server import protection_of, server_tls  # noqa: PLC0415

        ports = cls(tls=server_tls(settings))
        protection = protection_of(settings)
        try:
            if plan.serves:
                ports.api = bind_checked(settings.host, settings.port, protection)
            if has_endpoint:
                host, port = host_of(settings.worker_address), port_of(settings.worker_address)
                ports.worker = bind_checked(host, port, protection, field="worker_address")
        except BaseException:
            ports.close()
            raise
        return ports

    def reload_tls(self) -> None:
        """Read the TLS certificates again, for new connections."""
        if self.tls is not None:
            self.tls.reload()

    def close(self) -> None:
        """Close them all; closing twice does no harm."""
        for bound in (*self.api, *self.worker):
            bound.close()


class Components:
    """Starts and stops the components of a plan, on the running loop."""

    def __init__(self, plan: RolePlan, settings: Settings, app: AppDefinition, link: Link, ports: BoundPorts) -> None:
        self._plan = plan
        self._settings = settings
        self._app = app
        self._link = link
        self._ports = ports
        self.scheduler: Scheduler | None = None
        self.membership: Membership | None = None
        self._worker: Worker | None = None
        self._webhooks: WebhookDelivery | None = None
        self._namespaces: NamespaceServices | None = None
        self._working: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        #: Ends the subscriptions to the engine, which outlives the components of `app.run()`.
        self._unsubscribe: list[Callable[[], None]] = []

    async def start(self) -> None:
        link, engine = self._link, self._link.engine
        if engine is not None:
            self._unsubscribe.append(engine.telemetry.listen(EventLogger(is_beside_worker=self._plan.works).on_event))
            if self._plan.spans is not None:
                self._unsubscribe.append(engine.telemetry.listen(self._plan.spans.on_event))
            history = HistoryWriter(engine)
            self._unsubscribe.append(history.stop_listening)
            self._start_task(history.run(), "history")
        self.membership = self._build_membership()
        if self.membership is not None:
            self._start_task(self.membership.run(), "membership")
            if self.membership.coordinator.check_in is not None:
                link = replace(link, announce_member=self.membership.announce)
        if engine is not None and self._app.app and self._app.limits:
            await engine.limits.put_of_app(self._app.limits, self._app.app)
        if engine is not None and self._app.app:
            await engine.breakers.put_of_app(self._app.breakers, self._app.app)
        if engine is not None and self.membership is not None:
            await self._start_services(engine, self.membership, link)
        if self._plan.works:
            await self._start_worker(link)

    def stop(self) -> None:
        """Drain the worker; after a second call it does not wait for running jobs."""
        if self._worker is not None:
            self._worker.stop()
        self._is_stopping = True

    @property
    def has_failed(self) -> bool:
        """Whether a component has ended, which none does by itself."""
        return any(task.done() for task in self._tasks)

    async def failed(self) -> None:
        """Wait until a component ends, which none does by itself, and raise its error."""
        watched = [*self._tasks, *([self._working] if self._working is not None else [])]
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def end(self) -> None:
        """Stop all components that were started, in order; the link stays open."""
        if self._worker is not None and self._working is not None:
            # Also if `stop` was called before there was a worker.
            if not self._worker.is_draining:
                self._worker.stop()
            with suppress(asyncio.CancelledError):
                await self._working
        for task in reversed(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._namespaces is not None:
            await self._namespaces.close()
        if self._worker is not None:
            await self._remove_member(self._worker.options.boot)
        if self._webhooks is not None and self._webhooks.boot is not None:
            await self._remove_member(self._webhooks.boot)
        self._ports.close()
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        if self.membership is not None:
            await self.membership.coordinator.close()

    async def _remove_member(self, boot: str) -> None:
        """Remove a worker that has ended from the members; if that fails, its missing heartbeats remove it."""
        try:
            async with asyncio.timeout(REMOVE_SECONDS):
                await self._link.remove_member(boot)
        except Exception as error:  # noqa: BLE001 - a store or an API may fail in any way, and this process ends
            _log.debug("cannot remove the worker from the members: %s", error)

    def _build_membership(self) -> Membership | None:
        plan, settings = self._plan, self._settings
        roles = [*([Role.SCHEDULER] if plan.schedules else []), *([Role.API] if plan.serves else [])]
        address = f"{settings.host}:{settings.port}" if plan.serves else ""
        return build_membership(
            settings,
            self._link.engine,
            roles,
            address=address,
            instance=plan.instance,
            follows_configuration=not plan.is_hosted,
        )

    async def _start_services(self, engine: Engine, membership: Membership, link: Link) -> None:
        if self._plan.schedules:
            if self._app.app:
                await self._store_schedules(engine)
            self.scheduler = build_scheduler(engine, self._settings, lambda: membership.stands_by)
            self._start_task(self.scheduler.run(), "scheduler")
            name = self._plan.instance or instance_name()
            self._webhooks = WebhookDelivery(engine, self._settings, name, link.announce_member)
            self._start_task(self._webhooks.run(), "webhooks")
        if not (self._plan.is_hosted or self._settings.namespace or link.caller_tx is None):
            self._namespaces = self._host_namespaces(engine, membership, link.caller_tx.url)
            self._start_task(self._namespaces.run(), "namespaces")
        if self._plan.serves and not self._plan.is_hosted:
            await self._start_api(engine, membership)

    def _host_namespaces(self, engine: Engine, membership: Membership, url: str) -> NamespaceServices:
        """Host the other namespaces of the deployment beside the default one."""
        plan = replace(self._plan, works=False, keeper=None, is_hosted=True)

        def make(settings: Settings, link: Link) -> Components:
            return Components(plan, settings, AppDefinition(), link, BoundPorts())

        return NamespaceServices(
            engine, self._settings, url, make, schedules=plan.schedules, stands_by=lambda: membership.stands_by
        )

    async def _store_schedules(self, engine: Engine) -> None:
        app = self._app
        schedules = AppSchedules(engine.store, engine.schedules, app.app, secrets.token_hex(8), app.schedules)
        await schedules.put()
        self._start_task(schedules.run(), "app-schedules")

    async def _start_api(self, engine: Engine, membership: Membership) -> None:
        # Imported when needed: a worker does not serve the API.
        from rota.runtime.api_server import build_api, host_namespaces, serve_api  # noqa: PLC0415

        # Before the first request: payloads of the built-in type `http` are checked with its client.
        load_http()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known = handlers_of(self._settings, self._app).types if self._plan.works else None
        api = build_api(engine, self._settings, self._app, membership, CHECKS, known_types=known)
        if self._namespaces is not None:
            host_namespaces(api, self._namespaces, CHECKS)
        self._start_task(serve_api(api, self._settings, self._ports.api, ready, self._ports.tls), "api")
        await self._until(ready)

    async def _until(self, ready: asyncio.Future[Any]) -> None:
        """Wait until a component is ready; raise if one fails instead."""
        await asyncio.wait([ready, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            if task.done():
                task.result()

    async def _start_worker(self, link: Link) -> None:
        plan, settings = self._plan, self._settings
        if link.engine is None and self._app.limits:
            _log.warning("limits of tasks are not stored by a worker over HTTP; start the scheduler with --app")
        if link.engine is None and self._app.breakers:
            _log.warning("breakers of tasks are not stored by a worker over HTTP; start the scheduler with --app")
        endpoint, address = await self._start_endpoint(link) if self._ports.worker else (None, "")
        worker = self._worker = build_worker(
            settings,
            self._app,
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
        if self.membership is not None:
            self.membership.add_worker(worker.member, worker.apply_orders)
        if self._is_stopping:
            worker.stop()
        if link.engine is not None:
            self._unsubscribe.append(link.engine.telemetry.listen(partial(_pass_cancels, worker)))
        elif link.cancels is not None:
            self._start_task(_watch_cancels(worker, link.cancels), "cancels")
        self._working = asyncio.create_task(worker.run(), name="rota-worker")
        _log.info(
            "worker %s: queues %s, %d slots, types %s",
            worker.options.name,
            ", ".join(worker.options.queues),
            worker.options.concurrency,
            ", ".join(worker.member().types or ()),
        )

    async def _start_endpoint(self, link: Link) -> tuple[WorkerEndpoint, str]:
        # Imported when needed: most workers serve nothing.
        from rota.runtime.worker_endpoint import WorkerEndpoint  # noqa: PLC0415

        endpoint = WorkerEndpoint(self._settings, link, beat_of(self._settings), self.membership)
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._start_task(endpoint.serve(ready, self._ports.worker, self._ports.tls), "worker-endpoint")
        await self._until(ready)
        return endpoint, ready.result()

    def _start_task(self, component: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(component, name=f"rota-{name}"))


def _pass_cancels(worker: Worker, event: Event) -> None:
    """Stop jobs at once that were cancelled in this process."""
    if isinstance(event, CancelAsked):
        worker.cancel([(job.id, job.fence) for job in event.jobs])


async def _watch_cancels(worker: Worker, cancels: Callable[[str], Awaitable[Sequence[tuple[JobId, int]]]]) -> None:
    """Stop jobs as soon as the API reports their cancellation. One that is missed comes with the next heartbeat."""
    backoff = JitteredBackoff(random.random, longest=30.0)
    while True:
        asked_at = time.monotonic()
        try:
            leases = await cancels(worker.options.name)
            worker.cancel(leases)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything, and an older API knows no such route
            _log.debug("cannot wait for cancels: %s", error)
            await asyncio.sleep(backoff.next())
            continue
        if leases or time.monotonic() - asked_at > 1:
            backoff.reset()
        else:
            # An API that is stopping answers at once: it must not be called in a busy loop.
            await asyncio.sleep(backoff.next())
