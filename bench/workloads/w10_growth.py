"""W10: what a claim costs when a million jobs wait, are yet to come, are kept, or are suspended.

Each case is a database of its own beside one with 10,000 jobs waiting, and claims go round all of them in turn: what
disturbs the machine meanwhile disturbs them alike. What is claimed is settled and as much is submitted again, so that
the line stays as long as it was.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Final

from bench.ceilings.rows import PAYLOAD
from bench.fresh_stores import FreshStores
from bench.measure import percentile
from bench.workloads.results import Line, Target, at_most, spread
from rota.core.decision import DecisionInputs, decide
from rota.core.ids import JobId, compose
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Succeeded, Suspended
from rota.core.step import StepKind
from rota.core.submission import NewJob
from rota.core.waiting import Wait
from rota.ports.store import Store
from rota.runtime.store import open_store

WORKER: Final = WorkerId("bench", "boot")
LEASE: Final = timedelta(minutes=5)
#: How many wait in every case that is not about how many wait.
FEW: Final = 10_000
MANY: Final = 1_000_000
#: Claims of each size in each case, a quarter as many of the larger ones.
ROUNDS: Final = 3_000
#: How suspended jobs wait: for a month, and for an event.
ASLEEP: Final = Wait("trial", StepKind.SLEEP, span=timedelta(days=30))
EVENT: Final = Wait("paid", StepKind.EVENT, span=timedelta(days=30), event="paid")
_numbers = count(1)


def new_job(*, run_at: datetime | None = None, priority: int = 5) -> NewJob:
    """Make a job with an id as the engine makes them: of now, and in order."""
    job_id = JobId(compose(int(time.time() * 1000), next(_numbers)))
    return NewJob(job_id, "mail", PAYLOAD, run_at=run_at, priority=priority)


async def claimed(store: Store, limit: int) -> list[Job]:
    return list(await store.claim(Claim(WORKER, limit, types=("mail",), lease=LEASE)))


async def settle(store: Store, leased: list[Job]) -> None:
    means = DecisionInputs(datetime.now(UTC))
    await store.settle([decide(job, Succeeded("1"), means) for job in leased])


async def suspend(store: Store, job: Job, wait: Wait) -> None:
    """Leave a job to its wait, as its handler would."""
    step = await store.begin_wait(job.id, job.fence, wait)
    assert step is not None
    await store.settle([decide(job, Suspended(wait.key), DecisionInputs(datetime.now(UTC), step=step))])


@dataclass(slots=True)
class Case:
    """A database in some condition, and how long claims took in it, by their size."""

    name: str
    target: Target | None = None
    waiting: int = FEW
    future: int = 0
    kept: int = 0
    #: Suspended jobs that wait for this, and how many.
    wait: Wait | None = None
    suspended: int = 0
    store: Store = field(init=False)
    times: dict[int, list[float]] = field(init=False, default_factory=dict)

    async def prepare(self, fresh_stores: FreshStores) -> None:
        url = await fresh_stores.fresh()
        self.store = await open_store(url)
        if self.kept:
            model = new_job()
            await self.store.insert([model])
            await settle(self.store, await claimed(self.store, 1))
            await fresh_stores.copy(url, model.id, self.kept - 1)
        if self.wait is not None:
            model = new_job()
            await self.store.insert([model])
            (held,) = await claimed(self.store, 1)
            await suspend(self.store, held, self.wait)
            await fresh_stores.copy(url, model.id, self.suspended - 1)
        if self.future:
            model = new_job(run_at=datetime.now(UTC) + timedelta(days=30), priority=10)
            await self.store.insert([model])
            await fresh_stores.copy(url, model.id, self.future - 1)
        model = new_job()
        await self.store.insert([model])
        await fresh_stores.copy(url, model.id, self.waiting - 1)
        await fresh_stores.rest(url)

    async def claim_once(self, limit: int) -> float:
        begun = time.perf_counter()
        leased = await claimed(self.store, limit)
        took = (time.perf_counter() - begun) * 1000
        assert len(leased) == limit, f"{self.name}: {len(leased)} of {limit} jobs claimed"
        await settle(self.store, leased)
        await self.store.insert([new_job() for _ in leased])
        return took


def cases(largest: int) -> list[Case]:
    """Return the cases, the one that the others are compared with first."""
    few, many = min(FEW, largest), min(MANY, largest)
    sizes = [size for size in (100_000, MANY, 5 * MANY) if size <= largest] or [largest]
    return [
        Case(f"{few:,} waiting", waiting=few),
        # What the same differs from itself by: the disk's noise, of which a p99 is mostly made.
        Case(f"{few:,} waiting, once more", waiting=few),
        *(Case(f"{size:,} waiting", at_most(1.5), waiting=size) for size in sizes),
        Case(f"{many:,} future, higher priority", at_most(1.2), waiting=few, future=many),
        Case(f"{many:,} completed, kept", at_most(1.2), waiting=few, kept=many),
        Case(f"{many:,} asleep", at_most(1.2), waiting=few, wait=ASLEEP, suspended=many),
        Case(f"{many:,} waiting for an event", at_most(1.2), waiting=few, wait=EVENT, suspended=many),
    ]


async def claim_growth(fresh_stores: FreshStores, *, largest: int, rounds: int) -> list[Line]:
    """Time claims of one and of fifty jobs in all cases."""
    rng = Random(1)
    prepared = cases(largest)
    for case in prepared:
        await case.prepare(fresh_stores)
    try:
        for limit, times in ((1, rounds), (50, rounds // 4)):
            for number in range(times + 20):
                for case in rng.sample(prepared, len(prepared)):
                    took = await case.claim_once(limit)
                    if number >= 20:
                        case.times.setdefault(limit, []).append(took)
    finally:
        for case in prepared:
            await case.store.close()
    base, *others = prepared
    return [line for limit in (1, 50) for line in _lines(base, others, limit)]


def _lines(base: Case, others: list[Case], limit: int) -> list[Line]:
    few = base.times[limit]
    lines = [Line(f"claim of {limit}, {base.name}", spread(few))]
    for case in others:
        many = case.times[limit]
        slow, middle = (percentile(many, share) / percentile(few, share) for share in (0.99, 0.5))
        name = f"claim of {limit}, {case.name}"
        lines.append(Line(name, spread(many), f"{base.name}; p50 {middle:.2f}, p99:", slow, case.target))
    return lines
