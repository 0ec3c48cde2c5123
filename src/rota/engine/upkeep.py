"""What must be done as time passes, whoever does it."""

from __future__ import annotations

import time
from collections.abc import Callable

from rota.engine.parts import Parts
from rota.ports.store import Retention, Timetable
from rota.telemetry.events import JobsPromoted, JobsPruned


class Upkeep:
    """Promote what is due, prune what is past its time."""

    def __init__(self, parts: Parts, hear: Callable[[Timetable], None]) -> None:
        self._parts = parts
        self._hear = hear

    async def promote(self, limit: int) -> int:
        """Make jobs whose time has come pending, and tell their workers."""
        begun = time.perf_counter()
        queues = await self._parts.store.promote(limit)
        if queues:
            self._parts.telemetry.emit(JobsPromoted(queues, time.perf_counter() - begun))
            await self._parts.broker.announce(queues)
        return sum(queues.values())

    async def prune(self, retention: Retention, limit: int) -> int:
        """Delete finished jobs past their time, a small number at once."""
        begun = time.perf_counter()
        count = await self._parts.store.prune(retention, limit)
        if count:
            self._parts.telemetry.emit(JobsPruned(count, time.perf_counter() - begun))
        return count

    async def timetable(self) -> Timetable:
        """Say when any of this is needed next; whoever claims ahead in this process hears it, too."""
        clock = self._parts.store_clock
        asked_at = clock.steady()
        timetable = await self._parts.store.timetable()
        clock.note(timetable.now, asked_at)
        if timetable.lease is None or timetable.lease > timetable.now:
            clock.note_clear(timetable.now)
        self._hear(timetable)
        return timetable
