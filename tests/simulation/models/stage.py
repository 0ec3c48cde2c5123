"""What every model is given: its host, its view of the store, rng, and the history."""

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
from simulation.faults import FaultClass, Nemesis
from simulation.history import History
from simulation.hosts import Host
from simulation.loop import SimulatedLoop
from simulation.web import Web

T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """One process's surroundings. The rng are the host's: a restarted process throws on where the dead one stopped."""

    host: Host
    store: Store
    history: History
    nemesis: Nemesis
    rng: Random
    #: How the API is reached where there is one.
    web: Web
    #: What was switched off is not to happen, not even by a handler's own doing.
    can_poison: bool = True

    def fresh_id(self) -> JobId:
        """Make an id as a submitter does: from its own clock and chance."""
        return JobId(compose(to_micros(self.host.clock()) // 1000, self.rng.getrandbits(22)))

    def now(self) -> float:
        """Tell the time durations are measured with."""
        return asyncio.get_running_loop().time()

    def is_over(self) -> bool:
        """Say whether everything has happened, and who is left is only asked to go."""
        return cast("SimulatedLoop", asyncio.get_running_loop()).is_over

    async def reach(self, point: str) -> None:
        """Come by a failpoint."""
        await self.nemesis.reach(self.host, point)

    async def dawdle(self) -> None:
        """Let time pass between what was read and what will be written: now and then a process does."""
        if self.rng.random() < 0.2:
            await asyncio.sleep(self.rng.random() * 2)

    def poison(self) -> None:
        """Take the whole process down, as a handler does that calls `os._exit`."""
        self.nemesis.slay(self.host, FaultClass.POISON, "handler")

    async def store_time(self) -> datetime:
        """Read the store's clock: a `run_at` or a plan must be reckoned with it; ours may be an hour off."""
        return await self.store.time()

    async def insist(self, act: Callable[[], Awaitable[T]], *, tries: int) -> T | None:
        """Do something, and again when no answer came; None if none ever did."""
        for attempt in range(tries):
            try:
                return await act()
            except StoreUnavailable:
                await asyncio.sleep(self.rng.random() * 2**attempt * 0.5)
        return None
