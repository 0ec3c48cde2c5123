"""Two oracles: the brute-force walker of this folder, and cronsim, which follows the rules of Debian too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from core.cron_walker import DAY, Walker, instant_of, moment_of
from rota.core.cron import CronExpression, InvalidCron, parse

MONTHS = ("JAN", "feb", "Mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "dec")
WEEKDAYS = ("SUN", "mon", "Tue", "WED", "THU", "FRI", "sat")
ZONES = sorted(available_timezones())
#: 29 February on one given weekday can take forty years.
LONGEST_WAIT = 41 * 366 * DAY

#: Places and days at which clocks did something of note.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Europe/Dublin", "2027-10-31"),  # its summer time is the standard time
    ("America/New_York", "2024-11-03"),
    ("America/Sao_Paulo", "2018-11-04"),  # gap at midnight
    ("America/Sao_Paulo", "2018-02-18"),  # overlap at midnight
    ("America/St_Johns", "2010-11-07"),  # overlap over midnight
    ("America/Havana", "2025-11-02"),
    ("Asia/Beirut", "2024-03-31"),
    ("Africa/Cairo", "2024-04-26"),
    ("Africa/Casablanca", "2026-02-15"),  # Ramadan
    ("Australia/Lord_Howe", "2024-10-06"),  # thirty minutes
    ("Australia/Lord_Howe", "2024-04-07"),
    ("Antarctica/Troll", "2026-03-29"),  # two hours
    ("Antarctica/Casey", "2020-10-04"),  # three hours, at 00:01
    ("Asia/Pyongyang", "2018-05-05"),  # for good
    ("America/Caracas", "2007-12-09"),
    ("Pacific/Apia", "2011-12-30"),  # a day left out
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Pacific/Kwajalein", "1969-10-01"),  # a day repeated
    ("America/Juneau", "1867-10-18"),
    ("Asia/Manila", "1844-12-31"),
    ("Africa/Monrovia", "1972-01-07"),  # odd seconds
    ("Africa/Freetown", "1939-09-01"),  # four days of summer
    ("Africa/Freetown", "1939-09-05"),
    ("Europe/Amsterdam", "1937-07-01"),
    ("Europe/London", "1947-04-13"),  # double summer time
    ("Asia/Kolkata", "1941-10-01"),
    ("America/Nuuk", "2060-03-27"),  # foretold by rule
]


def fields(low: int, high: int, names: tuple[str, ...] = (), *, stars: bool = True) -> st.SearchStrategy[str]:
    """Write one field in any way the grammar knows; without stars, in any way that makes a fixed time."""
    values = st.integers(low, high)

    def written(number: int) -> st.SearchStrategy[str]:
        forms = [str(number), f"{number:02}"]
        return st.sampled_from([*forms, names[number - low]] if number - low < len(names) else forms)

    def ranges(ends: tuple[int, int]) -> st.SearchStrategy[str]:
        return st.tuples(written(min(ends)), written(max(ends))).map("-".join)

    spans = st.tuples(values, values).flatmap(ranges)
    steps = st.integers(1, high + 2).map("/{}".format)
    items = st.one_of(values.flatmap(written), spans, st.tuples(spans, steps).map("".join))
    if not stars:
        return st.lists(items, min_size=1, max_size=4).map(",".join)
    starry = st.one_of(st.just("*"), st.just("*"), steps.map("*{}".format))
    return st.one_of(starry, st.lists(st.one_of(items, items, starry), min_size=1, max_size=4).map(",".join))


DAYS = st.tuples(fields(1, 31), fields(1, 12, MONTHS), fields(0, 7, WEEKDAYS)).map(" ".join)
FIVE_FIELDS = st.tuples(fields(0, 59), fields(0, 23), DAYS).map(" ".join)
SIX_FIELDS = st.tuples(fields(0, 59), FIVE_FIELDS).map(" ".join)
FIXED_TIMES = st.tuples(fields(0, 59, stars=False), fields(0, 23, stars=False), DAYS).map(" ".join)


@st.composite
def moments(draw: st.DrawFn) -> datetime:
    """Draw a moment in a zone, most often within two days of a clock change."""
    if draw(st.booleans()):
        name, day = draw(st.sampled_from(CHANGES))
        near = draw(
            st.one_of(st.integers(-2 * DAY, 2 * DAY), st.integers(-2 * 24, 2 * 24).map(lambda hours: hours * 3600))
        )
        start = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(seconds=near)
    else:
        name = draw(st.sampled_from(ZONES))
        start = datetime(1850, 1, 1, tzinfo=UTC) + timedelta(seconds=draw(st.integers(0, 300 * 365 * DAY)))
    return start.astimezone(ZoneInfo(name))


def read(text: str) -> CronExpression:
    """Parse, or pass over a date that never occurs."""
    try:
        return parse(text)
    except InvalidCron as refusal:
        assert "never occurs" in str(refusal)  # noqa: PT017 - other refusals are bugs
        assume(condition=False)
        raise


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(ZoneInfo("Europe/Berlin"))


@settings(deadline=None, max_examples=300)
@given(text=FIVE_FIELDS, after=moments())
@example(text="30 2 * * *", after=berlin("2026-03-28T12:00+01:00"))
@example(text="*/30 2 * * *", after=berlin("2026-10-25T02:10+01:00"))
@example(text="0 0 29 2 */7", after=berlin("2096-03-01T00:00+01:00"))
def test_next_is_what_a_walk_along_the_clock_comes_to(text: str, after: datetime) -> None:
    expression, at = read(text), instant_of(after)

    found = expression.next(after)

    assert found.tzinfo is after.tzinfo
    assert instant_of(found) == Walker(text, after.tzinfo or UTC).first(at, at + LONGEST_WAIT)


@settings(deadline=None, max_examples=60)
@given(text=SIX_FIELDS, after=moments())
def test_next_is_what_a_walk_comes_to_with_seconds_too(text: str, after: datetime) -> None:
    expression, at = read(text), instant_of(after)

    assert instant_of(expression.next(after)) == Walker(text, after.tzinfo or UTC).first(at, at + LONGEST_WAIT)


@settings(deadline=None, max_examples=100)
@given(text=st.one_of(FIVE_FIELDS, SIX_FIELDS), after=moments(), split=st.floats(0, 1, exclude_max=True))
def test_asking_from_anywhere_before_a_fire_time_gives_that_fire_time(text: str, after: datetime, split: float) -> None:
    expression = read(text)
    first, second = (moment.astimezone(UTC) for moment in expression.preview(after, 2))
    # The product may be rounded up to the whole.
    between = min(first + (second - first) * split, second - timedelta(microseconds=1)).astimezone(after.tzinfo)

    assert after.astimezone(UTC) < first < second
    assert expression.next(between).astimezone(UTC) == second


@settings(deadline=None)
@given(text=st.one_of(FIVE_FIELDS, SIX_FIELDS))
def test_the_text_of_an_expression_reads_as_the_same_expression(text: str) -> None:
    expression = read(text)

    assert parse(str(expression)) == expression
    assert str(parse(str(expression))) == str(expression)


@settings(deadline=None, max_examples=500)
@given(text=st.one_of(st.text(max_size=40), st.text("0123456789*/-,@ \tMONJAevry", max_size=40)))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        expression = parse(text)
    except InvalidCron as refusal:
        assert str(refusal).startswith("cron")  # noqa: PT017 - most texts are refused
    else:
        assert parse(expression.text) == expression


# Against cronsim we leave out four things, in each of which it is at odds with its own rules (2.8):
# - `n-n/s`, which it reads as `n/s` up to the field's end;
# - offsets of odd seconds, that is, local mean times: it walks the wall in whole minutes of UTC;
# - expressions that follow the wall where a clock change leaves out or repeats midnight, or is not of whole hours: it
#   then names times that no clock showed, leaves times out, or gives one instant twice;
# - a sixth field, which it reads as a year.
PLAIN_ZONES = [  # since 2013
    "Africa/Casablanca",
    "America/New_York",
    "Antarctica/Troll",
    "Asia/Kolkata",
    "Australia/Sydney",
    "Europe/Dublin",
    "Europe/Riga",
    "UTC",
]
ODD_ZONES = [
    "Africa/Cairo",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Apia",
]


def has_range_of_one_with_step(text: str) -> bool:
    parts = [part.partition("/") for word in text.split() for part in word.split(",")]
    return any(slash and span != "*" and has_one_value(span) for span, slash, _ in parts)


def has_one_value(span: str) -> bool:
    names = {name.upper(): number for number, name in [*enumerate(WEEKDAYS), *enumerate(MONTHS, 1)]}
    first, last = (names[end.upper()] if end.upper() in names else int(end) for end in span.split("-"))
    return first == last


def compare_with_cronsim(text: str, zone: str, second: int) -> None:
    assume(not has_range_of_one_with_step(text))
    expression, after = read(text), moment_of(second, ZoneInfo(zone))
    oracle = CronSim(text, after)

    expected = [next(oracle).astimezone(UTC) for _ in range(8)]

    assert [moment.astimezone(UTC) for moment in expression.preview(after, 8)] == expected


def seconds_since(year: int) -> st.SearchStrategy[int]:
    return st.integers(instant_of(datetime(year, 1, 1, tzinfo=UTC)), instant_of(datetime(2036, 1, 1, tzinfo=UTC)))


def aimed(zone: str, second: int) -> int:
    """Move on to two days before the next clock change, if there is one within two years."""
    offset = moment_of(second, ZoneInfo(zone)).utcoffset()
    days = range(second, second + 730 * DAY, DAY)
    return next((day - 2 * DAY for day in days if moment_of(day, ZoneInfo(zone)).utcoffset() != offset), second)


@settings(deadline=None, max_examples=300)
@given(text=FIVE_FIELDS, zone=st.sampled_from(PLAIN_ZONES), second=seconds_since(2013), aim=st.booleans())
def test_cronsim_agrees(text: str, zone: str, second: int, *, aim: bool) -> None:
    compare_with_cronsim(text, zone, aimed(zone, second) if aim else second)


@settings(deadline=None, max_examples=120)
@given(text=FIXED_TIMES, zone=st.sampled_from(ODD_ZONES), second=seconds_since(1975), aim=st.booleans())
def test_cronsim_agrees_on_fixed_times_in_odd_zones_too(text: str, zone: str, second: int, *, aim: bool) -> None:
    compare_with_cronsim(text, zone, aimed(zone, second) if aim else second)


def test_the_oracles_can_tell_right_from_wrong() -> None:
    """A walker that agreed with anything would be no oracle."""
    walker, after = Walker("30 2 * * *", ZoneInfo("Europe/Berlin")), berlin("2026-03-28T12:00+01:00")

    fire = walker.first(instant_of(after), instant_of(after) + DAY)

    assert fire is not None
    assert moment_of(fire, ZoneInfo("Europe/Berlin")).isoformat() == "2026-03-29T03:00:00+02:00"
    with pytest.raises(ValueError, match="invalid literal"):
        Walker("x * * * *", UTC)
