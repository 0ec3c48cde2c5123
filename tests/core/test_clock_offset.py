from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from rota.clock_offset import DRIFT, LEAP_SECONDS, ClockOffset

#: What the other clock shows when ours shows nothing.
START = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
ways = st.floats(0.0, LEAP_SECONDS / 2)


def there(here: float) -> datetime:
    return START + timedelta(seconds=here)


def test_without_any_answer_the_moment_never_comes() -> None:
    assert ClockOffset().local_time(START) == inf


def test_the_quickest_word_is_what_counts() -> None:
    reckoning = ClockOffset()
    for said_at, way in ((1.0, 0.02), (2.0, 0.001), (3.0, 0.015)):
        reckoning.observe(there(said_at), said_at + way)
    assert 4.001 <= reckoning.local_time(there(4.0)) < 4.003


def test_an_old_answer_counts_for_less() -> None:
    reckoning = ClockOffset()
    reckoning.observe(there(0.0), 0.001)
    reckoning.observe(there(60.0), 60.014)
    assert 61.014 <= reckoning.local_time(there(61.0)) < 61.0141


def test_a_clock_that_was_set_forward_is_believed_at_once() -> None:
    reckoning = ClockOffset()
    reckoning.observe(there(0.0), 0.001)
    reckoning.observe(there(1.0) + timedelta(hours=1), 1.05)
    assert 1.05 <= reckoning.local_time(there(1.0) + timedelta(hours=1)) < 1.051


def test_a_clock_that_was_set_back_makes_us_forget_what_we_knew() -> None:
    reckoning = ClockOffset()
    reckoning.observe(there(0.0), 0.001)
    reckoning.observe(there(1.0) - timedelta(seconds=1), 1.002)
    assert 2.002 <= reckoning.local_time(there(1.0)) < 2.003


def test_after_an_answer_the_least_step_back_is_seen() -> None:
    reckoning = ClockOffset()
    reckoning.observe(there(0.0), 0.001, 0.0)
    reckoning.observe(there(1.0) - timedelta(seconds=0.015), 1.001, 1.0)
    assert 2.015 <= reckoning.local_time(there(2.0)) < 2.0171


def test_an_answer_that_took_long_takes_nothing_from_what_is_known() -> None:
    reckoning = ClockOffset()
    reckoning.observe(there(0.0), 0.001)
    reckoning.observe(there(1.0), 1.5, 0.9999)
    assert 2.001 <= reckoning.local_time(there(2.0)) < 2.003


@given(heard=st.lists(st.tuples(st.floats(0.001, 30.0), ways), min_size=1), drift=st.floats(-DRIFT, DRIFT))
def test_no_moment_is_ever_computed_too_early(heard: list[tuple[float, float]], drift: float) -> None:
    """And not later than the delay of the last message, whatever the delays were, while the clocks drift apart."""
    reckoning, said_at, now = ClockOffset(), 0.0, 0.0
    for pause, way in heard:
        said_at = now + pause
        now = said_at + way
        reckoning.observe(there(said_at * (1 + drift)), now)
    moment = now + 0.1
    reckoned = reckoning.local_time(there(moment * (1 + drift)))
    assert moment - 2 * DRIFT * 0.2 <= reckoned <= moment + heard[-1][1] + 2 * DRIFT
