"""Backlog of a queue: how fast its jobs start, and from that when a place is free and when a waiting job starts.

The rate is read from the history of counts by minute; no job is read. Counts reach the history ten seconds late, and
rates change: the results are estimates, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from rota.core.history import Bucket
from rota.core.value import value

#: The span of the history from which a rate is taken.
RATE_WINDOW: Final = timedelta(minutes=5)
#: A shorter span says little: a rate is never taken over less.
_SHORTEST: Final = timedelta(seconds=30)
#: The `Retry-After` of a full queue of which no job has started lately.
_UNKNOWN: Final = timedelta(minutes=1)
_LEAST, _MOST = timedelta(seconds=1), timedelta(hours=1)


@value
class Backlog:
    """The jobs that wait in a queue, and how many of it start in a second; 0 if none did lately."""

    waiting: int
    starts_per_second: float
    #: When a paused queue is resumed by itself; None if it is not paused or has no such time.
    resume_at: datetime | None = None
    is_paused: bool = False

    @property
    def position(self) -> int:
        """The place of a new job: 1 is the next to start."""
        return self.waiting + 1

    def expected_start(self, now: datetime, ahead: int) -> datetime | None:
        """Estimate when a job starts that waits behind `ahead` others; None if the rate is not known."""
        if not self.starts_per_second or (self.is_paused and self.resume_at is None):
            return None
        since = max(now, self.resume_at) if self.is_paused and self.resume_at is not None else now
        return since + timedelta(seconds=(ahead + 1) / self.starts_per_second)

    def retry_after(self, now: datetime) -> timedelta:
        """Estimate when there is a place for another job: after the next start."""
        start = self.expected_start(now, 0)
        wait = _UNKNOWN if start is None else start - now
        return timedelta(seconds=ceil(min(max(wait, _LEAST), _MOST).total_seconds()))


def start_rate(buckets: Iterable[Bucket], queue: str, now: datetime) -> float:
    """Return how many jobs of a queue start in a second, by the buckets of minutes of the last `RATE_WINDOW`."""
    own = [bucket for bucket in buckets if bucket.lane.queue == queue and bucket.tally.counts.get("started")]
    if not own:
        return 0.0
    started = sum(bucket.tally.counts["started"] for bucket in own)
    span = max(now - min(bucket.at for bucket in own), _SHORTEST)
    return started / span.total_seconds()
