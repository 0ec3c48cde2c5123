"""The coordinators that the suite runs on. A new adapter adds an entry here, and no tests.

A place is what several processes share; a coordinator is what one of them has of it. Time passes by hand where the
clock is ours, and by itself on etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from builders import ManualClock
from conformance.stores.adapters import STORES
from conformance.stores.adapters import Adapter as StoreAdapter
from rota.coordination.database import DatabaseCoordinator
from rota.coordination.etcd import EtcdCoordinator, location_of
from rota.coordination.local import LocalCoordinator, LocalLocks
from rota.ports.coordinator import Coordinator
from rota.ports.store import Store
from servers.etcd import shared_cluster

#: How long leads, locks and members last in the suite: whole seconds, as etcd counts them.
LASTING: Final = timedelta(seconds=2)
Open = Callable[[], Awaitable[Coordinator]]


class Place(Protocol):
    """Something shared, and the time there."""

    async def open(self) -> Coordinator:
        """Return what one more process has of it."""
        ...

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        ...


class Local:
    """One process: all have the same."""

    name = "local"

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[Place]:
        del folder
        yield _LocalPlace()


class _LocalPlace:
    def __init__(self) -> None:
        self._now = 1000.0
        self._only = LocalCoordinator(clock=lambda: self._now, alive_for=LASTING, locks=LocalLocks())

    async def open(self) -> Coordinator:
        return self._only

    async def pass_time(self, seconds: float) -> None:
        self._now += seconds


class Database:
    """A store of each kind, opened anew for each process where it can be."""

    def __init__(self, adapter: StoreAdapter) -> None:
        self.name = f"database-{adapter.name}"
        self._adapter = adapter

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[Place]:
        async for place in self._adapter.place(folder):
            shared = _DatabasePlace(self._adapter, place)
            yield shared
            for store in shared.opened:
                await store.close()


class _DatabasePlace:
    def __init__(self, adapter: StoreAdapter, place: str) -> None:
        self._adapter = adapter
        self._place = place
        self._clock = ManualClock()
        self.opened: list[Store] = []

    async def open(self) -> Coordinator:
        if not self.opened or self._adapter.is_shared:
            self.opened.append(await self._adapter.open(self._place, self._clock))
        return DatabaseCoordinator(self.opened[-1], alive_for=LASTING, poll_interval=timedelta(seconds=0.05))

    async def pass_time(self, seconds: float) -> None:
        self._clock.move(timedelta(seconds=seconds))


class Etcd:
    """A real etcd, a prefix for each test."""

    name = "etcd"
    _numbers: Final = count(1)

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[Place]:
        del folder
        place = _EtcdPlace(f"etcd://{shared_cluster().endpoints}/test-{next(self._numbers)}")
        yield place
        for coordinator in place.opened:
            await coordinator.close()


class _EtcdPlace:
    def __init__(self, url: str) -> None:
        self._url = url
        self.opened: list[Coordinator] = []

    async def open(self) -> Coordinator:
        # Patient: what is tested is not how quickly a busy machine answers.
        self.opened.append(EtcdCoordinator(location_of(self._url), alive_for=LASTING, timeout=30))
        return self.opened[-1]

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


Adapter = Local | Database | Etcd
COORDINATORS: Final[tuple[Adapter, ...]] = (Local(), *map(Database, STORES), Etcd())
