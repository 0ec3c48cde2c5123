"""Percentiles and histograms of latencies, as JSON and as bars of text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

#: Upper bounds of the bars in seconds: 1, 2 and 5 of every power of ten, from 10 µs to a week.
BOUNDS: Final = tuple(float(f"{digit}e{power}") for power in range(-5, 6) for digit in (1, 2, 5))
_WIDTH: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Bar:
    """The number of values above one bound and up to the next."""

    above: float
    up_to: float
    count: int


class Latencies:
    """Latencies in seconds, sorted."""

    def __init__(self, seconds: Iterable[float]) -> None:
        # A clock that was set back could make a latency negative.
        self._values: Sequence[float] = sorted(max(value, 0.0) for value in seconds)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def mean(self) -> float:
        """The mean; 0 without values."""
        return sum(self._values) / len(self._values) if self._values else 0.0

    @property
    def longest(self) -> float:
        """The longest; 0 without values."""
        return self._values[-1] if self._values else 0.0

    def percentile(self, share: float) -> float:
        """Return the least value that this share of all values does not exceed; 0 without values."""
        if not self._values:
            return 0.0
        return self._values[max(-int(-len(self._values) * share // 1), 1) - 1]

    @property
    def bars(self) -> list[Bar]:
        """The bars from the first to the last that is not empty."""
        if not self._values:
            return []
        edges = [bisect_left(BOUNDS, self._values[0]), bisect_left(BOUNDS, self._values[-1])]
        ends = [0.0 if edges[0] == 0 else BOUNDS[edges[0] - 1], *BOUNDS[edges[0] : edges[1] + 1]]
        if edges[1] == len(BOUNDS):
            ends.append(self._values[-1])
        return [Bar(low, high, self._below(high) - self._below(low)) for low, high in pairwise(ends)]

    def _below(self, bound: float) -> int:
        """Count the values up to a bound; none at 0, so that values of 0 fall into the first bar."""
        return bisect_right(self._values, bound) if bound > 0 else 0

    def record(self) -> dict[str, Any]:
        return {
            "count": len(self),
            "mean_seconds": round(self.mean, 6),
            "p50_seconds": round(self.percentile(0.5), 6),
            "p90_seconds": round(self.percentile(0.9), 6),
            "p99_seconds": round(self.percentile(0.99), 6),
            "max_seconds": round(self.longest, 6),
            "histogram": [{"up_to_seconds": bar.up_to, "count": bar.count} for bar in self.bars],
        }

    def lines(self) -> Iterator[str]:
        """Draw a bar for each step, then the percentiles."""
        bars = self.bars
        most = max((bar.count for bar in bars), default=1) or 1
        for bar in bars:
            yield f"  ≤ {shown(bar.up_to):>8}  {_bar(bar.count / most)}  {bar.count:,}"
        named = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        figures = [f"{name} {shown(self.percentile(share))}" for name, share in named]
        yield "  " + "   ".join([*figures, f"max {shown(self.longest)}"])


def shown(seconds: float) -> str:
    """Show a duration with three figures and a fitting unit."""
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return f"{_three(seconds / length)} {unit}"
    return f"{_three(seconds / 1e-6)} µs"


def _three(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"  # noqa: PLR2004 - three figures


def _bar(share: float) -> str:
    eighths = round(share * _WIDTH * 8)
    bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    # A bar that is not empty is visible, however small.
    return (bar or ("▏" if share > 0 else "")).ljust(_WIDTH)
