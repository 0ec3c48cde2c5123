"""A worker, a scheduler and, if asked for, an API inside the program that defines the tasks: nothing else to start.

They live on the portal's loop, on the link by which the app submits. They are the same parts that `rota …` processes
are made of, built by the same functions from the same settings.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Any, Final, Self

from rota.core.errors import InvalidRequest
from rota.roles.assembly import instance_name
from rota.roles.parts import Parts, Plan, Ports
from rota.roles.process import set_up_logs
from rota.roles.starting import wait_for_store
from rota.runtime import Link
from rota.sdk.app import Rota
from rota.sdk.handlers import program_of
from rota.sdk.portal import running_loop
from rota.settings import Settings, queue_words
from rota.telemetry.tracing import spans_in_use

_log = logging.getLogger("rota")


def settings_for(settings: Settings, concurrency: int | None, queues: Iterable[str] | None) -> Settings:
    """Give the settings of one run: what was said in the call wins."""
    changes: dict[str, Any] = {}
    if concurrency is not None:
        if type(concurrency) is not int or concurrency < 1:
            remedy = "give how many jobs may run at once, as in run(concurrency=4)"
            message = f"concurrency: {concurrency!r} is no whole number of 1 or more; {remedy}"
            raise InvalidRequest(message, field="concurrency")
        changes["concurrency"] = concurrency
    if queues is not None:
        try:
            changes["queues"] = queue_words(queues if isinstance(queues, str) else list(queues))
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"queues: {error}; leave it out for those of the tasks", field="queues") from None
    return replace(settings, **changes, origins={**settings.origins, **dict.fromkeys(changes, "run()")})


class StoppedAtStart(Exception):
    """A signal came before there was a store to run on."""


class Signals:
    """SIGTERM and SIGINT while `serve` lasts: kept until there is a loop to tell, and given back at the end."""

    def __init__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise InvalidRequest("serve() needs the main thread, which gets the signals; use run() on others", field="")
        if running_loop() is not None:
            raise InvalidRequest("serve() blocks, and would hold up the event loop here; use run()", field="")
        self.count = 0
        self._told: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def __enter__(self) -> Self:
        self._former = {number: signal.signal(number, self._heard) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def listen(self) -> asyncio.Event:
        """Give what is set by each signal, also by those that came before. Called on the loop that waits for it."""
        event = asyncio.Event()
        self._told = asyncio.get_running_loop(), event
        if self.count:
            event.set()
        return event

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self._told is not None:
            loop, event = self._told
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(event.set)


@dataclass(slots=True)
class Embedded:
    """What runs, and how to end it. All on the portal's loop."""

    parts: Parts
    event: asyncio.Event | None = None

    async def ended(self) -> None:
        """Wait for a signal, or raise why a part failed."""
        assert self.event is not None
        failing = asyncio.create_task(self.parts.failed())
        told = asyncio.create_task(self.event.wait())
        try:
            await asyncio.wait([failing, told], return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
            failing.cancel()
        if failing.done() and not failing.cancelled():
            failing.result()
        _log.info("stopping: running jobs may finish; signal again to hurry")

    async def end(self) -> None:
        """Let running jobs finish, hand back the rest, and end; a second signal does not wait."""
        ending = asyncio.create_task(self.parts.end())
        while self.event is not None and not ending.done():
            self.event.clear()
            told = asyncio.create_task(self.event.wait())
            await asyncio.wait([ending, told], return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if not ending.done():
                _log.warning("stopping now, without waiting for running jobs")
                self.parts.stop()
        await ending


#: Counts the runs of this process, of all its apps: no two of them may have one name.
_numbers: Final = itertools.count(1)


async def start(app: Rota, settings: Settings, *, api: bool, signals: Signals | None) -> Embedded:
    """Start the parts for an app; runs on the portal's loop."""
    number = next(_numbers)
    event = None if signals is None else signals.listen()
    if app.url.startswith(("http://", "https://")):
        raise InvalidRequest("run() needs a store; over HTTP start `rota worker --app …` instead", field="url")
    is_logging = _set_up_logs(settings, is_serving=signals is not None)
    plan = Plan(
        schedules=True,
        serves=api,
        works=True,
        spans=spans_in_use(),
        logs=(settings.log_level, settings.log_format) if is_logging else None,
        instance=instance_name() if number == 1 else f"{instance_name()}-{number}",
    )
    ports = Ports.bound(plan, settings)
    try:
        link = await _opened(app, settings, event)
        parts = Parts(plan, settings, program_of(app), link, ports)
        await _started(parts, event)
    except BaseException:
        ports.close()
        raise
    return Embedded(parts, event)


async def _opened(app: Rota, settings: Settings, event: asyncio.Event | None) -> Link:
    """Open the app's store, unless a signal comes first."""
    opening = asyncio.create_task(wait_for_store(app.url, app.link, settings.start_timeout))
    told = asyncio.create_task(asyncio.Event().wait() if event is None else event.wait())
    try:
        await asyncio.wait([opening, told], return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            return opening.result()
        _log.info("stopped while waiting for the store")
        raise StoppedAtStart
    finally:
        told.cancel()
        opening.cancel()


async def _started(parts: Parts, event: asyncio.Event | None) -> None:
    """Start parts, unless a signal comes first; end those that had started if one fails."""
    starting = asyncio.create_task(parts.start())
    told = asyncio.create_task(asyncio.Event().wait() if event is None else event.wait())
    try:
        await asyncio.wait([starting, told], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
    except BaseException:
        await parts.end()
        raise
    finally:
        told.cancel()


def _set_up_logs(settings: Settings, *, is_serving: bool) -> bool:
    """Write log lines as the settings say, unless the program has set up its own; `run` only where a setting asks."""
    is_asked = is_serving or any(settings.origin(name) != "default" for name in ("log_level", "log_format"))
    if not is_asked or logging.getLogger().handlers:
        return False
    set_up_logs(settings)
    return True
