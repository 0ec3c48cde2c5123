"""The event bus: listeners, and delivery of events to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from rota.telemetry.events import Event

Listener = Callable[[Event], None]
_log = logging.getLogger("rota.telemetry")


class Telemetry:
    """Delivers events synchronously, in the thread that emits them. Listeners must be quick."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    @property
    def has_listeners(self) -> bool:
        """Whether there are listeners; without any, events need not be made."""
        return bool(self._listeners)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Subscribe a listener; the returned function unsubscribes it."""
        self._listeners = (*self._listeners, listener)

        def leave() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return leave

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - a listener must not fail the verb
                _log.exception("a telemetry listener failed on %s", type(event).__name__)


class RelayedTelemetry(Telemetry):
    """Delivers events of other threads on the event loop of the listeners."""

    def __init__(self, telemetry: Telemetry, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._target = telemetry
        self._loop = loop

    @property
    def has_listeners(self) -> bool:
        return self._target.has_listeners

    def emit(self, event: Event) -> None:
        if self._target.has_listeners:
            # The loop is closed: there are no listeners any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._target.emit, event)
