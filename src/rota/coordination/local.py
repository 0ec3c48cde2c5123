"""Coordination within one process: all of it in memory, by a clock that only goes forward.

Nobody else can see it, so whoever asks for the lead first has it, and it is gone with the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from rota.core.configuration import Configuration
from rota.core.fleet import ALIVE_FOR, Leadership, Lock, Member, Role


@dataclass(frozen=True, slots=True)
class _Hold:
    """Who holds something, in which term, until when by the steady clock."""

    holder: str
    term: int
    until: float


class LocalCoordinator:
    """Coordinates the parts of one process."""

    name = "local"
    enlists_in_store = False
    check_in: None = None

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, alive_for: timedelta = ALIVE_FOR) -> None:
        self._clock = clock
        self._alive_for = alive_for.total_seconds()
        self._holds: dict[str, _Hold] = {}
        self._members: dict[str, tuple[Member, float]] = {}
        self._configuration = Configuration()
        self._news = asyncio.Condition()

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        """Take or keep the lead if nobody else holds it, and say who leads."""
        return self._leadership(name, self._taken(f"lead:{name}", holder, lasting))

    async def leader(self, name: str) -> Leadership | None:
        """Say who leads, if anybody does."""
        hold = self._holds.get(f"lead:{name}")
        return None if hold is None or hold.until <= self._clock() else self._leadership(name, hold)

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up."""
        self._let_go(f"lead:{name}", holder)

    async def enlist(self, members: Sequence[Member]) -> None:
        """Record that parts of this process are alive."""
        until = self._clock() + self._alive_for
        self._members.update((member.boot, (replace(member, seen_at=datetime.now(UTC)), until)) for member in members)

    async def dismiss(self, boots: Iterable[str]) -> None:
        """Forget those that said goodbye."""
        for boot in boots:
            self._members.pop(boot, None)

    async def roll(self, role: Role | None = None) -> Sequence[Member]:
        """Give those that are alive."""
        now = self._clock()
        self._members = {boot: entry for boot, entry in self._members.items() if entry[1] > now}
        found = [member for member, _ in self._members.values() if role in (None, member.role)]
        return sorted(found, key=lambda member: (member.name, member.role, member.boot))

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        """Take or keep a lock if nobody else holds it."""
        hold = self._taken(f"lock:{name}", holder, lasting)
        return Lock(name, holder, hold.term) if hold.holder == holder else None

    async def unlock(self, name: str, holder: str) -> None:
        """Give a lock back."""
        self._let_go(f"lock:{name}", holder)

    async def configuration(self) -> Configuration:
        """Read the configuration."""
        return self._configuration

    async def configure(self, key: str, value: str | None) -> None:
        """Set a key, or forget it."""
        values = {**self._configuration.values}
        values.pop(key, None)
        if value is not None:
            values[key] = value
        async with self._news:
            self._configuration = Configuration(values, self._configuration.revision + 1)
            self._news.notify_all()

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        """Wait until the configuration is another."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most.total_seconds()), self._news:
                await self._news.wait_for(lambda: self._configuration.revision != since.revision)
        return self._configuration

    async def close(self) -> None:
        """Nothing to let go of."""

    def _taken(self, key: str, holder: str, lasting: timedelta) -> _Hold:
        now = self._clock()
        old = self._holds.get(key, _Hold("", 0, now))
        if old.holder == holder or old.until <= now:
            # The term stays when a holder comes back before anybody else came.
            term = old.term + (old.holder != holder)
            self._holds[key] = _Hold(holder, term, now + lasting.total_seconds())
        return self._holds[key]

    def _let_go(self, key: str, holder: str) -> None:
        hold = self._holds.get(key)
        if hold is not None and hold.holder == holder:
            self._holds[key] = replace(hold, until=self._clock())

    def _leadership(self, name: str, hold: _Hold) -> Leadership:
        until = datetime.now(UTC) + timedelta(seconds=hold.until - self._clock())
        return Leadership(name, hold.holder, hold.term, until)
