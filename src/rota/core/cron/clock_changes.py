"""Effects of the clock changes of a zone on a rule, for the preview of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Final

from rota.core.cron.expression import CronExpression
from rota.core.cron.fire_times import MIN_CHANGE_GAP, SECOND, Every, WallClock, change_between

#: How far ahead clock changes are looked for: a summer time lies in every such span.
LOOK_AHEAD: Final = timedelta(days=366)
_MOST_TIMES: Final = 500
_DAY_FORMAT: Final = "%d %B %Y"


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A clock change that affects a rule. `local_time` is the first affected time on the wall, without an offset.

    `runs` are the fire times that come instead: none, one, or two.
    """

    at: datetime
    is_gap: bool
    local_time: datetime
    runs: tuple[datetime, ...]

    @property
    def text(self) -> str:
        """What happens, in a sentence."""
        wall, day = f"{self.local_time:%H:%M}", f"{self.local_time:{_DAY_FORMAT}}".lstrip("0")
        if self.is_gap:
            ends = f"it runs at {self.runs[0]:%H:%M}" if self.runs else "it does not run then"
            return f"{wall} does not exist on {day}: {ends}"
        ends = "it runs both times" if len(self.runs) > 1 else "it runs the first time only"
        return f"{wall} comes twice on {day}: {ends}"


def clock_changes(expression: CronExpression, zone: tzinfo, after: datetime) -> list[ClockChange]:
    """Find the clock changes within a year after a moment that change when a rule fires."""
    if isinstance(expression.rule, Every):
        return []
    return [effect for change in _changes(zone, after.astimezone(UTC)) if (effect := _effect(expression, zone, change))]


def _changes(zone: tzinfo, after: datetime) -> list[datetime]:
    """Find the instants at which the offset of a zone changes."""
    changes: list[datetime] = []
    before, end = after.replace(microsecond=0), after + LOOK_AHEAD
    while before < end:
        later = before + MIN_CHANGE_GAP
        if before.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            changes.append(change_between(zone, before, later))
        before = later
    return changes


def _effect(expression: CronExpression, zone: tzinfo, change: datetime) -> ClockChange | None:
    """Compare the times that a rule means with those at which it fires around a change."""
    old, new = (moment.astimezone(zone).replace(tzinfo=UTC) for moment in (change - SECOND, change))
    old += SECOND
    is_gap = new > old
    first, last = min(old, new), max(old, new)
    # As in a zone without changes: what the rule means.
    intended = _between(expression, first - SECOND, last)
    is_continuous = isinstance(expression.rule, WallClock) and bool(
        _between(expression, last - SECOND, last + (last - first))
    )
    if not intended or is_continuous:
        return None
    length = last - first
    runs = _between(expression, (change - (SECOND if is_gap else length + SECOND)).astimezone(zone), change + length)
    if is_gap:
        runs = [] if isinstance(expression.rule, WallClock) else runs[:1]
    else:
        wall = intended[0].replace(tzinfo=None)
        runs = [one for one in runs if one.replace(tzinfo=None) == wall]
    return ClockChange(change, is_gap, intended[0].replace(tzinfo=None), tuple(runs))


def _between(expression: CronExpression, after: datetime, before: datetime) -> list[datetime]:
    """Return fire times after one moment and before another; some hundred at most."""
    times = expression.preview(after, _MOST_TIMES)
    end = before.astimezone(UTC)
    return list(takewhile(lambda one: one.astimezone(UTC) < end, times))
