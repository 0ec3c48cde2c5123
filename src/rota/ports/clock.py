"""Time and chance, brought from outside so that a simulation can bring its own."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The wall clock, as aware UTC. Durations are measured by the event loop's own clock."""

    def __call__(self) -> datetime:
        """Give the present moment."""
        ...


class Dice(Protocol):
    """A source of chance in [0, 1)."""

    def __call__(self) -> float:
        """Throw."""
        ...
