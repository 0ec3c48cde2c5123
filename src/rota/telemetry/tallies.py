"""Tallies: what a metric has come to so far. Plain numbers in dictionaries: a million jobs a minute pass here.

They are kept and read on one loop, and take no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from rota.telemetry.catalogue import Metric

Labels = tuple[str, ...]
#: Where names beyond the limit are counted.
OTHER: Final = "other"
#: How many names of one kind a scraper is shown: each costs it a series for every bucket.
MOST_NAMES: Final = 100


class Names:
    """Keeps what users name from growing without end: the first so many keep their names, the rest are `other`."""

    def __init__(self, limit: int = MOST_NAMES) -> None:
        self._limit = limit
        self._known: set[str] = set()

    @property
    def known(self) -> Collection[str]:
        """The names that are shown, whether or not anything bears them now."""
        return self._known

    def shown(self, name: str) -> str:
        """Give a name as it is shown."""
        if name in self._known:
            return name
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(name)
        return name


class Counts:
    """Numbers by label: a counter or a gauge."""

    __slots__ = ("metric", "values")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.values: defaultdict[Labels, float] = defaultdict(float)
        if not metric.labels:
            # Shown from the start: an alert on what never happened needs its zero.
            self.values[()] = 0.0

    @classmethod
    def of(cls, metric: Metric, value: float, *labels: str) -> Counts:
        """Make a tally of one number."""
        counts = cls(metric)
        counts.values[labels] = value
        return counts

    def add(self, labels: Labels, number: float = 1.0) -> None:
        """Count."""
        self.values[labels] += number


@dataclass(slots=True)
class Cells:
    """How often a value fell below each bound and above the one before, the last without bound; and their sum."""

    counts: list[int]
    total: float = 0.0


class Spreads:
    """How values are spread, by label: a histogram."""

    __slots__ = ("_bounds", "metric", "values")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._bounds = metric.bounds
        self.values: dict[Labels, Cells] = {}

    def add(self, labels: Labels, value: float) -> None:
        """Count a value; one below nothing, which only clocks can make, counts as nothing."""
        cells = self.values.get(labels)
        if cells is None:
            cells = self.values[labels] = Cells([0] * (len(self._bounds) + 1))
        # Not by `max`: all that happens passes here, and most of it is one call.
        if value < 0.0:  # noqa: PLR1730
            value = 0.0
        cells.counts[bisect_left(self._bounds, value)] += 1
        cells.total += value


Tally = Counts | Spreads
