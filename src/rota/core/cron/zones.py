"""Clock changes of a time zone, found by comparing UTC offsets and bisection.

Python's zones do not expose their list of clock changes. Bisection is correct because no zone has ever changed its
clock twice within `CALM`; a test checks the tz database for that.

The cron package uses two kinds of `datetime`. An *instant* is in UTC. A *wall* is in the zone: Python compares and
subtracts such values by what the clock shows, ignoring offsets, as needed here.
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
