"""Low-water marks: where scans of an index start, so that they skip dead entries at its beginning.

A claimed job leaves a dead entry in the claim index, and a lapsed lease or a promoted job one in the index by time.
PostgreSQL removes them, unless some session keeps an old transaction open: a report, a dump, a forgotten console. Then
every scan from the beginning steps over all of them, and within a minute claiming is several times slower.

`LowWaterMarks` (claims): a background task measures now and then how many pages it costs to find the first entry of
each lane in use. While that is little, claims start at the beginning of the lane. When it is much, the lane gets a
mark: claims start a little below the lowest turn that was claimed last. A new job with a lower turn lowers the mark: in
this process at once, from others by their notifications. A job that comes below the mark unnoticed (the notification
was lost, a commit was very late) is found by the background task, which still reads all that is below: such a job waits
some seconds longer. When the index is clean again, the mark is removed.

`ScanStart` (upkeep): nothing new is ever far to the left of an index by time, since leases end after they were given,
and scheduled jobs wait for a time to come. So a scan starts where the last one has found the first entry, or a minute
before the present, whichever is earlier. The exceptions (a settlement that comes very late) are found by a full scan
now and then. Only with the server's own clock: a time given by a caller may be any. When the clock was set back, the
next scan is a full one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from rota.core.errors import RotaError
from rota.core.job import turn_at
from rota.stores.postgres.database import Database
from rota.stores.postgres.lanes import LOWEST, LaneStart, Place
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import statement

#: How often to measure, at most how many lanes, and how many times longer than a measurement the pause after it is.
MEASURE_SECONDS: Final = 1.0
MANY_LANES: Final = 16
PAUSE_FACTOR: Final = 20
#: A lane without claims for this time is no longer measured.
IDLE_SECONDS: Final = 10.0
#: From this number of pages on, finding the first job of a lane is expensive. Without dead entries it takes a handful.
MANY_PAGES: Final = 100
#: How far below the lowest turn claimed last a claim starts, in microseconds: for commits that overtake each other.
MARK_MARGIN: Final = 100_000
#: How often an index by time is scanned from its beginning.
FULL_SCAN_SECONDS: Final = 10.0
#: How far before the present a scan by time starts at the latest, in microseconds.
MARGIN: Final = 60_000_000

_Key = tuple[str, str]


@dataclass(slots=True)
class _LaneInUse:
    used_at: float
    measured_at: float = 0.0
    mark: int = LOWEST
    #: Whether dead entries make it expensive to find the first job.
    has_dead_entries: bool = False


class LowWaterMarks:
    """The low-water marks of the lanes in use."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lanes: dict[_Key, _LaneInUse] = {}
        #: The latest known time of the server: nothing stored from now on is due before it.
        self._now = 0
        self._measuring: asyncio.Task[None] | None = None

    def starts(self, lanes: Sequence[LaneStart]) -> Sequence[LaneStart]:
        """Return lanes with the turns from which to read them."""
        # A worker uses no other lanes. A server that claims for many workers does, and does not check all of them.
        if len(self._lanes) <= len(lanes) and all(lane.mark == LOWEST for lane in self._lanes.values()):
            return lanes
        return [self._start(lane) for lane in lanes]

    def _start(self, lane: LaneStart) -> LaneStart:
        in_use = self._lanes.get((lane.queue, lane.type))
        return lane if in_use is None or in_use.mark == LOWEST else LaneStart(lane.queue, lane.type, in_use.mark)

    def note_claimed(self, lowest: Mapping[_Key, int], now: int) -> None:
        """Note the lowest turn that a claim took from each lane, and the server's time.

        A lane that gives jobs is measured from now on: each of them leaves a dead entry.
        """
        loop = asyncio.get_running_loop()
        self._now = max(self._now, now)
        for key, turn in lowest.items():
            lane = self._lanes.setdefault(key, _LaneInUse(0.0))
            lane.used_at = loop.time()
            if lane.has_dead_entries:
                lane.mark = max(lane.mark, turn - MARK_MARGIN)
        if self._measuring is None:
            self._measuring = loop.create_task(self._measure_always())

    def note_stored(self, places: Iterable[Place]) -> None:
        """Lower marks for jobs that were stored, here or elsewhere: the urgent ones may be below a mark."""
        if self._lanes:
            for queue, type_, priority in places:
                lane = self._lanes.get((queue, type_))
                if lane is not None:
                    lane.mark = min(lane.mark, turn_at(self._now, priority) - MARK_MARGIN)

    async def close(self) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
            with suppress(asyncio.CancelledError):
                await self._measuring

    async def _measure_always(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(MEASURE_SECONDS)
                begun = loop.time()
                self._lanes = {key: one for key, one in self._lanes.items() if one.used_at > begun - IDLE_SECONDS}
                if not self._lanes:
                    return
                with suppress(RotaError):
                    await self.measure()
                await asyncio.sleep((loop.time() - begun) * PAUSE_FACTOR)
        finally:
            self._measuring = None

    async def measure(self) -> None:
        """Measure the lanes in use; if they are many, those that were not measured for longest."""
        longest = sorted(self._lanes.items(), key=lambda item: item[1].measured_at)[:MANY_LANES]
        for (queue, type_), lane in longest:
            lane.measured_at = asyncio.get_running_loop().time()
            below = lane.mark if lane.mark != LOWEST else -LOWEST - 1
            pages, is_any = await self._database.survey(_cost, queue, type_, below)
            lane.has_dead_entries = pages > MANY_PAGES
            if not lane.has_dead_entries:
                lane.mark = LOWEST
            elif is_any and lane.mark != LOWEST:
                turns = await self._database.read(_lowest_turn_below, queue, type_, below)
                lane.mark = min([lane.mark, *turns])


async def _cost(session: Session, queue: str, type_: str, below: int) -> tuple[int, bool]:
    """Return how many pages it takes to find the first job of a lane below a turn, and whether there is one."""
    ((text,),) = await session.fetch(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) "
        + statement("lowest_turn_below", session.qualifier),
        queue,
        type_,
        below,
    )
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], plan["Actual Rows"] > 0


async def _lowest_turn_below(session: Session, queue: str, type_: str, below: int) -> list[int]:
    return await session.values("lowest_turn_below", queue, type_, below)


@dataclass(slots=True)
class ScanStart:
    """Where to start the scan of one index by time; `clock` measures the time between full scans."""

    clock: Callable[[], float]
    _mark: int = LOWEST
    _now: int = LOWEST
    _full_scan_at: float = float("-inf")

    def start(self) -> int:
        """Return the time from which to scan."""
        return LOWEST if self.clock() >= self._full_scan_at + FULL_SCAN_SECONDS else self._mark

    def learn(self, start: int, first: int | None, now: int) -> None:
        """Note where a scan started, the first entry it found, and the server's time."""
        if now < self._now:
            self._mark, self._now, self._full_scan_at = LOWEST, now, float("-inf")
            return
        self._now = now
        self._mark = now - MARGIN if first is None else min(first, now - MARGIN)
        if start == LOWEST:
            self._full_scan_at = self.clock()
