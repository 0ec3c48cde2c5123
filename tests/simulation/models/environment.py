"""The environment of a simulated process: its host, its view of the store, random numbers, and the history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TypeVar, cast

from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId, compose
from rota.core.time import to_micros
from rota.ports.store import Store
from simulation.faults import FaultClass, FaultInjector
from simulation.history import History
from simulation.hosts import Host
from simulation.loop import SimulatedLoop
from simulation.web import Web

T = TypeVar("T")


@dataclass(slots=True)
class Environment:
    """The environment of one process. A restarted process goes on with the random numbers of its host."""

    host: Host
    store: Store
    history: History
    injector: FaultInjector
    rng: Random
    #: How the API is reached where there is one.
    web: Web
    #: Whether handlers may crash their worker.
    can_poison: bool = True

    def fresh_id(self) -> JobId:
        """Make an id as a submitter does: from its own clock and random numbers."""
        return JobId(compose(to_micros(self.host.clock()) // 1000, self.rng.getrandbits(22)))

    def now(self) -> float:
        """Tell the time durations are measured with."""
        return asyncio.get_running_loop().time()

    def is_over(self) -> bool:
        """Whether the run is over, and remaining tasks are only cancelled."""
        return cast("SimulatedLoop", asyncio.get_running_loop()).is_over

    async def failpoint(self, point: str) -> None:
        """Pass a failpoint."""
        await self.injector.failpoint(self.host, point)

    async def delay_sometimes(self) -> None:
        """Sometimes let time pass between a read and the write that follows from it."""
        if self.rng.random() < 0.2:
            await asyncio.sleep(self.rng.random() * 2)

    def poison(self) -> None:
        """Crash the process, as a handler does that calls `os._exit`."""
        self.injector.crash_host(self.host, FaultClass.POISON, "handler")

    async def store_time(self) -> datetime:
        """Read the store's clock: a `run_at` or a plan is computed from it; this host's may be an hour off."""
        return await self.store.time()

    async def call_repeatedly(self, act: Callable[[], Awaitable[T]], *, tries: int) -> T | None:
        """Call something, and repeat it while no answer comes; None if none came."""
        for attempt in range(tries):
            try:
                return await act()
            except StoreUnavailable:
                await asyncio.sleep(self.rng.random() * 2**attempt * 0.5)
        return None
