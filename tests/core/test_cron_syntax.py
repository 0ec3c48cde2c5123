from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, datetime

import pytest

from rota.core.cron import CronExpression, InvalidCron, parse

START = datetime(2023, 12, 31, 23, 59, tzinfo=UTC)


def days_of(text: str, count: int) -> list[str]:
    return [f"{moment:%m-%d}" for moment in parse(text).preview(START, count)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "@daily"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 JAN *"),
        ("@annually", "@yearly"),
        ("@DAILY", "@daily"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 * * sat-7", "0 0 * * SAT,SUN"),
        ("0 0 * * 0-sat", "0 0 * * SUN-6"),
        ("0 0 * jan,FEB,mAr *", "0 0 * 1-3 *"),
        ("0 0 1 Jan-Aug/4 *", "0 0 1 1,5 *"),
        ("0-10/5 0 * * *", "0,5,10 0 * * *"),
        ("*/100 * * * *", "*/60 * * * *"),
        ("00 08 01 01 *", "0 8 1 1 *"),
        ("0,0,0 * * * *", "0 * * * *"),
        ("  0\t0   1 * *\t", "0 0 1 * *"),
        ("0 0 1-31 * *", "0 0 * * *"),
        ("@every 90s", "@every 1m30s"),
        ("@EVERY 24H", "@every 1d"),
    ],
)
def test_two_ways_to_write_the_same_are_equal(one: str, other: str) -> None:
    assert parse(one) == parse(other)
    assert hash(parse(one)) == hash(parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * 1", "0 0 * * 2"),
        # Either day is enough in the first, both must match in the second.
        ("0 0 1,15 * 1", "0 0 */14 * 1"),
        # The first leaves out what a gap jumps over, the second catches up.
        ("*/5 2 * * *", "0-59/5 2 * * *"),
        ("0 * * * *", "0 0-23 * * *"),
        # With seconds a gap is left at its first second, without at its first minute.
        ("0 0 2 * * *", "0 2 * * *"),
        ("@every 24h", "@daily"),
    ],
)
def test_what_may_fire_at_different_times_is_not_equal(one: str, other: str) -> None:
    assert parse(one) != parse(other)


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("  0\t0   1 jan  * ", "0 0 1 JAN *"),
        ("@Daily", "@daily"),
        ("@EVERY   1H30M", "@every 1h30m"),
        ("*/5 1-3,7 * * mon-Fri", "*/5 1-3,7 * * MON-FRI"),
    ],
)
def test_the_text_is_kept_in_a_normal_form(written: str, normal: str) -> None:
    assert str(parse(written)) == parse(written).text == normal
    assert parse(normal) == parse(written)


def test_an_expression_is_a_frozen_value_without_a_dict() -> None:
    expression = parse("0 0 * * *")

    with pytest.raises(dataclasses.FrozenInstanceError):
        expression.text = "1 1 * * *"  # type: ignore[misc]
    assert not hasattr(expression, "__dict__")
    assert isinstance(expression, CronExpression)
    assert pickle.loads(pickle.dumps(expression)) == expression  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Both restricted: either is enough.
        ("0 0 13 * FRI", ["01-05", "01-12", "01-13", "01-19"]),
        # One begins with a star, whatever follows: both must match.
        ("0 0 13 * *", ["01-13", "02-13", "03-13"]),
        ("0 0 * * FRI", ["01-05", "01-12", "01-19"]),
        ("0 0 */2 * FRI", ["01-05", "01-19", "02-09"]),
        ("0 0 13 * */5", ["09-13", "10-13", "12-13"]),
        ("0 0 *,13 * FRI", ["01-05", "01-12", "01-19"]),
        # It must *begin* with the star: this one is a restricted field that holds every day, so all days match.
        ("0 0 13,* * FRI", ["01-01", "01-02", "01-03"]),
        # The date never occurs, but the weekday does.
        ("0 0 31 2 1-5", ["02-01", "02-02", "02-05"]),
        ("0 0 29 2 *", ["02-29", "02-29"]),
    ],
)
def test_the_day_fields_follow_the_rule_of_debian(text: str, expected: list[str]) -> None:
    assert days_of(text, len(expected)) == expected


def test_leap_days_follow_the_centuries() -> None:
    leap_days = parse("0 0 29 2 *").preview(datetime(1896, 1, 1, tzinfo=UTC), 60)

    years = [moment.year for moment in leap_days]
    assert years == [1896, *range(1904, 2100, 4), *range(2104, 2104 + 4 * 10, 4)]


def test_every_weekday_gets_its_leap_day() -> None:
    """A leap day on one given weekday is rare, up to forty years away, but it always comes, so it is not refused."""
    for weekday in range(7):
        # Days 1 and 29; they begin with a star, so that the weekday must match too.
        found = parse(f"0 0 */28 2 {weekday}").preview(datetime(2096, 3, 1, tzinfo=UTC), 60)
        assert any(moment.day == 29 for moment in found)
        assert {moment.isoweekday() % 7 for moment in found} == {weekday}


def test_a_leading_sixth_field_is_the_second() -> None:
    found = parse("*/20,55 0 0 * * *").preview(START, 5)

    assert [f"{moment:%d %H:%M:%S}" for moment in found] == [
        "01 00:00:00",
        "01 00:00:20",
        "01 00:00:40",
        "01 00:00:55",
        "02 00:00:00",
    ]


ALLOWED_FIELDS = "allowed are 5 (minute, hour, day of month, month, day of week), or 6 with the second in front"
REFUSALS = [
    ("", None, f"0 fields; {ALLOWED_FIELDS}"),
    ("* * * *", None, f"4 fields; {ALLOWED_FIELDS}"),
    ("* * * * * * *", None, f"7 fields; {ALLOWED_FIELDS}"),
    ("60 * * * *", "minute", "minute: 60 is out of range; allowed is 0-59"),
    ("60 * * * * *", "second", "second: 60 is out of range; allowed is 0-59"),
    ("* 24 * * *", "hour", "hour: 24 is out of range; allowed is 0-23"),
    ("* * 0 * *", "day of month", "day of month: 0 is out of range; allowed is 1-31"),
    ("* * * 13 *", "month", "month: 13 is out of range; allowed is 1-12 or JAN-DEC"),
    ("* * * * 8", "day of week", "day of week: 8 is out of range; allowed is 0-7 or SUN-SAT"),
    ("* * * * MON-8", "day of week", "day of week: 8 is out of range; allowed is 0-7 or SUN-SAT"),
    ("5-3 * * * *", "minute", "minute: '5-3' is a reversed range; write 5-59,0-3 if it is to wrap around"),
    ("* * * nov-feb *", "month", "month: 'nov-feb' is a reversed range; write 11-12,1-2 if it is to wrap around"),
    ("* * * * FRI-SUN", "day of week", "day of week: 'FRI-SUN' is a reversed range; write 5-7, Sunday is also 7"),
    ("* * * * 7-1", "day of week", "day of week: '7-1' is a reversed range; write 7-7,0-1 if it is to wrap around"),
    ("*/0 * * * *", "minute", "minute: '*/0' has a step of 0; allowed is a whole number from 1 up"),
    ("0-9/00 * * * *", "minute", "minute: '0-9/00' has a step of 0; allowed is a whole number from 1 up"),
    ("*/ * * * *", "minute", "minute: '*/' lacks a step; allowed is a whole number from 1 up"),
    ("*/-5 * * * *", "minute", "minute: '-5' in '*/-5' is not a step; allowed is a whole number from 1 up"),
    ("*/1.5 * * * *", "minute", "minute: '1.5' in '*/1.5' is not a step; allowed is a whole number from 1 up"),
    ("*/2/3 * * * *", "minute", "minute: '2/3' in '*/2/3' is not a step; allowed is a whole number from 1 up"),
    ("5/15 * * * *", "minute", "minute: '5/15' is a step without a range; write 5-59/15"),
    ("0 0 * * MON/2", "day of week", "day of week: 'MON/2' is a step without a range; write MON-7/2"),
    ("1,,2 * * * *", "minute", "minute: an entry of the list is empty; remove the comma or write a value"),
    ("1, * * * *", "minute", "minute: an entry of the list is empty; remove the comma or write a value"),
    ("-1 * * * *", "minute", "minute: '-1' lacks a value; allowed is 0-59"),
    ("1- * * * *", "minute", "minute: '1-' lacks a value; allowed is 0-59"),
    ("1-2-3 * * * *", "minute", "minute: '2-3' in '1-2-3' is not a value; allowed is 0-59"),
    ("*-5 * * * *", "minute", "minute: '*' in '*-5' is not a value; allowed is 0-59"),
    ("** * * * *", "minute", "minute: '**' is not a value; allowed is 0-59"),
    ("5x * * * *", "minute", "minute: '5x' is not a value; allowed is 0-59"),
    ("+5 * * * *", "minute", "minute: '+5' is not a value; allowed is 0-59"),
    ("1_0 * * * *", "minute", "minute: '1_0' is not a value; allowed is 0-59"),
    ("? * * * *", "minute", "minute: '?' is not a value; allowed is 0-59"),
    ("* * L * *", "day of month", "day of month: 'L' is not a value; allowed is 1-31"),
    ("* * * * MON#2", "day of week", "day of week: 'MON#2' is not a value; allowed is 0-7 or SUN-SAT"),
    ("* * * * monday", "day of week", "day of week: 'monday' is not a value; allowed is 0-7 or SUN-SAT"),
    ("MON * * * *", "minute", "minute: 'MON' is not a value; allowed is 0-59"),
    ("٣ * * * *", "minute", "minute: '٣' is not a value; allowed is 0-59"),
    ("* * * * \u017fun", "day of week", "day of week: '\u017fun' is not a value; allowed is 0-7 or SUN-SAT"),
    ("* * * * *\n", "day of week", r"day of week: '*\n' is not a value; allowed is 0-7 or SUN-SAT"),
    ("* * * * \u00a05", "day of week", r"day of week: '\xa05' is not a value; allowed is 0-7 or SUN-SAT"),
    ("0 0 30 2 *", "day of month", "day of month: '30' never occurs in month '2'; choose a day that the month has"),
    ("0 0 31 4,6,9,11 *", "day of month", "day of month: '31' never occurs in month '4,6,9,11'; choose a day that"),
    ("0 0 30-31 Feb */2", "day of month", "day of month: '30-31' never occurs in month 'Feb'; choose a day that"),
    ("@reboot", None, "'@reboot' is not an alias; allowed are @yearly, @annually, @monthly, @weekly, @daily,"),
    ("@wee\u212aly", None, "is not an alias; allowed are @yearly, @annually, @monthly, @weekly, @daily,"),
    ("@", None, "'@' is not an alias; allowed are @yearly,"),
    ("@daily *", None, "nothing may follow @daily; remove '*'"),
    ("@every", "every", "every: '' is not a duration; write"),
    ("@every Xm", "every", "every: 'xm' is not a duration; write"),
    ("@every 5m\n", "every", r"every: '5m\n' is not a duration; allowed are digits and units, as in '1h30m'"),
    ("@every ٣m", "every", "every: '٣m' is not a duration; allowed are digits and units, as in '1h30m'"),
    ("@every 0s", "every", "every: '0s' is no usable interval; allowed are whole seconds from 1s to 366d"),
    ("@every 500ms", "every", "every: '500ms' is no usable interval; allowed are whole seconds from 1s to 366d"),
    ("@every 1.5s", "every", "every: '1.5s' is no usable interval; allowed are whole seconds from 1s to 366d"),
    ("@every 367d", "every", "every: '367d' is no usable interval; allowed are whole seconds from 1s to 366d"),
    ("@every -5m", "every", "every: '-5m' is not a duration; write"),
]


@pytest.mark.parametrize(("text", "field", "complaint"), REFUSALS, ids=[repr(text) for text, _, _ in REFUSALS])
def test_a_refusal_names_the_field_the_value_and_what_is_allowed(text: str, field: str | None, complaint: str) -> None:
    with pytest.raises(InvalidCron) as refusal:
        parse(text)

    assert str(refusal.value).startswith(f"cron {text!r}: ")
    assert complaint in str(refusal.value)
    assert refusal.value.field == field
    assert refusal.value.__cause__ is None


def test_a_text_beyond_the_bound_is_refused_without_repeating_it() -> None:
    with pytest.raises(InvalidCron) as refusal:
        parse("*" * 1_000_000)

    assert str(refusal.value) == "cron: the expression has 1000000 characters; allowed are at most 256"


def test_a_text_up_to_the_bound_is_read() -> None:
    longest = ",".join(["1"] * 124) + " * * * *"

    assert len(longest) == 255
    assert parse(longest) == parse("1 * * * *")
    assert parse(longest + " ") == parse("1 * * * *")
    with pytest.raises(InvalidCron, match="257 characters"):
        parse(longest + "  ")
