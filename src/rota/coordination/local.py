"""The coordinator within one process: all state in memory, by a monotonic clock.

No other process sees it: the first campaign gets the lead, and all is gone with the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from rota.core.cluster import ALIVE_FOR, Leadership, Lock, Member, Role
from rota.core.configuration import Configuration


@dataclass(frozen=True, slots=True)
class _Hold:
    """The holder of a lead or lock, its term, and until when by the monotonic clock."""

    holder: str
    term: int
    until: float


class LocalCoordinator:
    """Coordinates the components of one process."""

    name = "local"
    keeps_members_in_store = False
    check_in: None = None

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, alive_for: timedelta = ALIVE_FOR) -> None:
        self._clock = clock
        self._alive_for = alive_for.total_seconds()
        self._holds: dict[str, _Hold] = {}
        self._members: dict[str, tuple[Member, float]] = {}
        self._configuration = Configuration()
        self._changed = asyncio.Condition()

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        return self._leadership(name, self._take(f"lead:{name}", holder, lasting))

    async def leader(self, name: str) -> Leadership | None:
        hold = self._holds.get(f"lead:{name}")
        return None if hold is None or hold.until <= self._clock() else self._leadership(name, hold)

    async def resign(self, name: str, holder: str) -> None:
        self._release(f"lead:{name}", holder)

    async def register(self, members: Sequence[Member]) -> None:
        until = self._clock() + self._alive_for
        self._members.update((member.boot, (replace(member, seen_at=datetime.now(UTC)), until)) for member in members)

    async def deregister(self, boots: Iterable[str]) -> None:
        for boot in boots:
            self._members.pop(boot, None)

    async def members(self, role: Role | None = None) -> Sequence[Member]:
        now = self._clock()
        self._members = {boot: entry for boot, entry in self._members.items() if entry[1] > now}
        members = [member for member, _ in self._members.values() if role in (None, member.role)]
        return sorted(members, key=lambda member: (member.name, member.role, member.boot))

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        hold = self._take(f"lock:{name}", holder, lasting)
        return Lock(name, holder, hold.term) if hold.holder == holder else None

    async def unlock(self, name: str, holder: str) -> None:
        self._release(f"lock:{name}", holder)

    async def configuration(self) -> Configuration:
        return self._configuration

    async def configure(self, key: str, value: str | None) -> None:
        values = {**self._configuration.values}
        values.pop(key, None)
        if value is not None:
            values[key] = value
        async with self._changed:
            self._configuration = Configuration(values, self._configuration.revision + 1)
            self._changed.notify_all()

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most.total_seconds()), self._changed:
                await self._changed.wait_for(lambda: self._configuration.revision != since.revision)
        return self._configuration

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _take(self, key: str, holder: str, lasting: timedelta) -> _Hold:
        now = self._clock()
        old = self._holds.get(key, _Hold("", 0, now))
        if old.holder == holder or old.until <= now:
            # The term stays when a former holder comes back before any other.
            term = old.term + (old.holder != holder)
            self._holds[key] = _Hold(holder, term, now + lasting.total_seconds())
        return self._holds[key]

    def _release(self, key: str, holder: str) -> None:
        hold = self._holds.get(key)
        if hold is not None and hold.holder == holder:
            self._holds[key] = replace(hold, until=self._clock())

    def _leadership(self, name: str, hold: _Hold) -> Leadership:
        until = datetime.now(UTC) + timedelta(seconds=hold.until - self._clock())
        return Leadership(name, hold.holder, hold.term, until)
