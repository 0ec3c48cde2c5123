"""Fire times: the next one as an instant, from the calendar pattern and the clock changes of a zone.

Each rule has `next_instant(after, zone)`, in whole seconds of UTC. The package's docstring defines the kinds of rule.

The cron package uses two kinds of `datetime`. An *instant* is in UTC. A *wall* is in the zone: Python compares and
subtracts such values by what the clock shows, ignoring offsets, as needed here.

Python's zones do not expose their list of clock changes, so a change is found by comparing UTC offsets and bisection.
Bisection is correct because no zone has ever changed its clock twice within `MIN_CHANGE_GAP`; a test checks the tz
database for that.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from rota.core.cron.pattern import Pattern
from rota.core.time import EPOCH


@dataclass(frozen=True, slots=True)
class Every:
    """Fires at whole multiples of `interval` since 1970."""

    interval: timedelta

    def next_instant(self, after: datetime, zone: tzinfo) -> datetime:  # noqa: ARG002 - an interval has no zone
        return after + (self.interval - (after - EPOCH) % self.interval)


@dataclass(frozen=True, slots=True)
class WallClock:
    """Fires whenever the clock shows a matching time, however often that is."""

    pattern: Pattern

    def next_instant(self, after: datetime, zone: tzinfo) -> datetime:
        """Return the first matching instant after `after`.

        Between two clock changes wall and instant advance together, so the pattern alone finds the next match. The loop
        goes from change to change until the match lies before the next one. A distant match is approached in two
        steps, because only changes within `MIN_CHANGE_GAP` of either end can cause an earlier match.
        """
        here, wall = after, after.astimezone(zone)
        match = self.pattern.first_from(wall + SECOND)
        while True:
            fire = here + (match - wall)
            horizon = fire if fire - here <= MIN_CHANGE_GAP else here + MIN_CHANGE_GAP
            if horizon.astimezone(zone).utcoffset() != wall.utcoffset():
                here = change_between(zone, here, horizon)
            elif horizon == fire:
                return fire
            else:
                here = max(horizon, fire - MIN_CHANGE_GAP)
            wall = here.astimezone(zone)
            match = self.pattern.first_from(wall)


@dataclass(frozen=True, slots=True)
class FixedTime:
    """Fires once for each matching time, when the clock first reaches or passes it."""

    pattern: Pattern

    def next_instant(self, after: datetime, zone: tzinfo) -> datetime:
        """Return the first instant after `after` at which the clock reaches or passes a time not passed before."""
        match = self.pattern.first_from(self._first_not_passed(after, zone))
        fire = self._reached(match, zone)
        # Taken only when the clock jumps in the middle of a minute and `after` is in what is left of that minute.
        while fire <= after:
            match = self.pattern.first_from(match + SECOND)
            fire = self._reached(match, zone)
        return fire

    def _first_not_passed(self, instant: datetime, zone: tzinfo) -> datetime:
        """Return the wall time from which on times may still fire after `instant`."""
        wall = instant.astimezone(zone)
        if wall.fold:
            # All that is shown until the end of the overlap was shown before.
            first_time = wall.replace(fold=0)
            change = change_between(zone, first_time.astimezone(UTC), instant)
            return first_time + (change - first_time.astimezone(UTC))
        if wall.second and not self.pattern.has_seconds:
            # When the clock jumped within this minute, nothing of what it jumped over has fired yet.
            since = timedelta(seconds=wall.second)
            shown = (instant - since).astimezone(zone)
            if wall - shown != since:
                return shown
        return wall + SECOND

    def _reached(self, wall: datetime, zone: tzinfo) -> datetime:
        """Return when the clock first shows `wall`, or the first whole minute or second after the gap that skips it."""
        instant = wall.astimezone(UTC)
        if instant.astimezone(zone) == wall:
            return instant
        change = change_between(zone, wall.replace(fold=1).astimezone(UTC), instant)
        odd_seconds = 0 if self.pattern.has_seconds else -change.astimezone(zone).second % 60
        return change + timedelta(seconds=odd_seconds)


SECOND: Final = timedelta(seconds=1)

#: Within this time there is at most one clock change (the shortest known summer time, Freetown 1939, had four days),
#: and no two offsets are further apart than this: Python's lie within a day on either side of UTC.
MIN_CHANGE_GAP: Final = timedelta(days=2)


def change_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """Find the first instant of the new offset, given instants in whole seconds on both sides of one clock change."""
    offset = before.astimezone(zone).utcoffset()

    def has_changed(seconds: int) -> bool:
        return (before + timedelta(seconds=seconds)).astimezone(zone).utcoffset() != offset

    return before + timedelta(seconds=bisect_left(range((after - before) // SECOND), 1, key=has_changed))
