"""Coordination through the store: whoever shares a database needs nothing else.

Leads and locks are rows of the store's table of leaders, judged by the store's clock; a row's term is the fence. The
processes that are alive are the store's own members. The shared configuration is the settings of a queue that cannot
be: its name has a slash, which no queue's may. That spares a table on three databases for a handful of words, and gives
versions, so that two changes at once both hold. Changes are noticed by looking, every few seconds: whoever checks in
sees the configuration with the same look, and only where nobody does, it is looked at for itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.configuration import Configuration
from rota.core.errors import CoordinatorUnavailable
from rota.core.fleet import ALIVE_FOR, Bearings, CheckIn, Leadership, Lock, Member, Role
from rota.core.lane import CONFIGURATION, Queue
from rota.ports.store import FleetStore, Store

LOOK_EVERY: Final = timedelta(seconds=5)
_ROUNDS: Final = 10


class DatabaseCoordinator:
    """Coordinates those who share a store."""

    name = "database"
    enlists_in_store = True

    def __init__(self, store: Store, *, alive_for: timedelta = ALIVE_FOR, look_every: timedelta = LOOK_EVERY) -> None:
        self._store: FleetStore = store
        self._time = store.time
        self._alive_for = alive_for
        self._look_seconds = look_every.total_seconds()
        #: What was last seen by checking in, and when.
        self._seen = Configuration()
        self._seen_at = float("-inf")
        self._news = asyncio.Event()

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        """Take or keep the lead if nobody else holds it, and say who leads."""
        return await self._store.lead(name, holder, lasting)

    async def leader(self, name: str) -> Leadership | None:
        """Say who leads, if anybody does."""
        return await self._store.leader(name)

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up."""
        await self._store.resign(name, holder)

    async def enlist(self, members: Sequence[Member]) -> None:
        """Record that processes are alive."""
        await self._store.beat(members)

    async def check_in(self, told: CheckIn) -> Bearings:
        """Record that processes are alive, ask for a lead or who has it, and see the configuration."""
        bearings = await self._store.check_in(told)
        before, self._seen = self._seen, _configuration(bearings.configuration)
        self._seen_at = asyncio.get_running_loop().time()
        if self._seen.revision != before.revision:
            self._news.set()
        return bearings

    async def dismiss(self, boots: Iterable[str]) -> None:
        """Forget processes that said goodbye."""
        await self._store.leave(boots)

    async def roll(self, role: Role | None = None) -> Sequence[Member]:
        """Give the processes that are alive."""
        since = await self._time() - self._alive_for
        return await self._store.members(role=role, since=since)

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        """Take or keep a lock if nobody else holds it."""
        row = await self._store.lead(f"lock:{name}", holder, lasting)
        return Lock(name, holder, row.term) if row.holder == holder else None

    async def unlock(self, name: str, holder: str) -> None:
        """Give a lock back."""
        await self._store.resign(f"lock:{name}", holder)

    async def configuration(self) -> Configuration:
        """Read the configuration."""
        return _configuration(await self._row())

    async def configure(self, key: str, value: str | None) -> None:
        """Set a key, or forget it; look again if someone else changed one meanwhile."""
        for _ in range(_ROUNDS):
            row = await self._row()
            values = {name: text for name, text in _values(row).items() if name != key}
            if value is not None:
                values[key] = value
            if await self._store.put_queue(replace(row, pause_reason=json.dumps(values))):
                return
        raise CoordinatorUnavailable(f"configuration: {key!r} was not set, the others keep changing; try again")

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        """Look until the configuration is another; somebody who checks in may see it first."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + at_most.total_seconds()
        while True:
            # One that is late is not yet missing. What was seen before whoever asks last looked is no change.
            rest = self._seen_at + 2 * self._look_seconds - loop.time()
            if rest > 0 and self._seen.revision >= since.revision:
                found = self._seen
            else:
                found, rest = await self.configuration(), self._look_seconds
            left = give_up_at - loop.time()
            if found.revision != since.revision or left <= 0:
                return found
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(rest, left)):
                    await self._news.wait()

    async def close(self) -> None:
        """Let go of nothing: the store belongs to whoever brought it."""

    async def _row(self) -> Queue:
        return next((row for row in await self._store.queues() if row.name == CONFIGURATION), Queue(CONFIGURATION))


def _configuration(row: Queue | None) -> Configuration:
    return Configuration() if row is None else Configuration(_values(row), row.version)


def _values(row: Queue) -> dict[str, str]:
    values: dict[str, str] = json.loads(row.pause_reason or "{}")
    return values
