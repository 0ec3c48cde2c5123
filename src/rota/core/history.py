"""History: counts of jobs and histograms of their times in buckets of a minute or an hour, for charts and percentiles.

Every process counts the jobs that pass through it and adds its counts to the buckets in the store every few seconds
(`rota.runtime.history`). So charts never read jobs. Counts and histograms are mergeable: of several processes, lanes
or buckets the sum is exact. A percentile is as exact as the bounds of the histograms.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from rota.core.queue import Lane
from rota.core.time import from_micros
from rota.core.value import value

#: What is counted. `failed` counts attempts, `dead` the jobs that failed for good, `lost` lapsed leases.
COUNTERS: Final = ("submitted", "started", "succeeded", "failed", "dead", "lost")
#: What is measured: from due to start, from start to end, and from fire time to the recording of a schedule's job.
MEASURES: Final = ("wait", "duration", "lateness")
#: Upper bounds of the histograms' buckets in seconds; the last bucket has none.
BOUNDS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0,
    1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0,
)  # fmt: skip
#: The lane of all jobs together; no queue and no type has an empty name.
TOTAL: Final = Lane("", "")
#: The lane of those beyond `MOST_LANES`.
OTHER: Final = Lane("other", "other")
#: How many lanes a bucket has at most, `TOTAL` and `OTHER` not counted.
MOST_LANES: Final = 100


class BucketLength(IntEnum):
    """The length of a stored bucket in seconds."""

    MINUTE = 60
    HOUR = 3600

    @property
    def kept(self) -> timedelta:
        """How long buckets of this length are kept."""
        return timedelta(hours=48) if self is BucketLength.MINUTE else timedelta(days=90)

    def start_of(self, micros: int) -> int:
        """Return the start of the bucket that a time belongs to, both in microseconds since 1970."""
        return micros - micros % (self * 1_000_000)


@dataclass(slots=True)
class Tally:
    """Counts and histograms of one lane in one span of time. Not frozen: every job adds to one."""

    counts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    #: By measure, the number of values in each bucket, by the index of its bound.
    histograms: dict[str, dict[int, int]] = field(default_factory=dict)

    def measure(self, name: str, seconds: float) -> None:
        """Count a value; a negative one, which a clock step can cause, counts as zero."""
        buckets = self.histograms.setdefault(name, {})
        index = bisect_left(BOUNDS, seconds)
        buckets[index] = buckets.get(index, 0) + 1

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for name, count in other.counts.items():
            self.counts[name] += count
        for name, added in other.histograms.items():
            buckets = self.histograms.setdefault(name, {})
            for index, count in added.items():
                buckets[index] = buckets.get(index, 0) + count

    def percentile(self, measure: str, share: float) -> float | None:
        """Return the bound below which a share of the values lies; None without values.

        For values above the last bound it is the last bound.
        """
        buckets = self.histograms.get(measure, {})
        left = sum(buckets.values()) * share
        for index in sorted(buckets):
            left -= buckets[index]
            if left <= 0:
                return BOUNDS[min(index, len(BOUNDS) - 1)]
        return None

    def buckets(self, measure: str) -> list[int]:
        """Return the counts of a histogram, one for each bound and one for what is above the last."""
        counts = self.histograms.get(measure, {})
        return [counts.get(index, 0) for index in range(len(BOUNDS) + 1)]

    def to_text(self) -> str:
        """Return it as JSON, as it is stored."""
        return json.dumps({**self.counts, **self.histograms}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Tally:
        tally = cls()
        for name, number in json.loads(text).items():
            if isinstance(number, dict):
                tally.histograms[name] = {int(index): count for index, count in number.items()}
            else:
                tally.counts[name] = number
        return tally


@value
class Counted:
    """What a process has counted in a short span of time, by lane; `age` is how long ago that was."""

    age: timedelta
    lanes: Mapping[Lane, Tally]


@value
class HistoryFlush:
    """Counts that a process adds to the history. The same number of the same writer is added once."""

    writer: str
    number: int
    counted: Sequence[Counted]


@value
class Bucket:
    """The counts of one lane in one stored bucket."""

    at: datetime
    lane: Lane
    tally: Tally


@value
class HistoryQuery:
    """Which stored buckets to read: of one length, from `since` on and before `until`, by lane or in total."""

    step: BucketLength
    since: datetime
    until: datetime
    by_lane: bool = False


#: Stored buckets by length and start in microseconds, then by lane.
Merged = dict[tuple[BucketLength, int], dict[Lane, Tally]]


def by_bucket(counted: Iterable[Counted], now: int) -> Merged:
    """Return what to add to which stored bucket, of both lengths, with the total of all lanes."""
    merged: Merged = {}
    for one in counted:
        at = now - round(one.age.total_seconds() * 1_000_000)
        for step in BucketLength:
            lanes = merged.setdefault((step, step.start_of(at)), {})
            for lane, tally in one.lanes.items():
                lanes.setdefault(lane, Tally()).add(tally)
                lanes.setdefault(TOTAL, Tally()).add(tally)
    return merged


def add_to_bucket(stored: Mapping[Lane, Tally], added: Mapping[Lane, Tally]) -> dict[Lane, Tally]:
    """Return the changed lanes of a stored bucket. A new lane beyond the limit is counted as `OTHER`."""
    room = MOST_LANES - len(stored.keys() - {TOTAL, OTHER})
    changed: dict[Lane, Tally] = {}
    for lane, tally in added.items():
        is_known = lane in stored or lane in {TOTAL, OTHER}
        room -= not is_known
        target = lane if is_known or room >= 0 else OTHER
        if target not in changed:
            changed[target] = stored.get(target, Tally())
        changed[target].add(tally)
    return changed


def bucket_of(at: int, queue: str, type_: str, text: str) -> Bucket:
    """Read a stored row."""
    return Bucket(from_micros(at), Lane(queue, type_), Tally.from_text(text))
