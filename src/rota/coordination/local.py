"""The coordinator within one process: all state in memory, by a monotonic clock.

It is not shared with other processes: the first campaign gets the lead, and all state ends with the process.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from rota.core.cluster import ALIVE_FOR, Leadership, Lock, Member, Role
from rota.core.configuration import Configuration


@dataclass(frozen=True, slots=True)
class _Hold:
    """The holder of a lead, its term, and until when by the monotonic clock."""

    holder: str
    term: int
    until: float


class LocalLocks:
    """Named locks of one process, shared by its threads. A lock that lapsed is forgotten when another is taken."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._fences = itertools.count(1)
        #: By name, the lock, and until when it is held by the monotonic clock.
        self._held: dict[str, tuple[Lock, float]] = {}

    def take(self, name: str, holder: str, lasting: timedelta, now: float) -> Lock | None:
        with self._guard:
            old = self._held.get(name)
            is_ours = old is not None and old[0].holder == holder
            if old is not None and not is_ours and old[1] > now:
                return None
            wall = datetime.now(UTC)
            if old is not None and is_ours:
                lock = replace(old[0], until=wall + lasting)
            else:
                self._held = {key: entry for key, entry in self._held.items() if entry[1] > now}
                lock = Lock(name, holder, next(self._fences), wall, wall + lasting)
            self._held[name] = lock, now + lasting.total_seconds()
            return lock

    def release(self, name: str, holder: str | None, now: float) -> Lock | None:
        with self._guard:
            old = self._held.get(name)
            if old is None or holder not in (None, old[0].holder):
                return None
            del self._held[name]
            return old[0] if old[1] > now else None

    def held(self, now: float) -> Sequence[Lock]:
        with self._guard:
            return [lock for _, (lock, until) in sorted(self._held.items()) if until > now]


#: Of this process: several coordinators (of an app, of its worker and API) share the same locks.
PROCESS_LOCKS: Final = LocalLocks()


class LocalCoordinator:
    """Coordinates the components of one process."""

    name = "local"
    keeps_members_in_store = False
    check_in: None = None

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        alive_for: timedelta = ALIVE_FOR,
        locks: LocalLocks = PROCESS_LOCKS,
    ) -> None:
        self._clock = clock
        self._locks = locks
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
        return self._locks.take(name, holder, lasting, self._clock())

    async def unlock(self, name: str, holder: str | None) -> Lock | None:
        return self._locks.release(name, holder, self._clock())

    async def locks(self) -> Sequence[Lock]:
        return self._locks.held(self._clock())

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
