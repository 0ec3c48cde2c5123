"""Histogram of the jobs of a search by time, for the chart above a list.

A search for queues, types or completed jobs is answered from the history of counts. For any other search the jobs
themselves are read, the newest first, for a short time: on a large store the histogram then covers the latest jobs
only, and says so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from rota.core.history import BucketLength, HistoryQuery
from rota.core.lifecycle import State
from rota.core.time import from_micros, to_micros
from rota.core.value import value
from rota.engine.deps import EngineDeps
from rota.ports.store import JobQuery

#: For how long jobs are read at most, and how many.
READ_SECONDS: Final = 0.1
MOST_READ: Final = 5_000
_BATCH: Final = 100
MOST_BARS: Final = 60
#: Lengths of bars in seconds.
_STEPS: Final = (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 6 * 3_600, 12 * 3_600, 86_400, 2 * 86_400, 7 * 86_400,
    30 * 86_400, 365 * 86_400,
)  # fmt: skip
_USUAL_SPAN: Final = timedelta(hours=24)


@value
class Histogram:
    """Counts of jobs by time, from `since` on in bars of `step`, empty ones included.

    `by` is the time that counts: `created`, or `finished` for a list of finished jobs. `is_partial`: jobs before
    `since` match, too, but were not read.
    """

    by: str
    since: datetime
    step: timedelta
    counts: Sequence[int]
    is_partial: bool


class JobHistogram:
    """Makes histograms of searches."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def of(self, query: JobQuery, now: datetime) -> Histogram:
        """Return the histogram of the jobs that match a query."""
        counter = _counter_of(query)
        until = min(query.created_until or now, now)
        since = query.created_from or until - _USUAL_SPAN
        if counter is not None and timedelta(0) < until - since and since >= now - BucketLength.HOUR.kept:
            return await self._counted(query, counter, since, until, now)
        return await self._read(query, until)

    async def _counted(
        self, query: JobQuery, counter: str, since: datetime, until: datetime, now: datetime
    ) -> Histogram:
        """Add up the history of counts of the queues and types."""
        by_lane = bool(query.queues or query.types)
        # Minutes of all lanes of a day would be a hundred thousand rows.
        longest = timedelta(hours=2 if by_lane else 24)
        is_recent = since >= now - BucketLength.MINUTE.kept
        length = BucketLength.MINUTE if is_recent and until - since <= longest else BucketLength.HOUR
        step = _step(until - since, least=length)
        lanes = HistoryQuery(length, _start(since, step), until, by_lane=by_lane)
        times: Counter[datetime] = Counter()
        for bucket in await self._deps.store.history(lanes):
            is_meant = (not query.queues or bucket.lane.queue in query.queues) and (
                not query.types or bucket.lane.type in query.types
            )
            if is_meant:
                times[bucket.at] += bucket.tally.counts[counter]
        by = "created" if counter == "submitted" else "finished"
        return _histogram(by, times, since, until, step, is_partial=query.created_from is None)

    async def _read(self, query: JobQuery, until: datetime) -> Histogram:
        """Read the newest jobs, as far as the time allows."""
        give_up_at = time.monotonic() + READ_SECONDS
        by = "finished" if query.is_by_finish else "created"
        times: Counter[datetime] = Counter()
        count, rest, is_partial = 0, replace(query, limit=_BATCH), False
        while True:
            job_slice = await self._deps.store.find_some(rest)
            times.update(
                (job.finished_at or job.created_at) if query.is_by_finish else job.created_at for job in job_slice.jobs
            )
            count += len(job_slice.jobs)
            if job_slice.resume is None:
                break
            if count >= MOST_READ or time.monotonic() > give_up_at:
                is_partial = True
                break
            rest = rest.behind(job_slice.resume)
        since = min(times, default=until - _USUAL_SPAN)
        until = max(until, max(times, default=until))
        return _histogram(by, times, since, until, _step(until - since), is_partial=is_partial)


def _counter_of(query: JobQuery) -> str | None:
    """Return the counter of the history that has the jobs of a query; None if none has."""
    has_more = (
        query.terms
        or query.ids
        or any(one is not None for one in (query.tag, query.worker, query.fingerprint, query.schedule_id))
    )
    if has_more:
        return None
    if not query.states:
        return "submitted"
    by_creation = query.created_from is not None or query.created_until is not None
    return "succeeded" if query.states == (State.COMPLETED,) and not by_creation else None


def _histogram(
    by: str, times: Counter[datetime], since: datetime, until: datetime, step: timedelta, *, is_partial: bool
) -> Histogram:
    first = _start(since, step)
    counts = [0] * (max((until - first) // step, 0) + 1)
    for at, count in times.items():
        place = (at - first) // step
        if 0 <= place < len(counts):
            counts[place] += count
    return Histogram(by, first, step, counts, is_partial)


def _step(span: timedelta, *, least: int = 1) -> timedelta:
    """Return the shortest step that makes few enough bars."""
    seconds = max(span.total_seconds(), 1.0)
    return timedelta(
        seconds=next(one for one in _STEPS if one >= least and (seconds / one <= MOST_BARS or one == _STEPS[-1]))
    )


def _start(moment: datetime, step: timedelta) -> datetime:
    micros, length = to_micros(moment), round(step.total_seconds() * 1_000_000)
    return from_micros(micros - micros % length)
