"""`app.run()` and `app.serve()`: a worker, a scheduler and, on request, the API inside the program that defines tasks.

They run on the portal's loop and on the app's own link. They are the components of `rota …` processes, built by the
same functions from the same settings (`rota.runtime.assembly`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Any, Final, Self

from rota.core.errors import InvalidRequest
from rota.runtime import Link
from rota.runtime.assembly import instance_name
from rota.runtime.components import BoundPorts, Components, RolePlan
from rota.runtime.process import set_up_logs
from rota.runtime.store import wait_for_store
from rota.sdk.app import Rota
from rota.sdk.loader import definition_of
from rota.sdk.portal import running_loop
from rota.settings import Settings, queue_words
from rota.telemetry.tracing import spans_in_use

_log = logging.getLogger("rota")


def settings_for(settings: Settings, concurrency: int | None, queues: Iterable[str] | None) -> Settings:
    """Return the settings of one run: arguments of the call override them."""
    changes: dict[str, Any] = {}
    if concurrency is not None:
        if type(concurrency) is not int or concurrency < 1:
            remedy = "give how many jobs may run at once, as in run(concurrency=4)"
            message = f"concurrency: {concurrency!r} is not a whole number of 1 or more; {remedy}"
            raise InvalidRequest(message, field="concurrency")
        changes["concurrency"] = concurrency
    if queues is not None:
        try:
            changes["queues"] = queue_words(queues if isinstance(queues, str) else list(queues))
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"queues: {error}; leave it out for the queues of the tasks", field="queues") from None
    return replace(settings, **changes, origins={**settings.origins, **dict.fromkeys(changes, "run()")})


class StoppedAtStart(Exception):
    """A signal was received before the store was open."""


class Signals:
    """Handles SIGTERM and SIGINT during `serve`, with TLS also SIGHUP; restores the former handlers at the end."""

    def __init__(self, *, reloads_tls: bool = False) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise InvalidRequest(
                "serve() needs the main thread, which gets the signals; use run() on other threads", field=""
            )
        if running_loop() is not None:
            raise InvalidRequest("serve() would block the event loop that runs here; use run()", field="")
        self.count = 0
        self._listener: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._reloads_tls = reloads_tls
        #: Called on the loop that listens, for SIGHUP.
        self.on_hangup: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        self._former = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        if self._reloads_tls:
            self._former[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_hangup)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def listen(self) -> asyncio.Event:
        """Return an event that each signal sets, also one received before. Called on the loop that waits for it."""
        event = asyncio.Event()
        self._listener = asyncio.get_running_loop(), event
        if self.count:
            event.set()
        return event

    def _on_hangup(self, _number: int, _frame: FrameType | None) -> None:
        if self._listener is not None and self.on_hangup is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._listener[0].call_soon_threadsafe(self.on_hangup)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self._listener is not None:
            loop, event = self._listener
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(event.set)


@dataclass(slots=True)
class Embedded:
    """The running components. All on the portal's loop."""

    components: Components
    event: asyncio.Event | None = None

    async def ended(self) -> None:
        """Wait for a signal, or raise the error of a component that failed."""
        assert self.event is not None
        failing = asyncio.create_task(self.components.failed())
        signalled = asyncio.create_task(self.event.wait())
        try:
            await asyncio.wait([failing, signalled], return_when=asyncio.FIRST_COMPLETED)
        finally:
            signalled.cancel()
            failing.cancel()
        if failing.done() and not failing.cancelled():
            failing.result()
        _log.info("stopping: running jobs may finish; signal again to stop without waiting")

    async def end(self) -> None:
        """Let running jobs finish, release the rest, and stop; after a second signal, do not wait."""
        ending = asyncio.create_task(self.components.end())
        while self.event is not None and not ending.done():
            self.event.clear()
            signalled = asyncio.create_task(self.event.wait())
            await asyncio.wait([ending, signalled], return_when=asyncio.FIRST_COMPLETED)
            signalled.cancel()
            if not ending.done():
                _log.warning("stopping now, without waiting for running jobs")
                self.components.stop()
        await ending


#: Numbers the runs of this process, of all its apps: each needs a name of its own in the cluster.
_numbers: Final = itertools.count(1)


async def start(app: Rota, settings: Settings, *, api: bool, signals: Signals | None) -> Embedded:
    """Start the components for an app; runs on the portal's loop."""
    number = next(_numbers)
    event = None if signals is None else signals.listen()
    if app.url.startswith(("http://", "https://")):
        raise InvalidRequest(
            "run() needs a store; for an API over HTTP, start `rota worker --app …` instead", field="url"
        )
    is_logging = _set_up_logs(settings, is_serving=signals is not None)
    plan = RolePlan(
        schedules=True,
        serves=api,
        works=True,
        spans=spans_in_use(),
        logs=(settings.log_level, settings.log_format) if is_logging else None,
        instance=instance_name() if number == 1 else f"{instance_name()}-{number}",
    )
    ports = BoundPorts.bound(plan, settings)
    if signals is not None:
        signals.on_hangup = ports.reload_tls
    try:
        link = await _open_link(app, settings, event)
        components = Components(plan, settings, definition_of(app), link, ports)
        await _start_components(components, event)
    except BaseException:
        ports.close()
        raise
    return Embedded(components, event)


async def _open_link(app: Rota, settings: Settings, event: asyncio.Event | None) -> Link:
    """Open the app's store, unless a signal comes first."""
    opening = asyncio.create_task(wait_for_store(app.url, app.link, settings.start_timeout))
    signalled = asyncio.create_task(asyncio.Event().wait() if event is None else event.wait())
    try:
        await asyncio.wait([opening, signalled], return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            return opening.result()
        _log.info("stopped while waiting for the store")
        raise StoppedAtStart
    finally:
        signalled.cancel()
        opening.cancel()


async def _start_components(components: Components, event: asyncio.Event | None) -> None:
    """Start the components, unless a signal comes first; stop those that had started if one fails."""
    starting = asyncio.create_task(components.start())
    signalled = asyncio.create_task(asyncio.Event().wait() if event is None else event.wait())
    try:
        await asyncio.wait([starting, signalled], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
    except BaseException:
        await components.end()
        raise
    finally:
        signalled.cancel()


def _set_up_logs(settings: Settings, *, is_serving: bool) -> bool:
    """Configure logging from the settings, unless the program has done so; for `run` only if a log setting is given."""
    is_asked = is_serving or any(settings.origin(name) != "default" for name in ("log_level", "log_format"))
    if not is_asked or logging.getLogger().handlers:
        return False
    set_up_logs(settings)
    return True
