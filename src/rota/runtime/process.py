"""A `rota …` process: runs the components of its role until a signal or a failure.

Signals are handled before anything is opened. The first one stops the process: what is still starting is cancelled, and
the components stop in order (see `components`). After the second one running jobs are not waited for. A component that
fails ends the process with a message: otherwise it would seem to run while it does not work.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from typing import Final

from rota._loop import new_loop
from rota.runtime.assembly import AppDefinition, worker_name
from rota.runtime.components import BoundPorts, Components, RolePlan
from rota.runtime.link import Link, open_link, work_source
from rota.runtime.namespace_stores import store_url
from rota.runtime.store import wait_for_store
from rota.settings import Settings
from rota.telemetry.logs import set_up
from rota.telemetry.tracing import spans_to_send
from rota.worker import SourceReference
from rota.worker.context import fields_for

_log = logging.getLogger("rota")
_YOUNG_OBJECTS: Final = 50_000


def run_role(role: str, settings: Settings, app: AppDefinition) -> None:
    """Run a role until a signal ends it."""
    _collect_less_often()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(Process(role, settings, app).run())


def set_up_logs(settings: Settings) -> None:
    """Configure the logging of this process from the settings."""
    set_up(settings.log_level, settings.log_format, fields_for(worker_name(settings)))


def _collect_less_often() -> None:
    """Make the garbage collector run less often: jobs come by the thousand, make no cycles, and each run costs."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])


def works_over_http(role: str, settings: Settings) -> bool:
    """Whether a process uses the API: a worker without a store in its settings, or with the flag `--api-url` only."""
    store, api_url = settings.origin("store"), settings.origin("api_url")
    is_api_given = api_url.startswith("--") and not store.startswith("--")
    return role == "worker" and (store == "default" or is_api_given)


def plan_of(role: str, settings: Settings) -> RolePlan:
    """Return the components of a role."""
    return RolePlan(
        schedules=role in {"standalone", "scheduler"},
        serves=role in {"standalone", "api"} or (role == "scheduler" and settings.origin("port") != "default"),
        works=role in {"standalone", "worker"},
        keeper=_lease_keeper_source(settings, over_http=works_over_http(role, settings)) if role == "worker" else None,
        spans=spans_to_send(role),
        logs=(settings.log_level, settings.log_format),
    )


def _lease_keeper_source(settings: Settings, *, over_http: bool) -> SourceReference:
    """Return how the lease-keeper process opens its work source: by a function that it imports by its name."""
    if over_http:
        # Imported when needed. The lease keeper loads only this client: half as much as with a store.
        from rota.client.client import source_of  # noqa: PLC0415

        tls = astuple(settings.client_tls)
        source = {"urls": list(settings.api_url), "token": settings.token, "tls": tls}
        return _reference(source_of, {**source, "namespace": settings.namespace})
    return _reference(work_source, {"url": store_url(settings.store, settings.namespace)})


def _reference(function: Callable[..., object], argument: object) -> SourceReference:
    return SourceReference(f"{function.__module__}:{function.__name__}", argument)


class Process:
    """One process: starts its components, and stops them in order."""

    def __init__(self, role: str, settings: Settings, app: AppDefinition) -> None:
        self._role = role
        self._settings = settings
        self._app = app
        self._ports = BoundPorts()
        self._link: Link | None = None
        self._components: Components | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        if self._settings.tls_cert:
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        running = asyncio.create_task(self._run_components(), name="rota-process")
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        finally:
            await self._end()

    async def _run_components(self) -> None:
        settings = self._settings
        plan = plan_of(self._role, settings)
        self._ports = BoundPorts.bound(plan, settings)
        store = store_url(settings.store, settings.namespace)
        urls = settings.api_url if works_over_http(self._role, settings) else (store,)
        self._link = await wait_for_store(urls[0], lambda: open_link(settings, *urls), settings.start_timeout)
        self._components = Components(plan, settings, self._app, self._link, self._ports)
        await self._components.start()
        await self._components.failed()

    def _on_signal(self) -> None:
        if self._stop.is_set():
            _log.warning("stopping now, without waiting for running jobs")
        else:
            _log.info("stopping: running jobs may finish; signal again to stop without waiting")
        self._stop.set()
        if self._components is not None:
            self._components.stop()

    def _on_hangup(self) -> None:
        """Read the TLS certificates again."""
        self._ports.reload_tls()

    async def _end(self) -> None:
        if self._components is not None:
            await self._components.end()
        self._ports.close()
        if self._link is not None:
            await self._link.close()
        _log.info("stopped")
