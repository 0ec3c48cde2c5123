"""Fire times when clocks are put forward and back, as a table that can be checked with a calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from rota.core.cron import parse
from rota.core.errors import InvalidRequest

BERLIN = "Europe/Berlin"  # 2026-03-29 02:00 -> 03:00, 2026-10-25 03:00 -> 02:00
ST_JOHNS = "America/St_Johns"  # 2010-11-07 00:01 -> 23:01 of the day before
APIA = "Pacific/Apia"  # after 2011-12-29 comes 2011-12-31
KWAJALEIN = "Pacific/Kwajalein"  # 1969-10-01 00:00 -> 1969-09-30 01:00; after 1993-08-20 comes 1993-08-22
SAO_PAULO = "America/Sao_Paulo"  # 2018-11-04 00:00 -> 01:00
PYONGYANG = "Asia/Pyongyang"  # 2018-05-04 23:30 -> 2018-05-05 00:00, for good
CARACAS = "America/Caracas"  # 2007-12-09 03:00 -> 02:30, for good
MONROVIA = "Africa/Monrovia"  # 1972-01-07 00:00:00 -> 00:44:30, the last odd seconds in the world
EL_AAIUN = "Africa/El_Aaiun"  # puts its clock back for Ramadan and forward again: 2026-02-15 and 2026-03-22

CASES = [
    # A fixed time inside a gap fires once, at the first minute after it.
    ("30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
    # So do several of them together, and together with a regular one at that minute.
    ("0,30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
    ("0,30 2,3 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"]),
    ("59 1,2 * * *", BERLIN, "2026-03-29T01:58+01:00", ["2026-03-29T01:59+01:00", "2026-03-29T03:00+02:00"]),
    # The edges of a gap: its first minute is inside, its end is outside.
    ("0 2 * * *", BERLIN, "2026-03-29T01:59+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
    ("0 3 * * *", BERLIN, "2026-03-29T01:59+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T03:00+02:00"]),
    # What follows the wall leaves a gap out.
    ("*/30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-30T02:00+02:00", "2026-03-30T02:30+02:00"]),
    ("30 * * * *", BERLIN, "2026-03-29T01:00+01:00", ["2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"]),
    # A fixed time inside an overlap fires the first time only, from wherever one asks.
    ("30 2 * * *", BERLIN, "2026-10-24T12:00+02:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
    ("30 2 * * *", BERLIN, "2026-10-25T02:45+02:00", ["2026-10-26T02:30+01:00"]),
    ("30 2 * * *", BERLIN, "2026-10-25T02:10+01:00", ["2026-10-26T02:30+01:00"]),
    ("30 2,3 * * *", BERLIN, "2026-10-25T02:10+01:00", ["2026-10-25T03:30+01:00", "2026-10-26T02:30+01:00"]),
    ("0 3 * * *", BERLIN, "2026-10-25T02:59:59+02:00", ["2026-10-25T03:00+01:00"]),
    # What follows the wall fires each time the wall shows it.
    (
        "*/30 2 * * *",
        BERLIN,
        "2026-10-24T12:00+02:00",
        [
            "2026-10-25T02:00+02:00",
            "2026-10-25T02:30+02:00",
            "2026-10-25T02:00+01:00",
            "2026-10-25T02:30+01:00",
            "2026-10-26T02:00+01:00",
        ],
    ),
    # An overlap over midnight shows the end of a day again after the next day has begun.
    ("30 23 * * *", ST_JOHNS, "2010-11-06T12:00-02:30", ["2010-11-06T23:30-02:30", "2010-11-07T23:30-03:30"]),
    ("0 0 * * *", ST_JOHNS, "2010-11-06T12:00-02:30", ["2010-11-07T00:00-02:30", "2010-11-08T00:00-03:30"]),
    ("30 23 6 11 *", ST_JOHNS, "2010-11-07T00:00:30-02:30", ["2011-11-06T23:30-03:30"]),
    ("30 * 6 11 *", ST_JOHNS, "2010-11-07T00:00:30-02:30", ["2010-11-06T23:30-03:30", "2011-11-06T00:30-02:30"]),
    (
        "*/30 * * * *",
        ST_JOHNS,
        "2010-11-06T23:40-02:30",
        ["2010-11-07T00:00-02:30", "2010-11-06T23:30-03:30", "2010-11-07T00:00-03:30", "2010-11-07T00:30-03:30"],
    ),
    # A gap at midnight.
    ("0 0 * * *", SAO_PAULO, "2018-11-03T12:00-03:00", ["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"]),
    ("0 0 4 11 *", SAO_PAULO, "2018-11-03T12:00-03:00", ["2018-11-04T01:00-02:00", "2019-11-04T00:00-03:00"]),
    # A day that does not exist.
    ("0 12 * * *", APIA, "2011-12-29T20:00-10:00", ["2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"]),
    ("0 0 * * *", APIA, "2011-12-29T20:00-10:00", ["2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"]),
    ("15 7 30 12 *", APIA, "2011-12-29T20:00-10:00", ["2011-12-31T00:00+14:00", "2012-12-30T07:15+14:00"]),
    ("0 6 * * FRI", APIA, "2011-12-29T20:00-10:00", ["2011-12-31T00:00+14:00", "2012-01-06T06:00+14:00"]),
    ("* * 30 12 *", APIA, "2011-12-29T20:00-10:00", ["2012-12-30T00:00+14:00", "2012-12-30T00:01+14:00"]),
    ("0 * * * *", APIA, "2011-12-29T22:30-10:00", ["2011-12-29T23:00-10:00", "2011-12-31T00:00+14:00"]),
    ("0 9 * * *", KWAJALEIN, "1993-08-20T12:00-12:00", ["1993-08-22T00:00+12:00", "1993-08-22T09:00+12:00"]),
    # A day that comes twice.
    ("0 12 * * *", KWAJALEIN, "1969-09-30T00:00+11:00", ["1969-09-30T12:00+11:00", "1969-10-01T12:00-12:00"]),
    (
        "0 */12 * * *",
        KWAJALEIN,
        "1969-09-30T00:00+11:00",
        ["1969-09-30T12:00+11:00", "1969-09-30T12:00-12:00", "1969-10-01T00:00-12:00"],
    ),
    # Changes that are no summer time.
    ("45 23 * * *", PYONGYANG, "2018-05-04T20:00+08:30", ["2018-05-05T00:00+09:00", "2018-05-05T23:45+09:00"]),
    ("45 2 * * *", CARACAS, "2007-12-09T00:00-04:00", ["2007-12-09T02:45-04:00", "2007-12-10T02:45-04:30"]),
    ("45 * 9 * *", CARACAS, "2007-12-09T02:30-04:00", ["2007-12-09T02:45-04:00", "2007-12-09T02:45-04:30"]),
    # Two changes within weeks, the clock going back first.
    ("30 2 15,16 2 *", EL_AAIUN, "2026-02-14T00:00+01:00", ["2026-02-15T02:30+01:00", "2026-02-16T02:30+00:00"]),
    ("30 2 22,23 3 *", EL_AAIUN, "2026-03-21T00:00+00:00", ["2026-03-22T03:00+01:00", "2026-03-23T02:30+01:00"]),
    # A gap that ends in the middle of a minute: whole minutes for five fields, whole seconds for six.
    ("10 0 * * *", MONROVIA, "1972-01-06T12:00-00:44:30", ["1972-01-07T00:45+00:00", "1972-01-08T00:10+00:00"]),
    ("10 0 * * *", MONROVIA, "1972-01-07T00:44:50+00:00", ["1972-01-07T00:45+00:00"]),
    ("44 0 * * *", MONROVIA, "1972-01-07T00:44:30+00:00", ["1972-01-07T00:45+00:00"]),
    ("59 23 * * *", MONROVIA, "1972-01-07T00:44:50+00:00", ["1972-01-07T23:59+00:00"]),
    ("0 10 0 * * *", MONROVIA, "1972-01-06T12:00-00:44:30", ["1972-01-07T00:44:30+00:00"]),
    ("* * * * *", MONROVIA, "1972-01-06T23:59-00:44:30", ["1972-01-07T00:45+00:00", "1972-01-07T00:46+00:00"]),
    ("*/10 * * * * *", MONROVIA, "1972-01-06T23:59:50-00:44:30", ["1972-01-07T00:44:30+00:00"]),
    # Seconds follow the same rules; only the minute and the hour decide which.
    ("15 30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30:15+02:00"]),
    ("*/30 30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
    ("*/30 30 2 * * *", BERLIN, "2026-10-25T02:30:10+02:00", ["2026-10-25T02:30:30+02:00", "2026-10-26T02:30+01:00"]),
    ("30 * 2 * * *", BERLIN, "2026-10-25T02:59+02:00", ["2026-10-25T02:59:30+02:00", "2026-10-25T02:00:30+01:00"]),
]


@pytest.mark.parametrize(("text", "zone", "after", "expected"), CASES)
def test_clock_changes(text: str, zone: str, after: str, expected: list[str]) -> None:
    start = datetime.fromisoformat(after).astimezone(ZoneInfo(zone))
    assert start.utcoffset() == datetime.fromisoformat(after).utcoffset(), "the case names a time that does not exist"

    found = parse(text).preview(start, len(expected))

    assert [moment.isoformat() for moment in found] == [
        datetime.fromisoformat(moment).isoformat() for moment in expected
    ]


def test_the_answer_is_in_the_zone_that_was_asked_in_with_fold_set() -> None:
    zone = ZoneInfo(BERLIN)

    found = parse("30 * * * *").next(datetime(2026, 10, 25, 2, 30, tzinfo=zone))

    assert found.tzinfo is zone
    assert found == datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zone)
    assert found.fold == 1
    assert found.astimezone(UTC) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_a_moment_that_does_not_exist_is_read_as_the_instant_python_takes_it_for() -> None:
    nonexistent = datetime(2026, 3, 29, 2, 45, tzinfo=ZoneInfo(BERLIN))  # the same as 03:45

    assert parse("30 2,3 * * *").next(nonexistent).isoformat() == "2026-03-30T02:30:00+02:00"


def test_zones_without_a_name_will_do() -> None:
    zone = timezone(timedelta(hours=5, minutes=45))

    assert parse("0 0 * * *").next(datetime(2026, 1, 1, tzinfo=zone)).isoformat() == "2026-01-02T00:00:00+05:45"
    assert parse("*/5 * * * *").next(datetime(2026, 1, 1, tzinfo=UTC)).isoformat() == "2026-01-01T00:05:00+00:00"


class OddJump(tzinfo):
    """A clock that is put forward from 00:00:10 to 00:01:25 on 2000-01-01. No place on earth was ever as odd."""

    CHANGE = datetime(2000, 1, 1, 0, 0, 10)  # noqa: DTZ001 - what the clock shows
    JUMP = timedelta(seconds=75)

    def utcoffset(self, moment: datetime | None) -> timedelta:
        assert moment is not None
        wall = moment.replace(tzinfo=None)
        has_jumped = wall >= (self.CHANGE if moment.fold else self.CHANGE + self.JUMP)
        return self.JUMP if has_jumped else timedelta(0)

    def fromutc(self, moment: datetime) -> datetime:
        return moment + self.JUMP if moment.replace(tzinfo=None) >= self.CHANGE else moment

    def dst(self, _moment: datetime | None) -> None:
        return None

    def tzname(self, _moment: datetime | None) -> str:
        return "odd"


@pytest.mark.parametrize("second", [25, 30, 59])
def test_a_jump_within_a_minute_neither_repeats_nor_loses_a_fire_time(second: int) -> None:
    after = datetime(2000, 1, 1, 0, 1, second, tzinfo=OddJump())

    assert parse("0,1 0 * * *").next(after).replace(tzinfo=None).isoformat() == "2000-01-01T00:02:00"
    assert parse("0 0 * * *").next(after).replace(tzinfo=None).isoformat() == "2000-01-02T00:00:00"


def test_a_fraction_of_a_second_does_not_skip_or_repeat() -> None:
    expression = parse("* * * * * *")
    fire = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)

    assert expression.next(fire - timedelta(microseconds=1)) == fire
    assert expression.next(fire) == fire + timedelta(seconds=1)
    assert expression.next(fire + timedelta(microseconds=999_999)) == fire + timedelta(seconds=1)


def test_a_naive_moment_is_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the point of the test

    for ask in (parse("* * * * *").next, lambda moment: parse("@every 5m").preview(moment, 3)):
        with pytest.raises(InvalidRequest, match="2026-01-01T00:00:00 has no time zone; pass an aware") as refusal:
            ask(naive)
        assert refusal.value.field == "after"


RULES = ["* * * * *", "0 0 1 1 *", "0 12 * * *", "30 4 * 6 *", "* * 29 2 */7", "59 59 23 31 12 *", "@every 366d"]


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", BERLIN])
@pytest.mark.parametrize("days_left", [0, 1, 2, 3, 30, 400])
def test_counting_ends_where_the_calendar_ends(text: str, zone: str, days_left: int) -> None:
    expression = parse(text)
    end = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
    after = (end - timedelta(days=days_left)).astimezone(ZoneInfo(zone))

    for found in expression.preview(after, 1000):
        assert found.astimezone(UTC) > after.astimezone(UTC)
        after = found
    if len(expression.preview(after, 1)) == 0:
        with pytest.raises(
            InvalidRequest, match=r"fires no more after .*: the calendar ends with the year 9999"
        ) as end_of_time:
            expression.next(after)
        assert end_of_time.value.field == "after"


def test_the_last_minute_of_all_is_still_found() -> None:
    last = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)

    assert parse("* * * * *").next(last - timedelta(minutes=1)) == last
    assert parse("59 23 31 12 *").next(last - timedelta(days=300)) == last
    assert parse("* * * * *").preview(last - timedelta(minutes=2), 10) == [last - timedelta(minutes=1), last]


@pytest.mark.parametrize("text", RULES)
def test_counting_begins_where_the_calendar_begins(text: str) -> None:
    for zone in ("UTC", "Pacific/Kiritimati", "America/New_York"):
        first = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
        assert parse(text).next(first.astimezone(ZoneInfo(zone))).year >= 1
    with pytest.raises(InvalidRequest, match="outside the years 1 to 9999"):
        parse(text).next(datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo")))


def test_a_preview_of_nothing_is_empty() -> None:
    assert parse("* * * * *").preview(datetime(2026, 1, 1, tzinfo=UTC), 0) == []
