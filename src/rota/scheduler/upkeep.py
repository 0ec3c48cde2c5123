"""Upkeep duties of the scheduler: ticker, promoter, waker, reaper, expirer, pruner.

Each does one pass and counts its work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from rota.engine import Engine
from rota.ports.store import Retention, Timetable

#: The most jobs of one pass; a full pass is followed by the next at once.
BATCH: Final = 500
#: How often old buckets of the history are deleted.
HISTORY_SECONDS: Final = 600.0


class Duty(Protocol):
    """A kind of upkeep that is done when its time has come."""

    name: str

    def due(self, timetable: Timetable) -> datetime | None:
        """Return when a pass is needed next; None if nothing is known."""
        ...

    async def tick(self) -> int:
        """Do one pass; return how many things were done."""
        ...


class Ticker:
    """Fires schedules: submits the jobs of fire times that have come."""

    name = "ticker"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        return timetable.schedule

    async def tick(self) -> int:
        return await self.engine.schedules.fire(BATCH)


class Promoter:
    """Makes scheduled and retrying jobs pending when they are due."""

    name = "promoter"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        return timetable.job

    async def tick(self) -> int:
        return await self.engine.upkeep.promote(BATCH)


class Waker:
    """Ends waits for events that are due, so that their jobs run again."""

    name = "waker"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        return timetable.wait

    async def tick(self) -> int:
        return await self.engine.upkeep.end_waits(BATCH)


class Reaper:
    """Takes back the jobs of lapsed leases."""

    name = "reaper"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        return timetable.lease

    async def tick(self) -> int:
        return await self.engine.upkeep.reap(BATCH)


class Expirer:
    """Cancels jobs that were not started before `expires_at`."""

    name = "expirer"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        return timetable.expiry

    async def tick(self) -> int:
        return await self.engine.upkeep.expire(BATCH)


class Pruner:
    """Deletes finished jobs after their retention time, and old buckets of the history now and then."""

    name = "pruner"

    def __init__(self, engine: Engine, retention: Retention, *, timer: Callable[[], float] = time.monotonic) -> None:
        self.engine = engine
        self._retention = retention
        self._timer = timer
        self._history_at = timer() + HISTORY_SECONDS

    async def tick(self) -> int:
        if self._timer() >= self._history_at:
            await self.engine.store.prune_history(BATCH * 10)
            self._history_at = self._timer() + HISTORY_SECONDS
        return await self.engine.upkeep.prune(self._retention, BATCH)
