"""The coordinator on the store: processes that share a database need no other server.

Leads and locks are rows of the store, valid by the store's clock. Live processes are the store's own members. The
shared configuration has a table, with one row for each key, so that changes of two keys at once both hold. Changes are
found by reading every few seconds: a process that checks in reads the configuration with the same statement, and only
without one it is read separately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from rota.core.cluster import ALIVE_FOR, ClusterView, Leadership, Lock, Member, MemberHeartbeat, Role
from rota.core.configuration import Configuration
from rota.ports.store import Store
from rota.ports.system_store import ClusterStore

POLL_INTERVAL: Final = timedelta(seconds=5)


class DatabaseCoordinator:
    """Coordinates the processes that share a store."""

    name = "database"
    keeps_members_in_store = True

    def __init__(
        self, store: Store, *, alive_for: timedelta = ALIVE_FOR, poll_interval: timedelta = POLL_INTERVAL
    ) -> None:
        self._store: ClusterStore = store
        self._time = store.time
        self._alive_for = alive_for
        self._poll_seconds = poll_interval.total_seconds()
        #: The configuration that checking in read last, and when.
        self._seen = Configuration()
        self._seen_at = float("-inf")
        self._changed = asyncio.Event()

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        return await self._store.lead(name, holder, lasting)

    async def leader(self, name: str) -> Leadership | None:
        return await self._store.leader(name)

    async def resign(self, name: str, holder: str) -> None:
        await self._store.resign(name, holder)

    async def register(self, members: Sequence[Member]) -> None:
        await self._store.beat(members)

    async def check_in(self, heartbeat: MemberHeartbeat) -> ClusterView:
        """Record live members, campaign or read the leader, and read the configuration, in one statement."""
        view = await self._store.check_in(heartbeat)
        before, self._seen = self._seen, view.configuration
        self._seen_at = asyncio.get_running_loop().time()
        if self._seen.revision != before.revision:
            self._changed.set()
        return view

    async def deregister(self, boots: Iterable[str]) -> None:
        await self._store.leave(boots)

    async def members(self, role: Role | None = None) -> Sequence[Member]:
        since = await self._time() - self._alive_for
        return await self._store.members(role=role, since=since)

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        return await self._store.lock(name, holder, lasting)

    async def unlock(self, name: str, holder: str | None) -> Lock | None:
        return await self._store.unlock(name, holder)

    async def locks(self) -> Sequence[Lock]:
        return await self._store.locks()

    async def configuration(self) -> Configuration:
        return await self._store.configuration()

    async def configure(self, key: str, value: str | None) -> None:
        await self._store.configure(key, value)

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        """Wait until the configuration changes; checking in may see it first."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + at_most.total_seconds()
        while True:
            # Checking in may be late by one interval. A configuration older than the caller's is no change.
            rest = self._seen_at + 2 * self._poll_seconds - loop.time()
            if rest > 0 and self._seen.revision >= since.revision:
                now = self._seen
            else:
                now, rest = await self.configuration(), self._poll_seconds
            left = give_up_at - loop.time()
            if now.revision != since.revision or left <= 0:
                return now
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(rest, left)):
                    await self._changed.wait()

    async def close(self) -> None:
        """Do nothing: the store is closed by its owner."""
