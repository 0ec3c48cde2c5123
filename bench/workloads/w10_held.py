"""W10 on PostgreSQL: jobs run on while somebody else keeps a transaction open.

Nothing that dies meanwhile can be cleared away: the usual queue steps over all of it at every claim.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import asyncpg

from bench.measure import percentile
from bench.places import Place
from bench.workloads.lines import Line, at_least
from bench.workloads.w10_growth import claimed, new_job, settle
from rota.runtime.store import open_store

BUCKET_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One claim: when it began, how many milliseconds it took, and how many jobs it gave."""

    at: float
    took: float
    jobs: int


async def held(place: Place, *, seconds: float, workers: int = 4, batch: int = 50) -> list[Line]:
    """Compare jobs per second in the first ten seconds with those in each that follow, and in the last."""
    url = await place.fresh()
    store = await open_store(url)
    for _ in range(5):
        await store.insert([new_job() for _ in range(1_000)])
    other = await asyncpg.connect(url)
    await other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await other.fetchval("SELECT count(*) FROM job")
    seen: list[Seen] = []
    begun = time.perf_counter()

    async def work() -> None:
        while (started := time.perf_counter()) < begun + seconds:
            leased = await claimed(store, batch)
            ended = time.perf_counter()
            seen.append(Seen(started - begun, (ended - started) * 1000, len(leased)))
            await settle(store, leased)
            await store.insert([new_job() for _ in leased])

    await asyncio.gather(*(work() for _ in range(workers)))
    await other.execute("ROLLBACK")
    await other.close()
    await store.close()
    return _lines(seen, seconds)


def _lines(seen: list[Seen], seconds: float) -> list[Line]:
    width = min(BUCKET_SECONDS, seconds / 2)
    buckets = [
        [one for one in seen if start * width <= one.at < (start + 1) * width] for start in range(int(seconds / width))
    ]
    rates = [sum(one.jobs for one in bucket) / width for bucket in buckets]
    lines = []
    for number, (bucket, rate) in enumerate(zip(buckets, rates, strict=True)):
        times = [one.took for one in bucket]
        figure = f"{rate:,.0f} jobs/s, claim p50 {percentile(times, 0.5):.2f} / p99 {percentile(times, 0.99):.2f} ms"
        is_last = number == len(buckets) - 1
        name = f"held for {number * width:.0f}-{(number + 1) * width:.0f} s"
        target = at_least(0.8) if is_last else None
        lines.append(Line(name, figure, f"the first {width:.0f} s" if number else "", rate / rates[0], target))
    return lines
