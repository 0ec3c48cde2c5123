"""Concurrent callers on one database: their answers must fit one order of the calls, by the reference model.

Each round has a few jobs and a few callers, each with a connection of its own and a script of random calls. The calls
run at once; the answers are recorded with the order of their beginnings and ends. What a caller was given (a lease) is
used by itself and by others, so stale fences, repeated ids and races between any two verbs come up in every round.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import pytest

from builders import BASE, Ids, ManualClock, at, claim, failure, means
from conformance.model.linearizable import Ask, Event, is_linearizable
from conformance.model.reference import Reference
from conformance.stores.adapters import SHARED, Adapter
from rota.core.decision import cancel, decide, retry
from rota.core.errors import IllegalTransition
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Renewal
from rota.core.lifecycle import FINISHED, State
from rota.core.outcome import Lost, Outcome, Released, Succeeded
from rota.core.settlement import Settlement
from rota.core.submission import Delivery, NewJob
from rota.ports.store import Store

ROUNDS: Final = int(os.environ.get("ROTA_CONCURRENT_ROUNDS", "200"))
SEED: Final = int(os.environ.get("ROTA_MODEL_SEED", "0"))
CALLERS: Final = 3
CALLS: Final = 7
LEASE: Final = timedelta(seconds=30)
#: Renewed at this time, a lease lasts beyond the time at which the others have lapsed.
RENEWED, LAPSED = at(20), at(31)


Way = Callable[[Store, JobId, Job | None], Awaitable[None]]


@dataclass
class Round:
    """Some jobs, the leases that were given of them, and what was answered about each job."""

    random: Random
    jobs: dict[JobId, NewJob]
    ticks: Iterator[int] = field(default_factory=count)
    leases: dict[JobId, list[Job]] = field(default_factory=dict)
    histories: dict[JobId, list[Event]] = field(default_factory=dict)

    async def live(self, store: Store) -> None:
        """Be one of the callers."""
        for _ in range(CALLS):
            job_id = self.random.choice(list(self.jobs))
            leases = self.leases.get(job_id, [])[-2:]
            ways: list[Way] = [self.submit, self.claim, self.look, self.cancel_or_retry]
            if leases:
                ways += [self.succeed, self.succeed, self.fail, self.renew, self.reap]
            await self.random.choice(ways)(store, job_id, self.random.choice(leases) if leases else None)

    async def submit(self, store: Store, job_id: JobId, _lease: Job | None) -> None:
        async def ask(asked: Store) -> str:
            return (await asked.insert([self.jobs[job_id]], now=BASE))[0].receipt

        await self._ask(store, job_id, "insert", ask)

    async def claim(self, store: Store, job_id: JobId, _lease: Job | None) -> None:
        """Claim one job, or whatever there is. What is not given says nothing: a claim passes over locked rows."""
        queue = self.jobs[job_id].queue
        ids = self.random.choice([None, (job_id,)])
        began = next(self.ticks)
        given = await store.claim(claim(limit=10, queues=(queue,), ids=ids, lease=LEASE), now=BASE)
        ended = next(self.ticks)
        for job in given:
            self.leases.setdefault(job.id, []).append(job)
            self._record(job.id, Event("claim", _claims(job.id, queue), [job.fence], began, ended))

    async def look(self, store: Store, job_id: JobId, _lease: Job | None) -> None:
        async def ask(asked: Store) -> list[tuple[State, int, int]]:
            return [(one.state, one.fence, one.attempts) for one in await asked.get([job_id])]

        await self._ask(store, job_id, "get", ask)

    async def cancel_or_retry(self, store: Store, job_id: JobId, _lease: Job | None) -> None:
        for job in await store.get([job_id]):
            with suppress(IllegalTransition):
                move = retry(job, BASE) if job.state in FINISHED else cancel(job)
                if move is not None:
                    await self._settle(store, move)

    async def succeed(self, store: Store, _job_id: JobId, lease: Job | None) -> None:
        await self._settle(store, decide(_sure(lease), Succeeded(), means()))

    async def fail(self, store: Store, _job_id: JobId, lease: Job | None) -> None:
        outcomes: list[Outcome] = [failure(permanent=True), Released()]
        outcome = self.random.choice(outcomes)
        await self._settle(store, decide(_sure(lease), outcome, means()))

    async def reap(self, store: Store, _job_id: JobId, lease: Job | None) -> None:
        await self._settle(
            store, replace(decide(_sure(lease), Lost(), means(LAPSED)), lapsed_at=_sure(lease).lease_until), LAPSED
        )

    async def renew(self, store: Store, job_id: JobId, lease: Job | None) -> None:
        renewal = Renewal(job_id, _sure(lease).fence, lease=LEASE)

        async def ask(asked: Store) -> list[JobId]:
            return [one.job_id for one in await asked.renew([renewal], now=RENEWED)]

        await self._ask(store, job_id, f"renew under fence {renewal.fence}", ask)

    async def _settle(self, store: Store, move: Settlement, now: datetime = BASE) -> None:
        async def ask(asked: Store) -> list[JobId]:
            return list(await asked.settle([move], now=now))

        await self._ask(store, move.job_id, f"{move.event} under fence {move.fence}", ask)

    async def _ask(self, store: Store, job_id: JobId, name: str, ask: Ask) -> None:
        began = next(self.ticks)
        answer = await ask(store)
        self._record(job_id, Event(name, ask, answer, began, next(self.ticks)))

    def _record(self, job_id: JobId, event: Event) -> None:
        self.histories.setdefault(job_id, []).append(event)


def _sure(lease: Job | None) -> Job:
    assert lease is not None
    return lease


def _claims(job_id: JobId, queue: str) -> Ask:
    async def ask(asked: Store) -> list[int]:
        wanted = claim(limit=1, queues=(queue,), ids=(job_id,), lease=LEASE)
        return [job.fence for job in await asked.claim(wanted, now=BASE)]

    return ask


@pytest.fixture
async def callers(adapter: Adapter, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Stores with connections of their own, on one database."""
    async for place in adapter.place(tmp_path):
        stores = [await adapter.open(place, ManualClock()) for _ in range(CALLERS)]
        yield stores
        for store in stores:
            await store.close()


@pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name)
async def test_concurrent_answers_fit_one_order_of_the_calls(callers: list[Store]) -> None:
    """On failure the history of the job is printed; with another ROTA_MODEL_SEED other scripts are run."""
    random, ids = Random(SEED), Ids()
    for number in range(ROUNDS):
        delivery = random.choice(list(Delivery))
        jobs = [NewJob(ids(), "race", queue=f"q{number}", max_attempts=9, delivery=delivery) for _ in range(2)]
        this = Round(random, {job.id: job for job in jobs})
        await asyncio.gather(*map(this.live, callers))
        for history in this.histories.values():
            answer = "\n".join(map(str, sorted(history, key=lambda event: event.began)))
            assert is_linearizable(history, Reference(clock=ManualClock())), f"round {number}:\n{answer}"
