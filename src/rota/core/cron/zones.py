"""Where a zone's clock jumps, learned from nothing but what the zone says about single moments.

Python's zones keep their list of clock changes to themselves, so changes are found by comparing offsets and halving.
That is sound because no zone has ever changed its clock twice within `CALM`; a test holds the tz database to it.

Two kinds of `datetime` are passed around in the cron room. An *instant* is in UTC. A *wall* is in the zone: Python
compares and subtracts such values by what the clock shows, blind to offsets, and that is just what is wanted of them.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta, tzinfo
from typing import Final

SECOND: Final = timedelta(seconds=1)

#: Within this time there is at most one clock change (the shortest known summer time, Freetown 1939, had four days),
#: and no two offsets are further apart than this: Python's lie within a day on either side of UTC.
CALM: Final = timedelta(days=2)


def change_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """Find the first instant of the new offset, given instants in whole seconds on both sides of one clock change."""
    offset = before.astimezone(zone).utcoffset()

    def has_changed(seconds: int) -> bool:
        return (before + timedelta(seconds=seconds)).astimezone(zone).utcoffset() != offset

    return before + timedelta(seconds=bisect_left(range((after - before) // SECOND), 1, key=has_changed))
