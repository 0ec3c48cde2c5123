"""Backoff of Rota's own loops after failures: exponential with jitter, up to a limit; for jobs see `core.retry`."""

from __future__ import annotations

from collections.abc import Callable


class JitteredBackoff:
    """The delay before the next attempt; it doubles with each failure."""

    def __init__(self, rng: Callable[[], float], *, shortest: float = 0.05, longest: float = 5.0) -> None:
        self._rng = rng
        self._shortest = shortest
        self._longest = longest
        self._seconds = shortest

    def next(self) -> float:
        """Return how many seconds to wait now."""
        seconds = self._seconds * (0.5 + self._rng())
        self._seconds = min(self._seconds * 2, self._longest)
        return seconds

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self._seconds = self._shortest
