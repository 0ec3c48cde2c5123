"""Waiting between failures: longer each time, up to a limit, and never exactly as long as the neighbours."""

from __future__ import annotations

from collections.abc import Callable


class Patience:
    """How long to wait before trying again."""

    def __init__(self, dice: Callable[[], float], *, shortest: float = 0.05, longest: float = 5.0) -> None:
        self._dice = dice
        self._shortest = shortest
        self._longest = longest
        self._seconds = shortest

    def next(self) -> float:
        """Say how many seconds to wait now."""
        seconds = self._seconds * (0.5 + self._dice())
        self._seconds = min(self._seconds * 2, self._longest)
        return seconds

    def reset(self) -> None:
        """Begin anew after a success."""
        self._seconds = self._shortest
