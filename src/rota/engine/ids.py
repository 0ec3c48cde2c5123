"""Making ids: time first, then chance, and never the same one twice from here."""

from __future__ import annotations

from rota.core.identity import SEQUENCE_BITS, JobId, ScheduleId, compose
from rota.core.instant import to_micros
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
        milliseconds = to_micros(self._clock()) // 1000
        fresh = compose(milliseconds, int(self._dice() * (1 << SEQUENCE_BITS)))
        # The same millisecond, or a clock that went back: count on.
        is_later = fresh >> SEQUENCE_BITS > self._last >> SEQUENCE_BITS
        self._last = fresh if is_later else self._last + 1
        return JobId(self._last)

    def schedule(self) -> ScheduleId:
        """Make an id for a schedule."""
        return ScheduleId(self())
