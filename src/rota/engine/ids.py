"""Making ids: time first, then chance, and never the same one twice from here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from rota.core.identity import EPOCH_MILLISECONDS, SEQUENCE_BITS, SEQUENCE_SIZE, JobId, ScheduleId, compose
from rota.ports.clock import Clock, Dice


class IdMaker:
    """Makes ids that only grow, also when the clock steps back.

    Within a millisecond they count on from a random start, so that two processes hardly ever make the same one; where
    they do, the store refuses the second and another is made.
    """

    def __init__(self, clock: Clock, dice: Dice) -> None:
        self._clock = clock
        self._dice = dice
        self._last = 0

    def __call__(self) -> JobId:
        """Make an id for a job."""
        return self.at(self._clock())

    def at(self, now: datetime, count: int = 1) -> JobId:
        """Make an id for a job, or the first of so many in a row; the time has just been read. From any thread."""
        return self.within(int(now.timestamp() * 1000), count)

    def within(self, milliseconds: int, count: int = 1) -> JobId:
        """Make an id as `at` does, for a millisecond of the Unix clock: moments cost more to reckon with."""
        last = self._last
        if milliseconds - EPOCH_MILLISECONDS > last >> SEQUENCE_BITS:
            fresh = compose(milliseconds, int(self._dice() * SEQUENCE_SIZE))
        else:
            # The same millisecond, or a clock that went back: count on.
            fresh = last + 1
        # No lock: should two threads ever make the same id, the store refuses the second, as it does between processes.
        self._last = fresh + count - 1
        return JobId(fresh)

    def several(self, now: datetime, count: int) -> Sequence[JobId]:
        """Make so many ids in a row, as `at` does."""
        first = self.at(now, count)
        return cast("Sequence[JobId]", range(first, first + count))

    def schedule(self) -> ScheduleId:
        """Make an id for a schedule."""
        return ScheduleId(self())
