"""The bus: who listens, and telling them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from rota.telemetry.events import Event

Listener = Callable[[Event], None]
_log = logging.getLogger("rota.telemetry")


class Telemetry:
    """Passes events on, in the thread and at the moment in which they happen. Listeners are quick or hand on."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens: what nobody hears need not be told."""
        return bool(self._listeners)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener of everything from now on; calling what is returned ends that."""
        self._listeners = (*self._listeners, listener)

        def leave() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return leave

    def emit(self, event: Event) -> None:
        """Tell everyone."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - whatever a listener raises, the work goes on
                _log.exception("a listener failed on %s", type(event).__name__)


class RelayedTelemetry(Telemetry):
    """Has events that happen on other threads told on the loop where everyone listens."""

    def __init__(self, telemetry: Telemetry, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._told = telemetry
        self._loop = loop

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens."""
        return self._told.is_heard

    def emit(self, event: Event) -> None:
        """Tell everyone, soon."""
        if self._told.is_heard:
            # Closed: nobody listens there any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._told.emit, event)
