"""W10 on PostgreSQL: throughput while another session keeps a transaction open.

Rows deleted meanwhile cannot be vacuumed: a plain queue table steps over all of them at every claim.

A second database of the same server, without such a transaction, is the baseline; every worker alternates between both.
The speed of the disk changes by the minute, with checkpoints and other processes, and slows both alike: the effect of
the old transaction is the difference. It is held for twice as long, because the workers share their time between both
databases.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final

import asyncpg

from bench.fresh_stores import FreshStores
from bench.measure import percentile
from bench.workloads.results import Line, at_least, at_most, spread
from bench.workloads.w10_growth import claimed, new_job, settle
from rota.ports.store import Store
from rota.runtime.store import open_store

BUCKET_SECONDS: Final = 10.0
#: How many jobs wait in each.
_WAITING: Final = 5_000


@dataclass(frozen=True, slots=True)
class Seen:
    """One round: when it began, how long its claim and all of it took in seconds, and how many jobs it ran."""

    at: float
    claim: float
    whole: float
    jobs: int


@dataclass(slots=True)
class Side:
    """One of the two databases, and the rounds that were made in it."""

    store: Store
    seen: list[Seen] = field(default_factory=list)

    async def round(self, begun: float, batch: int) -> None:
        """Claim some jobs, settle them and submit as many."""
        started = time.perf_counter()
        leased = await claimed(self.store, batch)
        answered = time.perf_counter()
        await settle(self.store, leased)
        await self.store.insert([new_job() for _ in leased])
        self.seen.append(Seen(started - begun, answered - started, time.perf_counter() - started, len(leased)))


@dataclass(frozen=True, slots=True)
class Stretch:
    """What was seen of one side in so many seconds."""

    seconds: float
    rate: float
    milliseconds: tuple[float, ...]

    @property
    def p99(self) -> float:
        return percentile(self.milliseconds, 0.99)

    def __str__(self) -> str:
        return f"{self.rate:,.0f} jobs/s, claim {spread(self.milliseconds)}"


async def held(fresh_stores: FreshStores, *, seconds: float, workers: int = 4, batch: int = 50) -> list[Line]:
    """Compare the first seconds with those that follow, where a transaction is held open and where none is."""
    url = await fresh_stores.fresh()
    sides = [Side(await open_store(one)) for one in (url, await fresh_stores.fresh())]
    for side in sides:
        for _ in range(_WAITING // 1_000):
            await side.store.insert([new_job() for _ in range(1_000)])
    other = await asyncpg.connect(url)
    await other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await other.fetchval("SELECT count(*) FROM rota_job")
    begun = time.perf_counter()

    async def work(number: int) -> None:
        # Half of them begin with the one and half with the other.
        turns = cycle(sides[number % 2 :] + sides[: number % 2])
        while time.perf_counter() < begun + 2 * seconds:
            await next(turns).round(begun, batch)

    await asyncio.gather(*(work(number) for number in range(workers)))
    await other.execute("ROLLBACK")
    await other.close()
    for side in sides:
        await side.store.close()
    return compared(*(_stretches(side.seen, seconds, workers) for side in sides))


def _stretches(seen: Sequence[Seen], seconds: float, workers: int) -> list[Stretch]:
    """Cut the rounds into pieces: as long as said for each side by itself, and so twice as long for both."""
    width = 2 * min(BUCKET_SECONDS, seconds / 2)
    pieces = [[one for one in seen if int(one.at / width) == number] for number in range(int(2 * seconds / width))]
    return [
        Stretch(
            width,
            sum(one.jobs for one in piece) / sum(one.whole for one in piece) * workers,
            tuple(one.claim * 1000 for one in piece),
        )
        for piece in pieces
    ]


def compared(old: Sequence[Stretch], free: Sequence[Stretch]) -> list[Line]:
    """Judge what became of the side on which a transaction is held by what became of the other."""
    lines = []
    for number, (one, beside) in enumerate(zip(old, free, strict=True)):
        span = f"{number * one.seconds:.0f}-{(number + 1) * one.seconds:.0f} s"
        lines.append(Line(f"{span}, nothing held", str(beside)))
        lines.append(Line(f"{span}, held", str(one), "nothing held", one.rate / beside.rate))
    rate, rate_beside = old[-1].rate / old[0].rate, free[-1].rate / free[0].rate
    tail, tail_beside = old[-1].p99 / old[0].p99, free[-1].p99 / free[0].p99
    return [
        *lines,
        Line(
            "rate, last / first", f"{rate:.2f} and {rate_beside:.2f}", "nothing held", rate / rate_beside, at_least(0.8)
        ),
        Line(
            "claim p99, last / first",
            f"{tail:.2f} and {tail_beside:.2f}",
            "nothing held",
            tail / tail_beside,
            at_most(2),
        ),
    ]
