"""Wall clocks that are wrong in the ways real ones are: off, drifting, and set while processes read them.

Each host has its own. All of them run on the loop's time, which is the monotonic clock and is never wrong: durations
are measured with it, moments with these.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

#: When every simulated world begins: a Monday.
GENESIS: Final = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
GENESIS_MICROS: Final = (GENESIS - EPOCH) // timedelta(microseconds=1)


class Monotonic(Protocol):
    """Something that tells how many seconds have passed."""

    def time(self) -> float:
        """Give the seconds since some beginning."""
        ...


class WallClock:
    """A clock that is right until a fault changes it."""

    def __init__(self, loop: Monotonic) -> None:
        self._loop = loop
        self._anchor_seconds = loop.time()
        self._anchor_micros = GENESIS_MICROS + round(self._anchor_seconds * 1e6)
        self._truth_micros = GENESIS_MICROS
        self._rate = 1.0

    def micros(self) -> int:
        """Give the moment it shows as microseconds since 1970."""
        return self._anchor_micros + round((self._loop.time() - self._anchor_seconds) * 1e6 * self._rate)

    def __call__(self) -> datetime:
        """Give the moment it shows."""
        return EPOCH + timedelta(microseconds=self.micros())

    def step(self, seconds: float, *, for_good: bool = False) -> None:
        """Set the clock forward, or back; for good if that is what is right from now on."""
        self._settle()
        self._anchor_micros += round(seconds * 1e6)
        if for_good:
            self._truth_micros += round(seconds * 1e6)

    def drift(self, rate: float) -> None:
        """Let the clock run faster or slower than time does."""
        self._settle()
        self._rate = rate

    def correct(self) -> None:
        """Set the clock right and let it run right."""
        self._settle()
        self._rate = 1.0
        self._anchor_micros = self._truth_micros + round(self._anchor_seconds * 1e6)

    def _settle(self) -> None:
        self._anchor_micros, self._anchor_seconds = self.micros(), self._loop.time()
