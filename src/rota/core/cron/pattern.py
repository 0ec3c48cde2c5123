"""Matching of wall-clock times, without any zone: the calendar half of cron.

A `Pattern` finds the first matching time from a given one on, by jumping from field to field. It handles leap years and
weekdays; clock changes are in `fire_times`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime
from typing import Final

#: Six weeks side by side: a set of weekdays times this is the set of matching days from any Sunday on.
_SIX_WEEKS: Final = sum(1 << 7 * week for week in range(6))
_FEBRUARY: Final = 2
_LONGEST_LENGTHS: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DECEMBER: Final = 12


def _lowest(bits: int) -> int:
    """Return the smallest member of a set, or -1 of the empty one."""
    return (bits & -bits).bit_length() - 1


def _lowest_from(bits: int, start: int) -> int:
    """Return the smallest member that is not below `start`, or -1."""
    return _lowest(bits >> start << start)


def _days_up_to(length: int) -> int:
    return (2 << length) - 2


@dataclass(frozen=True, slots=True)
class Pattern:
    """Sets of matching seconds, minutes, hours, days, months and weekdays (Sunday is 0), each as a bit mask.

    `either_day` says that one matching day field is enough; otherwise both must match. `has_seconds` says that the
    expression has a field for seconds.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    either_day: bool
    has_seconds: bool

    def occurs(self) -> bool:
        """Whether any date matches at all.

        Weekdays need no check: every date, 29 February too, falls on each of them within the calendar's 400 years.
        """
        return self.either_day or any(
            self.months >> month & 1 and self.days & _days_up_to(length)
            for month, length in enumerate(_LONGEST_LENGTHS)
        )

    def first_from(self, wall: datetime) -> datetime:
        """Return the first match at or after `wall`, in whole seconds; OverflowError if none is left."""
        year, month, day, zone = wall.year, wall.month, wall.day, wall.tzinfo
        if self.months >> month & 1 and self._days_in(year, month) >> day & 1:
            hour, minute, second = self._first_time_from(wall.hour, wall.minute, wall.second)
            if hour >= 0:
                return datetime(year, month, day, hour, minute, second, 0, zone)
        year, month, day = self._first_day_after(year, month, day)
        return datetime(year, month, day, _lowest(self.hours), _lowest(self.minutes), _lowest(self.seconds), 0, zone)

    def _first_time_from(self, hour: int, minute: int, second: int) -> tuple[int, int, int]:
        """Find the first matching time of day; the hour is -1 when the day has none left."""
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (match := _lowest_from(self.seconds, second)) >= 0:
                return hour, minute, match
            if (match := _lowest_from(self.minutes, minute + 1)) >= 0:
                return hour, match, _lowest(self.seconds)
        return _lowest_from(self.hours, hour + 1), _lowest(self.minutes), _lowest(self.seconds)

    def _first_day_after(self, year: int, month: int, day: int) -> tuple[int, int, int]:
        """Find the next matching date. At most 40 years away, as 29 February on one given weekday is."""
        day += 1
        while year <= MAXYEAR:
            if self.months >> month & 1 and (match := _lowest_from(self._days_in(year, month), day)) >= 0:
                return year, month, match
            day = 1
            month = _lowest_from(self.months, month + 1)
            if month < 0:
                year, month = year + 1, _lowest(self.months)
        raise OverflowError("the calendar ends with the year 9999")

    def _days_in(self, year: int, month: int) -> int:
        """Return the set of matching days of one month."""
        starts_on = date(year, month, 1).isoweekday() % 7
        by_weekday = (self.weekdays * _SIX_WEEKS) >> starts_on << 1
        matching = self.days | by_weekday if self.either_day else self.days & by_weekday
        return matching & _days_up_to(_length(year, month))


def _length(year: int, month: int) -> int:
    if month == _FEBRUARY and (year % 4 or (year % 100 == 0 and year % 400)):
        return 28
    return _LONGEST_LENGTHS[month]
