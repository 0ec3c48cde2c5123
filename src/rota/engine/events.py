"""Event verbs: emit a named event, and read one."""

from __future__ import annotations

import time

from rota.core.ledger import LedgerEntry
from rota.core.waiting import Emission, Emitted, EmittedEvent, check_emission, check_event_name
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.events import Acted, EventEmitted


class Events:
    """Emit, read."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def emit(self, emission: Emission, by: Actor) -> Emitted:
        """Emit an event, unless it was emitted before, and wake the jobs that wait for it."""
        check_emission(emission)
        begun = time.perf_counter()
        entry = LedgerEntry(by.name, "events.emit", emission.name, by.origin, surface=by.surface)
        emitted = await self._deps.store.emit(emission, entry=entry)
        seconds = time.perf_counter() - begun
        self._deps.telemetry.emit(EventEmitted(emitted, seconds))
        if emitted.is_new:
            self._deps.telemetry.emit(Acted(entry))
            await self._deps.broker.announce({*emitted.queues, TIMETABLE})
        return emitted

    async def one(self, name: str) -> EmittedEvent | None:
        """Return an event that was emitted and has not expired; None if there is none."""
        check_event_name(name)
        return await self._deps.store.event(name)
