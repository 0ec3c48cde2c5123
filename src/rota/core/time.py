"""Times as whole microseconds, which every store keeps exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Count the microseconds since 1970; exact, unlike a float of seconds."""
    return (moment - EPOCH) // MICROSECOND


# Cached, since the jobs of one batch share nearly all of their moments.
@lru_cache(maxsize=8192)
def from_micros(micros: int) -> datetime:
    """Read a count of microseconds as an aware UTC datetime."""
    return EPOCH + timedelta(microseconds=micros)


def span_to_micros(span: timedelta) -> int:
    """Count the microseconds of a duration."""
    return span // MICROSECOND
