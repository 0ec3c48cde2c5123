"""Clock and random numbers, passed in so that a simulation can pass its own; and the clock of this host."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The wall clock, as aware UTC. Durations are measured by the event loop's own clock."""

    def __call__(self) -> datetime: ...


class Rng(Protocol):
    """A source of random numbers in [0, 1)."""

    def __call__(self) -> float: ...


def wall_clock() -> datetime:
    return datetime.now(UTC)
