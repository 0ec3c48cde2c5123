"""Floors: where a claim starts to look, while the dead lie in its way.

A job that was claimed leaves a dead entry in the claim index. PostgreSQL clears it away, unless somebody somewhere
keeps an old transaction open: a report, a dump, a forgotten console. Then every claim steps over every job claimed
since, and within a minute claiming is several times slower.

So a lookout asks every now and then how many pages the first entry of each lane in use costs to find. While that is
little, claims start at the beginning, and nothing of the following holds. When it is much, the lane gets a floor:
claims start a little below the lowest turn that was claimed last. What is stored lowers the floor if need be: here at
once, by others with the notice they send. What comes below the floor unnoticed (the notice was lost, a commit was very
late) is found by the lookout, which still looks at all that lies below: such a job waits some seconds longer than it
would. When the way is clear again, the floor goes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from rota.core.errors import RotaError
from rota.core.job import turn_at
from rota.stores.postgres.database import Database
from rota.stores.postgres.lanes import LOWEST, Lane, Place
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import statement

#: How often to look, at how many lanes at the most, and how much longer than a look the pause after it is at least.
LOOK_SECONDS: Final = 1.0
MANY_LANES: Final = 16
REST: Final = 20
#: A lane that nobody claimed from for so long is left alone.
IDLE_SECONDS: Final = 10.0
#: From so many pages on, finding the first job of a lane is dear. Without the dead it takes a handful.
MANY_PAGES: Final = 100
#: How far below the lowest turn claimed last a claim starts, in microseconds: for commits that overtake each other.
TRAIL: Final = 100_000

_Key = tuple[str, str]


@dataclass(slots=True)
class _Watched:
    """A lane in use."""

    used_at: float
    looked_at: float = 0.0
    floor: int = LOWEST
    #: Whether the dead lie in the way.
    is_crowded: bool = False


class Floors:
    """Knows the floors of the lanes in use."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lanes: dict[_Key, _Watched] = {}
        #: The latest time the server has told: nothing stored from now on is due before it.
        self._now = 0
        self._lookout: asyncio.Task[None] | None = None

    def placed(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Say where to start in each lane."""
        # A worker is in no other lanes. Who claims for many workers is in many, and does not look at all of them.
        if len(self._lanes) <= len(lanes) and all(watched.floor == LOWEST for watched in self._lanes.values()):
            return lanes
        return [self._placed(lane) for lane in lanes]

    def _placed(self, lane: Lane) -> Lane:
        watched = self._lanes.get((lane.queue, lane.type))
        return lane if watched is None or watched.floor == LOWEST else Lane(lane.queue, lane.type, watched.floor)

    def claimed(self, lowest: Mapping[_Key, int], now: int) -> None:
        """Learn from a claim: the lowest turn that it gave of each lane, and the server's time.

        A lane that gives jobs is watched from now on: each of them leaves something dead.
        """
        loop = asyncio.get_running_loop()
        self._now = max(self._now, now)
        for key, turn in lowest.items():
            watched = self._lanes.setdefault(key, _Watched(0.0))
            watched.used_at = loop.time()
            if watched.is_crowded:
                watched.floor = max(watched.floor, turn - TRAIL)
        if self._lookout is None:
            self._lookout = loop.create_task(self._look_out())

    def stored(self, places: Iterable[Place]) -> None:
        """Learn of jobs that were stored, here or elsewhere: the more urgent ones may stand below a floor."""
        if self._lanes:
            for queue, type_, priority in places:
                watched = self._lanes.get((queue, type_))
                if watched is not None:
                    watched.floor = min(watched.floor, turn_at(self._now, priority) - TRAIL)

    async def close(self) -> None:
        """Stop looking."""
        if self._lookout is not None:
            self._lookout.cancel()
            with suppress(asyncio.CancelledError):
                await self._lookout

    async def _look_out(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                begun = loop.time()
                self._lanes = {key: one for key, one in self._lanes.items() if one.used_at > begun - IDLE_SECONDS}
                if not self._lanes:
                    return
                with suppress(RotaError):
                    await self.look()
                await asyncio.sleep((loop.time() - begun) * REST)
        finally:
            self._lookout = None

    async def look(self) -> None:
        """Look at the lanes in use, at those that were not looked at for longest if they are many."""
        longest = sorted(self._lanes.items(), key=lambda item: item[1].looked_at)[:MANY_LANES]
        for (queue, type_), watched in longest:
            watched.looked_at = asyncio.get_running_loop().time()
            below = watched.floor if watched.floor != LOWEST else -LOWEST - 1
            pages, is_there = await self._database.survey(_cost, queue, type_, below)
            watched.is_crowded = pages > MANY_PAGES
            if not watched.is_crowded:
                watched.floor = LOWEST
            elif is_there and watched.floor != LOWEST:
                turns = await self._database.read(_first_below, queue, type_, below)
                watched.floor = min([watched.floor, *turns])


async def _cost(session: Session, queue: str, type_: str, below: int) -> tuple[int, bool]:
    """Say how many pages it takes to find the first job of a lane below a turn, and whether there is one."""
    ((text,),) = await session.fetch(
        f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) {statement('first_below')}",
        queue,
        type_,
        below,
    )
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], plan["Actual Rows"] > 0


async def _first_below(session: Session, queue: str, type_: str, below: int) -> list[int]:
    return await session.values("first_below", queue, type_, below)
