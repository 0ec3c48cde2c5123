from __future__ import annotations

from datetime import timedelta
from math import inf, nan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.builders import unhurried
from rota.core.duration import LONGEST, UNITS, parse_duration
from rota.core.errors import InvalidRequest
from rota.core.time import span_to_micros

GOOD: list[tuple[timedelta | float | str, timedelta]] = [
    (0, timedelta(0)),
    (-0.0, timedelta(0)),
    (90, timedelta(seconds=90)),
    (1.5, timedelta(milliseconds=1500)),
    (timedelta(minutes=5), timedelta(minutes=5)),
    (36_500 * 86_400, LONGEST),
    ("0", timedelta(0)),
    ("90", timedelta(seconds=90)),
    ("1.5", timedelta(milliseconds=1500)),
    ("1.", timedelta(seconds=1)),
    (".5", timedelta(milliseconds=500)),
    ("90s", timedelta(seconds=90)),
    ("5m", timedelta(minutes=5)),
    ("5M", timedelta(minutes=5)),
    ("5 m", timedelta(minutes=5)),
    (" 5m\n", timedelta(minutes=5)),
    ("250ms", timedelta(milliseconds=250)),
    ("10us", timedelta(microseconds=10)),
    ("1us", timedelta(microseconds=1)),
    ("0.5h", timedelta(minutes=30)),
    ("1h30m", timedelta(hours=1, minutes=30)),
    ("1h 30m", timedelta(hours=1, minutes=30)),
    ("1d2h3m4s5ms6us", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5, microseconds=6)),
    ("2d", timedelta(days=2)),
    ("36500d", LONGEST),
    ("3153599999999999us", LONGEST - timedelta(microseconds=1)),
]
BAD: list[timedelta | float | str] = [
    True,
    False,
    -1,
    -1e-6,
    nan,
    inf,
    -inf,
    1e308,
    float("1e400"),
    10**30,
    -(10**30),
    # Too many digits for Python to write out.
    10**5_000,
    timedelta(microseconds=-1),
    timedelta.max,
    timedelta.min,
    LONGEST + timedelta(microseconds=1),
    "",
    " ",
    ".",
    "..",
    ".m",
    "1..2",
    "1.2.3",
    "1.2.3s",
    "m",
    "s5",
    "5x",
    "5 m m",
    "5mm",
    "1h30",
    "30 1h",
    "1 2",
    "5,5",
    "+5",
    "-5",
    "-5m",
    "1e3",
    "1e400",
    "0x10",
    "1_000",
    "nan",
    "inf",
    "infinity",
    "∞",
    "\N{ARABIC-INDIC DIGIT ONE}m",
    "٣",
    "\N{FULLWIDTH DIGIT FIVE}m",
    "²s",
    "5µs",
    "5m\0",
    "\ud800",
    "5\ud800",
    "36501d",
    "36500d1us",
    # Each part is a timedelta, the sum is not.
    "999999999d999999999d",
    "9" * 40,
    "9" * 41,
    "9" * 5_000,
    "1" * 5_000 + "d",
    "1h" * 2_000,
    " " * 5_000 + "5x",
]


@pytest.mark.parametrize(("written", "meant"), GOOD)
def test_a_duration_is_read_as_people_mean_it(written: timedelta | float | str, meant: timedelta) -> None:
    assert parse_duration(written) == meant


@pytest.mark.parametrize("written", BAD, ids=lambda written: ascii(written)[:30] if written != 10**5_000 else "huge")
def test_what_is_no_duration_is_refused_in_few_words(written: timedelta | float | str) -> None:
    with pytest.raises(InvalidRequest, match=r"^timeout: ") as refusal:
        parse_duration(written, field="timeout")
    assert refusal.value.field == "timeout"
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("value", [None, [], {}, b"5m", 1j])
def test_what_json_or_a_careless_caller_may_bring_is_refused_too(value: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_duration(value)  # type: ignore[arg-type]


def is_duration_or_refusal(value: timedelta | float | str) -> bool:
    try:
        span = parse_duration(value)
    except InvalidRequest:
        return True
    return type(span) is timedelta and timedelta(0) <= span <= LONGEST


@unhurried
@given(st.text() | st.text("0123456789.dhmsu e-+\t٣²", max_size=45))
@example("999999999d999999999d")
@example("99999999999999999d")
def test_any_text_is_a_duration_or_is_refused(text: str) -> None:
    assert is_duration_or_refusal(text)


@unhurried
@given(st.floats() | st.integers() | st.timedeltas())
@example(nan)
@example(inf)
@example(5e-324)
@example(10**5_000)
@example(-(10**5_000))
def test_any_number_is_a_duration_or_is_refused(number: timedelta | float) -> None:
    assert is_duration_or_refusal(number)


@unhurried
@given(st.integers(0, 10**9), st.sampled_from(sorted(UNITS)))
def test_a_number_with_a_unit_is_that_many_of_it(number: int, unit: str) -> None:
    if (micros := number * UNITS[unit]) <= span_to_micros(LONGEST):
        assert parse_duration(f"{number}{unit}") == timedelta(microseconds=micros)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("shape", ["9", " ", ".", "1h", "1 ", "m", "9.", "\u2003", "İ"])
def test_a_text_of_millions_of_characters_costs_no_more_than_reading_it(shape: str) -> None:
    """At this length anything worse than linear would take hours."""
    assert is_duration_or_refusal(shape * 2_000_000 + "x")
    assert is_duration_or_refusal(" " * 2_000_000 + shape * 10 + " " * 2_000_000)
