"""Where a zone's clock jumps, learned from nothing but what the zone says about single moments.

Python's zones keep their list of clock changes to themselves, so changes are found by comparing offsets and halving.
That is sound because no zone has ever changed its clock twice within `CALM`; a test holds the tz database to it.

Two kinds of naive `datetime` are passed around here: an *instant* is UTC, a *wall* is what a clock in the zone shows.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta, tzinfo
from typing import Final

#: Within this time there is at most one clock change (the shortest known summer time, Freetown 1939, had four days),
#: and no two offsets are further apart than this: Python's lie within a day on either side of UTC.
CALM: Final = timedelta(days=2)

_SECOND: Final = timedelta(seconds=1)


def wall_at(zone: tzinfo, instant: datetime) -> datetime:
    """Read the zone's clock; `fold` is 1 where it shows a time for the second time."""
    return zone.fromutc(instant.replace(tzinfo=zone)).replace(tzinfo=None)


def offset_of(zone: tzinfo, wall: datetime, *, fold: int) -> timedelta:
    """Say how far the clock is ahead of UTC when it shows `wall`.

    Where `wall` is repeated or jumped over, a fold of 0 means the offset before the change, 1 the one after it.
    """
    offset = wall.replace(tzinfo=zone, fold=fold).utcoffset()
    assert offset is not None, f"{zone!r} does not know its offset"
    return offset


def change_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """Find the first instant of the new offset, given whole seconds on both sides of one clock change."""
    offset = wall_at(zone, before) - before

    def has_changed(seconds: int) -> bool:
        instant = before + timedelta(seconds=seconds)
        return wall_at(zone, instant) - instant != offset

    return before + timedelta(seconds=bisect_left(range((after - before) // _SECOND), 1, key=has_changed))
