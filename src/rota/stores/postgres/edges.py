"""Edges: where upkeep starts to look in an index that is ordered by time.

A lease that ended leaves a dead entry at the left edge of its index, as does a job that became due. While somebody
keeps an old transaction open they cannot be cleared away, and upkeep, which always looks at the edge, would step over
all of them at every look. But nothing new ever stands far to the left: leases end after they were given, and what waits
for its time waits for a time to come. So a look starts where the last one has found the first entry, or a minute before
the present, whichever is earlier. The exceptions (a settlement that comes very late) are found by a whole look now and
then.

Only by the server's own clock: whoever brings a time of their own may bring any. When the clock has been set back,
everything is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rota.stores.postgres.lanes import LOWEST

#: How often the whole index is looked at.
WHOLE_SECONDS: Final = 10.0
#: How far before the present a look starts at the latest, in microseconds.
MARGIN: Final = 60_000_000


@dataclass(slots=True)
class Edge:
    """What is known of the left edge of one index; `clock` measures the time between whole looks."""

    clock: Callable[[], float]
    _floor: int = LOWEST
    _now: int = LOWEST
    _whole_at: float = float("-inf")

    def start(self) -> int:
        """Say where to start to look."""
        return LOWEST if self.clock() >= self._whole_at + WHOLE_SECONDS else self._floor

    def learn(self, start: int, first: int | None, now: int) -> None:
        """Learn from a look: where it started, the first entry it found, and the server's time."""
        if now < self._now:
            self._floor, self._now, self._whole_at = LOWEST, now, float("-inf")
            return
        self._now = now
        self._floor = now - MARGIN if first is None else min(first, now - MARGIN)
        if start == LOWEST:
            self._whole_at = self.clock()
