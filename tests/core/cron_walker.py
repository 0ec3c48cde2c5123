"""A slow and simple cron as a test oracle: it steps through the clock tick by tick.

It shares no code with `rota.core.cron` and reads the rules on its own, as Debian's daemon plays them: a *virtual clock*
follows the clock on the wall but never goes back. A job with a star in its minute or hour looks at the wall. All others
look at the virtual clock, at every minute that it moves over, be it one or a whole gap of them.

Instants are whole seconds since 1970, in UTC. A tick is an instant at which the wall shows a whole minute (a whole
second for expressions of six fields). The walker reads valid expressions only and makes no attempt to refuse others.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

DAY = 86_400
#: No clock was ever set by more than a day, so what it showed longer ago can not matter.
MEMORY = 2 * DAY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = {
    **{name: str(number) for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))},
    **{name: str(number) for number, name in enumerate(_MONTHS, 1)},
}
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def moment_of(instant: int, zone: tzinfo = UTC) -> datetime:
    return (_EPOCH + timedelta(seconds=instant)).astimezone(zone)


def instant_of(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)


def offset_at(zone: tzinfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def stretches(zone: tzinfo, start: int, end: int, *, stride: int = 900) -> list[tuple[int, int, int]]:
    """Cut [start, end) into stretches (start, end, offset) of one offset each, by asking every `stride` seconds."""
    found: list[tuple[int, int, int]] = []
    begin, here, offset = start, start, offset_at(zone, start)
    while here < end:
        there = min(here + stride, end)
        if offset_at(zone, there) != offset:
            # First by minutes, then by seconds: some clocks once changed in the middle of a minute.
            there = next(at for at in range(here, there + 60, 60) if offset_at(zone, at) != offset)
            there = next(at for at in range(there - 59, there + 1) if offset_at(zone, at) != offset)
            found.append((begin, there, offset))
            begin, offset = there, offset_at(zone, there)
        here = there
    return [*found, (begin, end, offset)] if begin < end else found


class Walker:
    """One expression in one zone. `tick` may be made coarser where expression, zone and years allow it."""

    def __init__(self, expression: str, zone: tzinfo, *, tick: int | None = None) -> None:
        words = _ALIASES.get(expression.strip().lower(), expression).lower().split()
        self.zone = zone
        self.tick = tick or (60 if len(words) == 5 else 1)
        second, minute, hour, day, month, weekday = words if len(words) == 6 else ["0", *words]
        self._follows_wall = minute[0] == "*" or hour[0] == "*"
        self._either_day = day[0] != "*" and weekday[0] != "*"
        self._days, self._months = _numbers(day, 1, 31), _numbers(month, 1, 12)
        self._weekdays = {number % 7 for number in _numbers(weekday, 0, 7)}
        self._ticks_a_day = DAY // self.tick
        self._times = bytearray(self._ticks_a_day)
        for h, m, s in product(_numbers(hour, 0, 23), _numbers(minute, 0, 59), _numbers(second, 0, 59)):
            self._times[(h * 3600 + m * 60 + s) // self.tick] = 1
        self._known_days: dict[int, bool] = {}

    def fires(self, after: int, end: int, *, stride: int = 900) -> list[int]:
        """List the fire times within (after, end]."""
        return list(self.walk(after, end, stretches(self.zone, after - MEMORY, end + 1, stride=stride)))

    def first(self, after: int, limit: int) -> int | None:
        """Return the first fire time within (after, limit], walking only near days that match."""
        here = after
        while here < limit:
            there = min(here + DAY, limit)
            if any(self.matches_day((here + near * DAY) // DAY) for near in range(-3, 5)):
                parts = stretches(self.zone, here - MEMORY, there + 1)
                if (found := next(self.walk(here, there, parts), None)) is not None:
                    return found
            here = there
        return None

    def walk(self, after: int, end: int, parts: list[tuple[int, int, int]]) -> Iterator[int]:
        tick, virtual = self.tick, -(10**12)
        for begin, stop, offset in parts:
            wall = -(-(begin + offset) // tick)
            last = (min(stop - 1, end) + offset) // tick
            seen = min((after + offset) // tick, last)
            if seen >= wall:
                # Before the walk begins nothing fires; only where the virtual clock has got to matters.
                virtual, wall = max(virtual, seen), seen + 1
            shown = self._fires_on_wall(wall, last) if self._follows_wall else self._fires_once(virtual, wall, last)
            virtual = max(virtual, last)
            for now in shown:
                yield now * tick - offset

    def _fires_on_wall(self, wall: int, last: int) -> Iterator[int]:
        times, ticks_a_day = self._times, self._ticks_a_day
        for now in range(wall, last + 1):
            if times[now % ticks_a_day] and self.matches_day(now // ticks_a_day):
                yield now

    def _fires_once(self, virtual: int, wall: int, last: int) -> Iterator[int]:
        # The virtual clock stands still while the wall repeats itself, and moves over all that the wall leaves out.
        wall = max(wall, virtual + 1)
        if wall <= last and next(self._fires_on_wall(virtual + 1, wall - 1), None) is not None:
            yield wall
            wall += 1
        yield from self._fires_on_wall(wall, last)

    def matches_day(self, day: int) -> bool:
        known = self._known_days.get(day)
        if known is None:
            known = self._known_days[day] = self._look_at(date.fromordinal(day + _EPOCH_DAY))
        return known

    def _look_at(self, day: date) -> bool:
        by_day, by_weekday = day.day in self._days, day.isoweekday() % 7 in self._weekdays
        fits = (by_day or by_weekday) if self._either_day else (by_day and by_weekday)
        return fits and day.month in self._months


def _numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        else:
            ends = [int(_NAMES.get(end, end)) for end in span.split("-")]
            first, last = ends[0], ends[-1]
        found.update(range(first, last + 1, int(step or 1)))
    return found
