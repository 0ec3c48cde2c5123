"""A process of Rota: what ends it, at every moment of its life.

Signals are listened to before anything is opened. The first one ends the process: what is still starting is called
off, and the parts end in order (see `parts`). The second one hurries. Whatever part fails takes the process down with
a message: half a process would look alive and not be.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from contextlib import suppress
from typing import Final

from rota.loops import new_loop
from rota.roles.assembly import Program, worker_name
from rota.roles.parts import Parts, Plan, Ports
from rota.roles.starting import wait_for_store
from rota.runtime import Link, open_link
from rota.settings import Settings
from rota.telemetry.logs import set_up
from rota.telemetry.tracing import spans_to_send
from rota.worker import SourceReference
from rota.worker.context import fields_for

_log = logging.getLogger("rota")
_YOUNG_OBJECTS: Final = 50_000


def run_role(role: str, settings: Settings, program: Program) -> None:
    """Run a role until a signal ends it."""
    _let_live()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(Process(role, settings, program).run())


def set_up_logs(settings: Settings) -> None:
    """Write the log lines of this process as the settings say."""
    set_up(settings.log_level, settings.log_format, fields_for(worker_name(settings)))


def _let_live() -> None:
    """Look less often for garbage in rings: jobs come and go by the thousand and leave none, and each look costs."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])


def works_over_http(role: str, settings: Settings) -> bool:
    """Say whether a process knows nothing but the API's address: a worker that was told of no store."""
    return role == "worker" and settings.origin("store") == "default"


def plan_of(role: str, settings: Settings) -> Plan:
    """Say which parts a role has."""
    return Plan(
        schedules=role in {"standalone", "scheduler"},
        serves=role in {"standalone", "api"} or (role == "scheduler" and settings.origin("port") != "default"),
        works=role in {"standalone", "worker"},
        keeper=_keeper(settings, over_http=works_over_http(role, settings)) if role == "worker" else None,
        spans=spans_to_send(role),
        logs=(settings.log_level, settings.log_format),
    )


def _keeper(settings: Settings, *, over_http: bool) -> SourceReference:
    if over_http:
        # It loads nothing but the client: half of what a process with a store at hand loads.
        told = {"urls": list(settings.api_url), "token": settings.token}
        return SourceReference("rota.client.client:source_of", told)
    return SourceReference("rota.roles.sources:source_of", {"url": settings.store})


class Process:
    """One running process."""

    def __init__(self, role: str, settings: Settings, program: Program) -> None:
        self._role = role
        self._settings = settings
        self._program = program
        self._ports = Ports()
        self._link: Link | None = None
        self._parts: Parts | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Start the parts, wait for a signal or a failure, and end them in order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        living = asyncio.create_task(self._live(), name="rota-process")
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([living, stop], return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            living.cancel()
            with suppress(asyncio.CancelledError):
                await living
        finally:
            await self._end()

    async def _live(self) -> None:
        settings = self._settings
        plan = plan_of(self._role, settings)
        self._ports = Ports.bound(plan, settings)
        urls = settings.api_url if works_over_http(self._role, settings) else (settings.store,)
        self._link = await wait_for_store(urls[0], lambda: open_link(settings, *urls), settings.start_timeout)
        self._parts = Parts(plan, settings, self._program, self._link, self._ports)
        await self._parts.start()
        await self._parts.failed()

    def _on_signal(self) -> None:
        if self._stop.is_set():
            _log.warning("stopping now, without waiting for running jobs")
        else:
            _log.info("stopping: running jobs may finish; signal again to hurry")
        self._stop.set()
        if self._parts is not None:
            self._parts.stop()

    async def _end(self) -> None:
        if self._parts is not None:
            await self._parts.end()
        self._ports.close()
        if self._link is not None:
            await self._link.close()
        _log.info("stopped")
