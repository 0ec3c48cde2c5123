from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import unhurried
from rota.core.time import EPOCH, MICROSECOND, from_micros, span_to_micros, to_micros

EAST = timezone(timedelta(hours=5, minutes=45))

#: A day away from the ends of the calendar, where a zone would lead beyond them.
anywhere = st.datetimes(datetime.min + timedelta(days=1), datetime.max - timedelta(days=1), timezones=st.timezones())  # noqa: DTZ901 - hypothesis adds the zone

MOMENTS = [
    (EPOCH, 0),
    (EPOCH + MICROSECOND, 1),
    (EPOCH - MICROSECOND, -1),
    # A float of seconds has lost the last digit here.
    (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 253_402_300_799_999_999),
    (datetime(1, 1, 1, tzinfo=UTC), -62_135_596_800_000_000),
    (datetime(2026, 3, 1, 5, 45, tzinfo=EAST), 1_772_323_200_000_000),
]
SPANS = [(timedelta(0), 0), (MICROSECOND, 1), (-MICROSECOND, -1), (timedelta.max, 86_399_999_999_999_999_999)]


@pytest.mark.parametrize(("moment", "micros"), MOMENTS)
def test_a_moment_is_a_whole_number_of_microseconds(moment: datetime, micros: int) -> None:
    assert to_micros(moment) == micros
    assert from_micros(micros) == moment
    assert from_micros(micros).tzinfo is UTC


@pytest.mark.parametrize(("span", "micros"), SPANS)
def test_a_duration_is_a_whole_number_of_microseconds(span: timedelta, micros: int) -> None:
    assert span_to_micros(span) == micros
    assert micros * MICROSECOND == span


@unhurried
@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_survives_the_way_to_the_store_and_back(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


@unhurried
@given(anywhere, anywhere)
def test_moments_keep_their_order_whatever_their_zones(one: datetime, other: datetime) -> None:
    assert (to_micros(one) < to_micros(other)) == (one.astimezone(UTC) < other.astimezone(UTC))


def test_a_moment_without_a_zone_is_no_moment() -> None:
    with pytest.raises(TypeError):
        to_micros(datetime(2026, 3, 1))  # noqa: DTZ001 - the very mistake
