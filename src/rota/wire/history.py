"""The history of counts: buckets of time with counts of jobs and histograms of their times."""

from __future__ import annotations

from msgspec import Struct

from rota.core.history import COUNTERS, MEASURES, Tally
from rota.wire.scalars import Count, Moment, Seconds


class Percentiles(Struct, kw_only=True):
    """Seconds below which half, 95 % and 99 % of the values lie; null without values."""

    p50: Seconds | None
    p95: Seconds | None
    p99: Seconds | None


class TallyForm(Struct, kw_only=True):
    """Counts of jobs and histograms of their times.

    `failed` counts attempts, `dead` jobs that failed for good, `lost` leases that lapsed. `wait` is the time from due
    to start, `duration` that of an attempt, `lateness` that of schedules. A histogram has one count for each bound,
    and one more for values above the last.
    """

    submitted: Count
    started: Count
    succeeded: Count
    failed: Count
    dead: Count
    lost: Count
    wait: list[Count]
    duration: list[Count]
    lateness: list[Count]


class HistoryBucket(TallyForm, kw_only=True):
    """The counts of one bucket. `key` is the queue or the type; null in total."""

    at: Moment
    key: str | None = None


class HistoryForm(Struct, kw_only=True):
    """Buckets of equal length, oldest first; those without counts are left out. `total` is the sum of all."""

    since: Moment
    until: Moment
    step: Seconds
    by: str
    #: Upper bounds of the histograms in seconds.
    bounds: list[Seconds]
    buckets: list[HistoryBucket]
    total: TallyForm
    percentiles: dict[str, Percentiles]


def tally_fields(tally: Tally) -> dict[str, object]:
    return {name: tally.counts[name] for name in COUNTERS} | {name: tally.buckets(name) for name in MEASURES}


def tally_form(tally: Tally) -> TallyForm:
    return TallyForm(**tally_fields(tally))  # type: ignore[arg-type] # the names are the fields'


def percentiles_of(tally: Tally) -> dict[str, Percentiles]:
    return {
        name: Percentiles(
            p50=tally.percentile(name, 0.5), p95=tally.percentile(name, 0.95), p99=tally.percentile(name, 0.99)
        )
        for name in MEASURES
    }
