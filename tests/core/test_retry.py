from __future__ import annotations

import json
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import backoffs, rng, spans, unhurried
from rota.core.duration import LONGEST
from rota.core.errors import InvalidRequest
from rota.core.retry import DEFAULT_BACKOFF, Backoff, Growth

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LISTED = Backoff(growth=Growth.LISTED, delays=(MINUTE, 5 * MINUTE, 15 * MINUTE))

DELAYS = [
    # The rule of the specification: min(base x 2^(attempt-1), cap).
    (DEFAULT_BACKOFF, 1, SECOND),
    (DEFAULT_BACKOFF, 2, 2 * SECOND),
    (DEFAULT_BACKOFF, 3, 4 * SECOND),
    (DEFAULT_BACKOFF, 6, 32 * SECOND),
    (DEFAULT_BACKOFF, 7, 60 * SECOND),
    # Where a power of two still fits into a float, where it no longer does, and far beyond.
    (DEFAULT_BACKOFF, 62, 60 * SECOND),
    (DEFAULT_BACKOFF, 1025, 60 * SECOND),
    (DEFAULT_BACKOFF, 5000, 60 * SECOND),
    (DEFAULT_BACKOFF, 2**63, 60 * SECOND),
    # Before the first attempt there is no delay to speak of; asked all the same, it is the first one.
    (DEFAULT_BACKOFF, 0, SECOND),
    (DEFAULT_BACKOFF, -5, SECOND),
    (Backoff(factor=3.0, cap=timedelta(hours=1)), 4, 27 * SECOND),
    (Backoff(factor=1.5), 2, timedelta(milliseconds=1500)),
    (Backoff(factor=1.0), 2**63, SECOND),
    (Backoff(factor=1e300), 2, 60 * SECOND),
    (Backoff(base=timedelta(0)), 5, timedelta(0)),
    (Backoff(base=timedelta(0)), 2**63, timedelta(0)),
    (Backoff(base=timedelta(microseconds=1), cap=LONGEST), 2, timedelta(microseconds=2)),
    (Backoff(base=timedelta(microseconds=1), cap=LONGEST), 2**63, LONGEST),
    (Backoff(cap=timedelta(0)), 9, timedelta(0)),
    (Backoff(growth=Growth.LINEAR), 1, SECOND),
    (Backoff(growth=Growth.LINEAR), 7, 7 * SECOND),
    (Backoff(growth=Growth.LINEAR), 61, 60 * SECOND),
    (Backoff(growth=Growth.LINEAR, base=timedelta(days=1)), 2**31, 60 * SECOND),
    (Backoff(growth=Growth.LINEAR, base=LONGEST, cap=LONGEST), 2**63, LONGEST),
    (Backoff(growth=Growth.CONSTANT, base=5 * SECOND), 1, 5 * SECOND),
    (Backoff(growth=Growth.CONSTANT, base=5 * SECOND), 2**63, 5 * SECOND),
    (Backoff(growth=Growth.CONSTANT, base=300 * SECOND), 1, 300 * SECOND),
    (LISTED, 1, MINUTE),
    (LISTED, 2, 5 * MINUTE),
    (LISTED, 3, 15 * MINUTE),
    (LISTED, 4, 15 * MINUTE),
    (LISTED, 2**63, 15 * MINUTE),
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"jitter": -0.01}, "retry.jitter"),
    ({"jitter": 1.01}, "retry.jitter"),
    ({"jitter": nan}, "retry.jitter"),
    ({"factor": 0.99}, "retry.factor"),
    ({"factor": 0.0}, "retry.factor"),
    ({"factor": -2.0}, "retry.factor"),
    ({"factor": nan}, "retry.factor"),
    ({"factor": inf}, "retry.factor"),
    ({"base": -SECOND}, "retry"),
    ({"cap": -SECOND}, "retry"),
    ({"max_elapsed": -SECOND}, "retry"),
    ({"growth": Growth.LISTED, "delays": (SECOND, -SECOND)}, "retry"),
    # A delay that no calendar holds would fail the settling of the job, long after it was accepted.
    ({"base": timedelta.max}, "retry"),
    ({"cap": timedelta.max}, "retry"),
    ({"growth": Growth.LISTED, "delays": (timedelta.max,)}, "retry"),
    ({"growth": Growth.LISTED}, "retry.delays"),
    ({"growth": Growth.LISTED, "delays": (SECOND,) * 101}, "retry.delays"),
    ({"growth": Growth.CONSTANT, "delays": (SECOND,)}, "retry.delays"),
    ({"delays": (SECOND,)}, "retry.delays"),
]


@pytest.mark.parametrize(("backoff", "attempt", "expected"), DELAYS)
def test_the_delay_after_an_attempt(backoff: Backoff, attempt: int, expected: timedelta) -> None:
    assert backoff.delay(attempt) == expected


@pytest.mark.parametrize(("fields", "field"), REFUSED)
def test_a_rule_that_makes_no_sense_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match="retry") as refusal:
        Backoff(**fields)
    assert refusal.value.field == field


@pytest.mark.parametrize("growth", [Growth.EXPONENTIAL, Growth.LINEAR, Growth.CONSTANT])
@pytest.mark.parametrize("base", [timedelta(0), SECOND, LONGEST])
def test_no_list_of_delays_is_needed_for_the_other_growths(growth: Growth, base: timedelta) -> None:
    assert Backoff(growth=growth, base=base).delays == ()


@unhurried
@given(backoffs(), st.integers(1, 2**63), rng)
def test_jitter_moves_a_delay_by_its_part_and_no_further(backoff: Backoff, attempt: int, throw: float) -> None:
    plain = backoff.delay(attempt)
    delay = backoff.delay(attempt, throw)
    slack = timedelta(microseconds=1)
    assert plain * (1 - backoff.jitter) - slack <= delay <= plain * (1 + backoff.jitter) + slack
    assert delay >= timedelta(0)


@unhurried
@given(backoffs(), st.integers(1, 2**63), rng, rng)
def test_the_dice_decide_where_within_the_jitter(backoff: Backoff, attempt: int, low: float, high: float) -> None:
    assert backoff.delay(attempt, min(low, high)) <= backoff.delay(attempt, max(low, high))


def test_the_jitter_reaches_both_ends() -> None:
    assert DEFAULT_BACKOFF.delay(1, 0.0) == timedelta(milliseconds=900)
    assert DEFAULT_BACKOFF.delay(1, 0.75) == timedelta(milliseconds=1050)
    assert DEFAULT_BACKOFF.delay(99, 0.999_999) > 65 * SECOND
    assert Backoff(jitter=1).delay(1, 0.0) == timedelta(0)
    assert Backoff(jitter=0).delay(1, 0.9) == SECOND


@unhurried
@given(backoffs(), st.integers(-(2**63), 2**63))
def test_no_attempt_is_too_many_and_no_plain_delay_passes_the_cap(backoff: Backoff, attempt: int) -> None:
    delay = backoff.delay(attempt)
    longest = {Growth.LISTED: max(backoff.delays, default=backoff.cap), Growth.CONSTANT: backoff.base}
    assert delay <= longest.get(backoff.growth, backoff.cap)


@unhurried
@given(backoffs().filter(lambda backoff: backoff.growth is not Growth.LISTED), st.integers(1, 2**62))
def test_a_delay_never_shrinks_from_one_attempt_to_the_next(backoff: Backoff, attempt: int) -> None:
    assert backoff.delay(attempt) <= backoff.delay(attempt + 1)


@unhurried
@given(backoffs())
def test_a_rule_survives_being_written_down(backoff: Backoff) -> None:
    assert Backoff.from_text(backoff.to_text()) == backoff


@unhurried
@given(spans)
def test_what_is_written_down_is_what_differs_from_the_default(cap: timedelta) -> None:
    written = json.loads(Backoff(cap=cap).to_text())
    assert set(written) == (set() if cap == DEFAULT_BACKOFF.cap else {"cap"})
    assert DEFAULT_BACKOFF.to_text() == "{}"


def test_giving_up_at_once_is_not_the_same_as_never_giving_up() -> None:
    assert Backoff.from_text(Backoff(max_elapsed=timedelta(0)).to_text()).max_elapsed == timedelta(0)
    assert Backoff.from_text("{}").max_elapsed is None
