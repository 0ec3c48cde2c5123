"""A parsed cron expression: a rule with its source text."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from rota.core.cron.fire_times import Every, FixedTime, WallClock
from rota.core.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A recurring rule that counts forward from any moment, in the zone of that moment.

    Two expressions are equal when they mean the same, however they are written: ``@weekly`` equals ``0 0 * * SUN``.
    Equal expressions fire at the same times in every zone.
    """

    #: The source with single spaces, upper-case names and lower-case aliases. Parsing it again gives an equal value.
    text: str = field(compare=False)
    rule: Every | WallClock | FixedTime

    def __str__(self) -> str:
        return self.text

    def next(self, after: datetime) -> datetime:
        """Return the first fire time strictly after `after`, in the same zone, in whole seconds.

        Compare and subtract fire times in UTC: Python ignores `fold` between two moments of one zone.
        """
        zone, instant = _instant_of(after)
        try:
            return self.rule.next_instant(instant, zone).astimezone(zone)
        except OverflowError:
            raise InvalidRequest(
                f"cron {self.text!r} fires no more after {after.isoformat()}: the calendar ends with the year 9999",
                field="after",
            ) from None

    def preview(self, after: datetime, count: int) -> list[datetime]:
        """Return the next `count` fire times, fewer when the calendar ends before."""
        zone, instant = _instant_of(after)
        times: list[datetime] = []
        try:
            while len(times) < count:
                instant = self.rule.next_instant(instant, zone)
                times.append(instant.astimezone(zone))
        except OverflowError:
            pass
        return times


def _instant_of(moment: datetime) -> tuple[tzinfo, datetime]:
    """Split an aware moment into its zone and its instant, cut to whole seconds as all fire times are."""
    zone = moment.tzinfo
    if zone is None or moment.utcoffset() is None:
        raise InvalidRequest(
            f"cron: {moment.isoformat()} has no time zone; pass an aware datetime in the zone of the schedule",
            field="after",
        )
    try:
        instant = moment.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(
            f"cron: {moment.isoformat()} lies outside the years 1 to 9999 in UTC; pass a moment within them",
            field="after",
        ) from None
    return zone, instant.replace(microsecond=0) if instant.microsecond else instant
