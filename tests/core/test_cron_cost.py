"""Costs of parsing and computing fire times, in function calls instead of seconds, so that load does not matter."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from rota.core.cron import InvalidCron, parse
from rota.core.cron.parser import LONGEST_TEXT, _parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

BERLIN = ZoneInfo("Europe/Berlin")


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls, of Python and of C, that a piece of work makes."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def calls_of_next(text: str, after: datetime) -> int:
    expression = parse(text)
    return calls_of(lambda: expression.next(after))


COMMON = calls_of_next("*/5 * * * *", datetime(2026, 6, 3, 12, 3, tzinfo=BERLIN))


@pytest.mark.parametrize(
    ("text", "after", "times"),
    [
        ("0 3 * * *", datetime(2026, 6, 3, 12, tzinfo=BERLIN), 3),
        ("0 0 1 1 *", datetime(2026, 1, 2, tzinfo=BERLIN), 3),
        ("* * 1 1 *", datetime(2026, 1, 2, tzinfo=BERLIN), 3),
        ("0 0 29 2 *", datetime(2096, 3, 1, tzinfo=BERLIN), 6),
        ("0 0 29 2 1", datetime(2026, 3, 1, tzinfo=BERLIN), 3),
        # Forty years to the next 29 February on a Sunday, the longest wait there is.
        ("0 0 29 2 */7", datetime(2096, 3, 1, tzinfo=BERLIN), 20),
        ("* * 29 2 */7", datetime(2096, 3, 1, tzinfo=BERLIN), 20),
        ("59 59 23 29 2 */7", datetime(2096, 3, 1, tzinfo=BERLIN), 20),
        ("0 0 31 12 */6", datetime(2026, 6, 3, tzinfo=BERLIN), 8),
        # A clock change is found by halving.
        ("30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=BERLIN), 8),
        ("* 2 * * *", datetime(2026, 3, 28, 12, tzinfo=BERLIN), 12),
        ("30 2 * * *", datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=BERLIN), 8),
        # A whole day without minutes, or with each of them twice, is not walked minute by minute.
        ("* * 30 12 *", datetime(2011, 12, 29, 23, tzinfo=ZoneInfo("Pacific/Apia")), 12),
        ("0-59 0-23 30 12 *", datetime(2011, 12, 29, 23, tzinfo=ZoneInfo("Pacific/Apia")), 8),
        ("0-59 0-23 * * *", datetime(1969, 9, 30, 12, fold=1, tzinfo=ZoneInfo("Pacific/Kwajalein")), 8),
        ("@every 1s", datetime(2026, 6, 3, 12, tzinfo=BERLIN), 1),
    ],
)
def test_a_rare_fire_time_costs_little_more_than_a_common_one(text: str, after: datetime, times: int) -> None:
    assert calls_of_next(text, after) <= times * COMMON


def test_the_cost_of_a_preview_grows_with_its_length_only() -> None:
    expression, after = parse("*/5 * * * *"), datetime(2026, 3, 29, tzinfo=UTC)

    assert calls_of(lambda: expression.preview(after, 1000)) <= 1000 * COMMON


HOSTILE = [
    "9" * 250 + " * * * *",
    "*/" + "9" * 240 + " * * * *",
    "0-59/" + "9" * 240 + " * * * *",
    "0-59," * 48 + "0 * * * *",
    "*," * 120 + "* * * * *",
    "," * 240 + " * * * *",
    "-" * 240 + " * * * *",
    "/" * 240 + " * * * *",
    "1-" * 120 + " * * * *",
    "* " * 128,
    " " * LONGEST_TEXT,
    "@" * LONGEST_TEXT,
    "@every " + "1h" * 120,
    "@every " + "9" * 240 + "h",
    "@every " + "1." * 100,
    "\x00" * LONGEST_TEXT,
    "\ud800 * * * *",
    "٣" * LONGEST_TEXT,
    ("(" * 120 + ")" * 120),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:16]))
def test_a_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    def read() -> None:
        try:
            _parse.__wrapped__(text)
        except InvalidCron as refusal:
            assert len(str(refusal)) < 20 * LONGEST_TEXT  # noqa: PT017 - some are valid

    read()
    # An entry of a list costs one call for each of its values: at most sixty for two characters.
    assert calls_of(read) <= 32 * LONGEST_TEXT


def test_a_text_without_end_is_not_even_looked_at() -> None:
    endless = "* " * 10_000_000

    def read() -> None:
        with pytest.raises(InvalidCron, match="20000000 characters"):
            parse(endless)

    assert calls_of(read) < 1000


def test_the_memory_of_texts_read_is_bounded() -> None:
    assert _parse.cache_info().maxsize == 1024
