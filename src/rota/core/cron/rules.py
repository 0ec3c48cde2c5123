"""When a rule fires next, as an instant: the calendar and the clock changes put together.

Each rule answers `next_instant(after, zone)`. Instants are naive UTC in whole seconds. What the kinds of rule mean is
told in the package's docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from rota.core.cron.pattern import Pattern
from rota.core.cron.zones import CALM, change_between, offset_of, wall_at

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - instants are naive UTC here


@dataclass(frozen=True, slots=True)
class Every:
    """Fires at `anchor` plus whole multiples of `interval`, before the anchor as well as after it."""

    interval: timedelta
    anchor: datetime = EPOCH

    def next_instant(self, after: datetime, zone: tzinfo) -> datetime:  # noqa: ARG002 - an interval has no zone
        """Give the first multiple after `after`."""
        return after + self.interval - (after - self.anchor) % self.interval


@dataclass(frozen=True, slots=True)
class WallClock:
    """Fires whenever the clock shows a matching time, however often that is."""

    pattern: Pattern

    def next_instant(self, after: datetime, zone: tzinfo) -> datetime:
        """Give the first matching instant after `after`.

        Between two clock changes the wall and the instant run alike, so the pattern alone finds the next match. We go
        from change to change until the match found lies before the next one. A match far away is approached in two
        leaps, because only changes within `CALM` of either end can bring an earlier match.
        """
        pattern = self.pattern
        here, wall = after, wall_at(zone, after)
        wanted = pattern.first_from(pattern.floor(wall) + pattern.unit)
        while True:
            fire = here + (wanted - wall)
            horizon = fire if fire - here <= CALM else here + CALM
            if wall_at(zone, horizon) - horizon != wall - here:
                here = change_between(zone, here, horizon)
            elif horizon == fire:
                return fire
            else:
                here = max(horizon, fire - CALM)
            wall = wall_at(zone, here)
            wanted = pattern.first_from(pattern.ceiling(wall))


@dataclass(frozen=True, slots=True)
class FixedTime:
    """Fires once for each matching time, when the clock first reaches or passes it."""

    pattern: Pattern

    def next_instant(self, after: datetime, zone: tzinfo) -> datetime:
        """Give the first instant after `after` at which the clock reaches or passes a time it has not passed before."""
        pattern = self.pattern
        wanted = pattern.first_from(self._first_not_passed(after, zone))
        fire = self._reached(wanted, zone)
        # More than once only when a zone jumps by odd seconds, as local mean times did, and `after` is in that minute.
        while fire <= after:
            wanted = pattern.first_from(wanted + pattern.unit)
            fire = self._reached(wanted, zone)
        return fire

    def _first_not_passed(self, instant: datetime, zone: tzinfo) -> datetime:
        """Give the earliest whole unit on the wall that the clock may not have passed yet at `instant`."""
        wall = wall_at(zone, instant)
        if wall.fold:
            # All that is shown until the end of the overlap was shown before.
            offset_before = offset_of(zone, wall, fold=0)
            repeated = offset_before - (wall - instant)
            change = change_between(zone, instant - repeated, instant)
            return self.pattern.ceiling(change + offset_before)
        whole = self.pattern.floor(wall)
        since = wall - whole
        # When the clock jumped within this minute, the last whole minute that it showed lies before the jump.
        shown = wall_at(zone, instant - since) if since else whole
        return whole + self.pattern.unit if shown == whole else self.pattern.ceiling(shown)

    def _reached(self, wall: datetime, zone: tzinfo) -> datetime:
        """Say when the clock first shows `wall`, or the first whole unit after the gap that swallows it."""
        offset = offset_of(zone, wall, fold=0)
        instant = wall - offset
        if wall_at(zone, instant) == wall:
            return instant
        change = change_between(zone, wall - offset_of(zone, wall, fold=1), instant)
        shown = wall_at(zone, change)
        return change + (self.pattern.ceiling(shown) - shown)
