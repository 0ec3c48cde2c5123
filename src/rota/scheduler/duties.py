"""The duties: each one pass of its own, saying how much it did."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Protocol

from rota.engine import Engine
from rota.ports.store import Retention, Timetable

#: How much one pass takes at most; a full pass is followed by the next at once.
BATCH: Final = 500


class Duty(Protocol):
    """Something a scheduler does when its time has come."""

    name: str

    def due(self, timetable: Timetable) -> datetime | None:
        """Say when it is to be done next."""
        ...

    async def tick(self) -> int:
        """Do one pass and say how much was done."""
        ...


class Ticker:
    """Makes the jobs that schedules owe."""

    name = "ticker"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        """Look up when it is needed."""
        return timetable.schedule

    async def tick(self) -> int:
        """Fire the schedules whose time has come."""
        return await self._engine.schedules.fire(BATCH)


class Promoter:
    """Makes jobs whose time has come pending."""

    name = "promoter"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        """Look up when it is needed."""
        return timetable.job

    async def tick(self) -> int:
        """Promote what is due."""
        return await self._engine.upkeep.promote(BATCH)


class Reaper:
    """Takes jobs from workers that went silent."""

    name = "reaper"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        """Look up when it is needed."""
        return timetable.lease

    async def tick(self) -> int:
        """Reap what is lost."""
        return await self._engine.work.reap(BATCH)


class Expirer:
    """Ends jobs that are too late to start."""

    name = "expirer"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def due(self, timetable: Timetable) -> datetime | None:
        """Look up when it is needed."""
        return timetable.expiry

    async def tick(self) -> int:
        """End what has expired."""
        return await self._engine.jobs.expire(BATCH)


class Pruner:
    """Forgets finished jobs past their time."""

    name = "pruner"

    def __init__(self, engine: Engine, retention: Retention) -> None:
        self._engine = engine
        self._retention = retention

    async def tick(self) -> int:
        """Prune a small number, so that nobody waits for it."""
        return await self._engine.upkeep.prune(self._retention, BATCH)
