"""Id generation: milliseconds in the upper bits, a random start in the lower ones, never the same id twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from rota.core.ids import EPOCH_MILLISECONDS, SEQUENCE_BITS, SEQUENCE_SIZE, JobId, ScheduleId, compose
from rota.ports.clock import Clock, Rng


class IdMaker:
    """Makes ids that only grow, even when the clock is set back.

    Within a millisecond they count up from a random start, so that two processes hardly ever make the same one. If they
    do, the store refuses the second, and the engine takes another id.
    """

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0

    def __call__(self) -> JobId:
        return self.at(self._clock())

    def at(self, now: datetime, count: int = 1) -> JobId:
        """Make an id, or the first of `count` consecutive ones, for a time just read. Thread-safe."""
        return self.within(int(now.timestamp() * 1000), count)

    def within(self, milliseconds: int, count: int = 1) -> JobId:
        """Make an id as `at` does, for a millisecond of the Unix clock: cheaper than a datetime."""
        last = self._last
        if milliseconds - EPOCH_MILLISECONDS > last >> SEQUENCE_BITS:
            fresh = compose(milliseconds, int(self._rng() * SEQUENCE_SIZE))
        else:
            # The same millisecond, or a clock that was set back: count up.
            fresh = last + 1
        # No lock: if two threads make the same id, the store refuses the second, as it does between processes.
        self._last = fresh + count - 1
        return JobId(fresh)

    def several(self, now: datetime, count: int) -> Sequence[JobId]:
        first = self.at(now, count)
        return cast("Sequence[JobId]", range(first, first + count))

    def schedule(self) -> ScheduleId:
        return ScheduleId(self())
