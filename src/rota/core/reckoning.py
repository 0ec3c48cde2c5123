"""Reckoning: which moment of our own steady clock a moment of somebody else's clock is.

Whoever is told the time hears it late, and never early: our clock when we hear it, less the time that we are told, is
the distance of the two clocks and the way that the word took. So the least of all such differences bounds the distance
from above, and what is reckoned with it is never too early, and too late by no more than the quickest word's way.

No two clocks go alike, so what was heard a while ago counts for a little less, at the rate at which clocks drift apart.
And the other clock may be set: forward, then the next word says so by itself; or back. Who has asked, and knows when,
sees that at once: the other clock was read after that, so the distance cannot be less than it was then. Of a word that
came unasked we can only say that no way takes so long, and forget all we have heard before.
"""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import Final

#: How far two clocks drift apart in a second, in seconds: as fast as `adjtime` lets a clock catch up. Of one that is
#: made to run faster than that, the next word tells.
DRIFT: Final = 5e-4
#: How much longer than the quickest a word may take that nobody asked for, in seconds, for us to believe that no clock
#: was set back.
LEAP_SECONDS: Final = 0.02
#: A moment of this century as a number of seconds is exact to a quarter of this.
_GRAIN_SECONDS: Final = 1e-6


class Reckoning:
    """What we know of another clock."""

    def __init__(self) -> None:
        self._distance = inf
        self._heard_at = -inf

    def hear(self, told: datetime, heard_at: float, asked_at: float | None = None) -> None:
        """Learn that we were told a time, at a moment of our own clock, and perhaps when we had asked for it."""
        distance = heard_at - told.timestamp()
        known = self._distance + max(heard_at - self._heard_at, 0.0) * DRIFT if self._distance < inf else inf
        least = distance - LEAP_SECONDS if asked_at is None else asked_at - told.timestamp()
        self._distance = distance if known < least else min(known, distance)
        self._heard_at = heard_at

    def here(self, there: datetime) -> float:
        """Say at which moment of our own clock that moment has surely come; never, if we have heard nothing."""
        return there.timestamp() + self._distance + _GRAIN_SECONDS
