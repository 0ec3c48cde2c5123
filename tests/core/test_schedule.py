"""When a schedule fires: start, end, zones, jitter, blackouts."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import moments, schedule, unhurried, utc
from rota.core.errors import InvalidCron, InvalidRequest
from rota.core.ids import ScheduleId
from rota.core.schedule import Blackout, Schedule, rule_of, zone_of
from rota.core.time import MICROSECOND

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)

NEXT = [
    # rule, zone, start, end, after, next
    ("0 * * * *", "UTC", None, None, "2026-03-01 11:30", "2026-03-01 12:00"),
    ("0 * * * *", "UTC", None, None, "2026-03-01 12:00", "2026-03-01 13:00"),
    ("0 * * * *", "UTC", None, None, "2026-03-01 11:59:59.999999", "2026-03-01 12:00"),
    ("0 8 * * *", "Europe/Berlin", None, None, "2026-03-28 12:00", "2026-03-29 06:00"),
    ("0 8 * * *", "Europe/Berlin", None, None, "2026-03-27 12:00", "2026-03-28 07:00"),
    ("30 2 * * *", "Europe/Berlin", None, None, "2026-03-28 12:00", "2026-03-29 01:00"),
    # It may fire at its very start, and at its very end.
    ("0 * * * *", "UTC", "2026-03-01 12:00", None, "2026-01-01 00:00", "2026-03-01 12:00"),
    ("0 * * * *", "UTC", "2026-03-01 12:00:00.000001", None, "2026-01-01 00:00", "2026-03-01 13:00"),
    ("0 * * * *", "UTC", "2026-03-01 12:00", None, "2026-03-01 12:00", "2026-03-01 13:00"),
    ("0 * * * *", "UTC", None, "2026-03-01 12:00", "2026-03-01 11:00", "2026-03-01 12:00"),
    ("0 * * * *", "UTC", None, "2026-03-01 11:59:59.999999", "2026-03-01 11:00", None),
    ("0 * * * *", "UTC", None, "2026-03-01 12:00", "2026-03-01 12:00", None),
    ("0 * * * *", "UTC", "2026-03-01 12:30", "2026-03-01 12:45", "2026-01-01 00:00", None),
    ("@every 90s", "Asia/Kathmandu", None, None, "2026-03-01 12:00", "2026-03-01 12:01:30"),
]
NO_ZONES = [
    "",
    " ",
    "Mars/Olympus",
    "Europe",
    "europe/berlin/x",
    "../etc/passwd",
    "/etc/localtime",
    "Europe/../../../etc/passwd",
    "Europe/Berlin\0",
    "\ud800",
    "x" * 5_000,
    "+02:00",
    "MESZ",
    # What a host keeps beside the zones: its own time, another one on the next host, and leap seconds.
    "localtime",
    "posixrules",
    "posix/Europe/Berlin",
    "right/Europe/Berlin",
]


@pytest.mark.parametrize(("rule", "zone", "start", "end", "after", "expected"), NEXT)
def test_the_first_fire_time_after_a_moment(
    rule: str, zone: str, start: str | None, end: str | None, after: str, expected: str | None
) -> None:
    recurring = schedule(rule, zone=zone, start_at=utc(start) if start else None, end_at=utc(end) if end else None)
    found = recurring.next_after(utc(after))
    assert found == (utc(expected) if expected else None)
    assert found is None or found.tzinfo is UTC


def test_a_preview_gives_so_many_fire_times_and_fewer_when_it_ends() -> None:
    recurring = schedule("0 * * * *", end_at=utc("2026-03-01 15:30"))
    hours = [utc(f"2026-03-01 {hour}:00") for hour in (13, 14, 15)]
    assert recurring.preview(utc("2026-03-01 12:00"), 2) == hours[:2]
    assert recurring.preview(utc("2026-03-01 12:00"), 9) == hours
    assert recurring.preview(utc("2026-03-01 12:00"), 0) == []
    assert recurring.preview(utc("2026-03-01 15:30"), 9) == []


def test_a_preview_leaves_out_what_a_blackout_will_swallow() -> None:
    quiet = Blackout(timedelta(minutes=2), start=utc("2026-03-01 12:00") + timedelta(minutes=2))
    recurring = schedule(rule="@every 1m", blackouts=(quiet,))
    plain = schedule(rule="@every 1m").preview(utc("2026-03-01 12:00"), 5)
    assert (
        recurring.preview(utc("2026-03-01 12:00"), 3)
        == [time for time in plain if not quiet.covers(time, zone_of("UTC"))][:3]
    )
    endless = Blackout(timedelta(days=100_000), start=utc("2026-03-01 12:00"))
    assert schedule(rule="@every 1m", blackouts=(endless,)).preview(utc("2026-03-01 12:00"), 3) == []


def test_a_preview_across_a_clock_change_counts_time_and_not_the_wall() -> None:
    spring = schedule("0 0-4 * * *", zone="Europe/Berlin").preview(utc("2026-03-28 22:30"), 5)
    assert [at.astimezone(BERLIN).hour for at in spring] == [0, 1, 3, 4, 0]
    hourly = schedule("0 * * * *", zone="Europe/Berlin").preview(utc("2026-10-24 22:30"), 5)
    assert [at.astimezone(BERLIN).hour for at in hourly] == [1, 2, 2, 3, 4]
    assert [at - hourly[0] for at in hourly] == [timedelta(hours=each) for each in range(5)]


@pytest.mark.parametrize("name", NO_ZONES, ids=lambda name: ascii(name)[:20])
def test_what_is_no_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is not an IANA time zone") as refusal:
        zone_of(name)
    assert refusal.value.field == "zone"
    assert len(str(refusal.value)) < 200


@unhurried
@given(st.text())
def test_any_text_is_a_zone_or_is_refused(name: str) -> None:
    with suppress(InvalidRequest):
        assert zone_of(name).key == name


def test_a_schedule_in_no_zone_and_one_without_a_rule_say_so_when_asked() -> None:
    with pytest.raises(InvalidRequest):
        schedule(zone="Mars/Olympus").next_after(utc("2026-03-01"))
    with pytest.raises(InvalidCron):
        schedule("every now and then").next_after(utc("2026-03-01"))


def test_a_rule_is_read_once() -> None:
    assert rule_of("*/7 * * * *") is rule_of("*/7 * * * *")


@unhurried
@given(moments, st.timedeltas(timedelta(0), timedelta(days=400)), st.integers(1, 2**63 - 1))
def test_jitter_delays_by_less_than_it_says_and_never_hurries(
    fire_time: datetime, jitter: timedelta, number: int
) -> None:
    run_at = schedule(id=ScheduleId(number), jitter=jitter).run_at(fire_time)
    assert fire_time <= run_at
    assert run_at < fire_time + jitter or run_at == fire_time


def test_jitter_is_drawn_from_the_schedule_and_the_fire_time_alone() -> None:
    """Two schedulers that plan the same fire time must make the same job; two schedules must not move together."""
    times = [utc("2026-03-01 12:00") + HOUR * each for each in range(50)]
    mine, same, other = (schedule(id=ScheduleId(number), jitter=HOUR) for number in (1, 1, 2))
    late = [mine.run_at(at) - at for at in times]
    assert late == [same.run_at(at) - at for at in times]
    assert late != [other.run_at(at) - at for at in times]
    assert len(set(late)) == len(late)
    assert min(late) < HOUR / 4
    assert max(late) > HOUR * 3 / 4


def blacked_out(recurring: Schedule, blackout: Blackout, moment: str) -> bool:
    return blackout.covers(utc(moment), zone_of(recurring.zone))


ABSOLUTE = Blackout(lasting=2 * HOUR, start=utc("2026-03-01 12:00"))
#: From two to four at night, by Berlin's clock.
NIGHTLY = Blackout(lasting=2 * HOUR, rule="0 2 * * *")
COVERED = [
    (ABSOLUTE, "2026-03-01 11:59:59.999999", False),
    (ABSOLUTE, "2026-03-01 12:00", True),
    (ABSOLUTE, "2026-03-01 13:59:59.999999", True),
    (ABSOLUTE, "2026-03-01 14:00", False),
    # Winter: two o'clock is one in UTC.
    (NIGHTLY, "2026-03-01 00:59:59", False),
    (NIGHTLY, "2026-03-01 01:00", True),
    (NIGHTLY, "2026-03-01 02:59:59", True),
    (NIGHTLY, "2026-03-01 03:00", False),
    # Summer: it is midnight in UTC.
    (NIGHTLY, "2026-06-30 23:59:59", False),
    (NIGHTLY, "2026-07-01 00:00", True),
    (NIGHTLY, "2026-07-01 01:59:59", True),
    (NIGHTLY, "2026-07-01 02:00", False),
    # The night in which two o'clock does not exist: it begins at three, and lasts as long as ever.
    (NIGHTLY, "2026-03-29 00:59:59", False),
    (NIGHTLY, "2026-03-29 01:00", True),
    (NIGHTLY, "2026-03-29 02:59:59", True),
    (NIGHTLY, "2026-03-29 03:00", False),
    # The night in which two o'clock comes twice: it begins the first time, and once.
    (NIGHTLY, "2026-10-24 23:59:59", False),
    (NIGHTLY, "2026-10-25 00:00", True),
    (NIGHTLY, "2026-10-25 01:59:59", True),
    (NIGHTLY, "2026-10-25 02:00", False),
    # Longer than the time between two of its beginnings, it never ends.
    (Blackout(lasting=25 * HOUR, rule="0 2 * * *"), "2026-03-01 00:30", True),
]


@pytest.mark.parametrize(("blackout", "moment", "covered"), COVERED)
def test_a_blackout_covers_from_its_beginning_until_just_before_its_end(
    blackout: Blackout,
    moment: str,
    covered: bool,  # noqa: FBT001 - a table's column
) -> None:
    assert blacked_out(schedule(zone="Europe/Berlin"), blackout, moment) is covered


@unhurried
@given(moments, st.timedeltas(MICROSECOND, timedelta(days=3)))
def test_an_absolute_blackout_lasts_as_long_as_it_says(start: datetime, lasting: timedelta) -> None:
    blackout, zone = Blackout(lasting=lasting, start=start), zone_of("America/New_York")
    assert blackout.covers(start, zone)
    assert blackout.covers(start + lasting - MICROSECOND, zone)
    assert not blackout.covers(start - MICROSECOND, zone)
    assert not blackout.covers(start + lasting, zone)


@pytest.mark.parametrize(
    ("start", "rule", "lasting"),
    [
        (None, None, HOUR),
        (utc("2026-03-01"), "0 2 * * *", HOUR),
        (utc("2026-03-01"), None, timedelta(0)),
        (None, "0 2 * * *", -HOUR),
    ],
)
def test_a_blackout_that_makes_no_sense_is_refused(
    start: datetime | None, rule: str | None, lasting: timedelta
) -> None:
    with pytest.raises(InvalidRequest, match="blackout") as refusal:
        Blackout(lasting=lasting, start=start, rule=rule)
    assert refusal.value.field == "blackouts"
