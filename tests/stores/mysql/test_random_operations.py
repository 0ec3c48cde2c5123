"""Random operations from several stores: afterwards the store is consistent, and no caller has seen an error.

The model machine asks one thing after the other. Here many ask at once, and what each of them must be told depends on
the others; so only what holds in every order is judged.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from builders import claim, fresh_id, key, means, new_job
from rota.core.decision import cancel, decide, retry
from rota.core.errors import IllegalTransition
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Renewal, WorkerId
from rota.core.lifecycle import FINISHED, State
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Succeeded
from rota.core.settlement import JobError
from rota.core.submission import Dependency, Need, NewJob, Template
from rota.ports.store import JobQuery, Receipt, Retention
from rota.stores.mysql import MysqlStore

#: How long the turmoil lasts; at night longer, and with another seed.
SECONDS: Final = float(os.environ.get("ROTA_TURMOIL_SECONDS", "4"))
SEED: Final = int(os.environ.get("ROTA_TURMOIL_SEED", "0"))
STORES: Final = 3
TASKS_EACH: Final = 5
QUEUES: Final = ("default", "other")


class Turmoil:
    """A client that runs random verbs."""

    def __init__(self, store: MysqlStore, number: int, made: list[JobId]) -> None:
        self.store = store
        self.rng = random.Random(f"{SEED}-{number}")
        self.worker = WorkerId(f"worker-{number}", "boot")
        #: Shared by all workers of the test.
        self.made = made
        self.submitted = 0

    async def rage(self, until: float) -> None:
        acts: list[Callable[[], Awaitable[object]]] = [
            self.submit, self.submit, self.work, self.work, self.work, self.call_off, self.retry, self.keep_up,
            self.ask, self.forget,
        ]  # fmt: skip
        while asyncio.get_running_loop().time() < until:
            await self.rng.choice(acts)()

    async def submit(self) -> None:
        jobs = [self._draft() for _ in range(self.rng.choice([1, 1, 3, 20]))]
        answers = await self.store.insert(jobs)
        made = [answer.job_id for answer in answers if answer.receipt is Receipt.CREATED]
        self.submitted += len(made)
        self.made += made

    def _draft(self) -> NewJob:
        rng = self.rng
        soon = datetime.now(UTC) + timedelta(milliseconds=rng.choice([0, 0, 0, 20, 100]))
        parents = tuple(Dependency(job, rng.choice(list(Need))) for job in self._some(2)) if rng.random() < 0.3 else ()
        return new_job(
            rng.choice(["mail", "report"]),
            queue=rng.choice(QUEUES),
            priority=rng.randint(1, 10),
            run_at=soon,
            after=parents,
            tags=("t",) if rng.random() < 0.2 else (),
            idempotency=key(f"k{rng.randint(1, 30)}", keep=timedelta(milliseconds=50)) if rng.random() < 0.2 else None,
            expires_at=soon + timedelta(milliseconds=300) if rng.random() < 0.1 else None,
            on_success=Template("next") if rng.random() < 0.05 else None,
            max_attempts=2,
        )

    async def work(self) -> None:
        types = self.rng.choice([None, ("mail",), ("mail", "report", "next")])
        limit = self.rng.choice([1, 5, 30])
        lease = timedelta(milliseconds=self.rng.choice([50, 5000]))
        held = await self.store.claim(claim(self.worker, limit, queues=QUEUES, types=types, lease=lease))
        if held and self.rng.random() < 0.3:
            await self.store.renew([Renewal(job.id, job.fence, lease, progress="1") for job in held])
        settlements = [decide(job, self._outcome(), means(datetime.now(UTC))) for job in held]
        await self.store.settle(settlements)

    def _outcome(self) -> Outcome:
        failed = Failed(JobError("E", "no"), permanent=self.rng.random() < 0.3)
        others: list[Outcome] = [failed, Snoozed(timedelta(milliseconds=20)), Released()]
        return Succeeded(str(self.rng.randint(1, 3))) if self.rng.random() < 0.7 else self.rng.choice(others)

    async def call_off(self) -> None:
        jobs = await self.store.get(self._some(5))
        settlements = [one for job in jobs if job.state not in FINISHED for one in [cancel(job)] if one is not None]
        await self.store.settle(settlements)
        await self.store.ask_cancel([(job.id, job.fence) for job in jobs if job.state is State.RUNNING])

    async def retry(self) -> None:
        settlements = []
        for job in await self.store.get(self._some(5)):
            with suppress(IllegalTransition):
                settlements.append(retry(job, datetime.now(UTC)))
        await self.store.settle(settlements)

    async def keep_up(self) -> None:
        await self.store.promote(self.rng.choice([1, 100]))
        lost = await self.store.lost(20)
        await self.store.settle([decide(job, Lost(), means(datetime.now(UTC))) for job in lost])

    async def ask(self) -> None:
        await self.store.find(JobQuery(states=(State.PENDING, State.RUNNING), limit=20))
        census = await self.store.census()
        assert all(lane.count > 0 for lane in census.lanes)
        await self.store.timetable()

    async def forget(self) -> None:
        if self.rng.random() < 0.2:
            await self.store.prune(Retention(*[timedelta(milliseconds=400)] * 3), 50)
        else:
            await self.store.discard(self._some(2))

    def _some(self, number: int) -> list[JobId]:
        return list(dict.fromkeys(self.rng.choices(self.made[-200:], k=number))) if self.made else []


async def test_random_operations_leave_a_consistent_store(url: str) -> None:
    stores = [await MysqlStore.open(url) for _ in range(STORES)]
    made: list[JobId] = [fresh_id()]
    crowd = [Turmoil(store, number, made) for number, store in enumerate(stores * TASKS_EACH)]
    until = asyncio.get_running_loop().time() + SECONDS
    await asyncio.gather(*(one.rage(until) for one in crowd))
    first = stores[0]
    assert await first.check() == []
    census = await first.census()
    follow_ups = [job for job in await first.find(JobQuery(types=("next",), limit=1_000_000)) if job.parent_id]
    submitted = sum(one.submitted for one in crowd)
    assert submitted <= census.total() + sum(census.pruned.values()) <= submitted + len(follow_ups) + submitted
    await _end(first)
    assert await first.check() == []
    left = await first.find(JobQuery(limit=1_000_000))
    # What waits for a job that was there must be let go: blocked for ever is what a lost wait looks like.
    assert [job for job in left if job.state not in FINISHED] == []
    for store in stores:
        await store.close()


async def _end(store: MysqlStore) -> None:
    """Let all that still lives come to its end."""
    later = datetime.now(UTC) + timedelta(hours=1)
    give_up_at = asyncio.get_running_loop().time() + 60
    while asyncio.get_running_loop().time() < give_up_at:
        census = await store.census()
        if census.total() == census.total(*FINISHED):
            return
        await store.promote(10_000, now=later)
        waiting = await store.expired(10_000, now=later)
        lost = await store.lost(10_000, now=later)
        held: Sequence[Job] = await store.claim(claim(limit=500, queues=QUEUES), now=later)
        ends = [decide(job, Lost(), means(later)) for job in lost if job.state is State.RUNNING]
        ends += [one for job in waiting for one in [cancel(job)] if one is not None]
        ends += [decide(job, Succeeded(), means(later)) for job in held]
        await store.settle(ends, now=later)
