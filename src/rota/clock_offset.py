"""Clock offset: converts times of a remote clock to our monotonic clock.

A remote time arrives late, never early: our clock at arrival, less the time received, is the offset of the two clocks
plus the delay of the message. So the smallest of all such differences bounds the offset from above, and a moment
computed with it is never too early, and too late by at most the delay of the fastest message.

Clocks drift, so an older observation counts for a little less, at the rate at which clocks drift apart. The remote
clock may be set. If it is set ahead, the next message shows it. If it is set back, the answer to a request for the time
shows it: the remote clock was read after the request was sent, so the offset cannot be smaller than at that moment. A
message without a request is assumed not to be delayed that much; a larger difference discards all earlier observations.
"""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import Final

#: How far two clocks drift apart in a second, in seconds: as fast as `adjtime` lets a clock catch up.
DRIFT: Final = 5e-4
#: How much longer than the fastest message one without a request may take, in seconds, before a clock step is assumed.
LEAP_SECONDS: Final = 0.02
#: A time of this century as a float of seconds is exact to a quarter of this.
_RESOLUTION_SECONDS: Final = 1e-6


class ClockOffset:
    """The offset of one remote clock, from the times it has sent."""

    def __init__(self) -> None:
        self._offset = inf
        self._observed_at = -inf

    def observe(self, remote: datetime, arrived_at: float, asked_at: float | None = None) -> None:
        """Note a remote time, when it arrived by our clock, and when it was requested, if it was."""
        offset = arrived_at - remote.timestamp()
        known = self._offset + max(arrived_at - self._observed_at, 0.0) * DRIFT if self._offset < inf else inf
        least = offset - LEAP_SECONDS if asked_at is None else asked_at - remote.timestamp()
        self._offset = offset if known < least else min(known, offset)
        self._observed_at = arrived_at

    def local_time(self, remote: datetime) -> float:
        """Return the moment of our own clock at which a remote moment has certainly come; infinite without a time."""
        return remote.timestamp() + self._offset + _RESOLUTION_SECONDS
