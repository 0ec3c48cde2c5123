"""Random walks of jobs under limits, on each store: a model counts what runs and starts, and what could start.

Jobs are submitted, moved, retried, cancelled and put off, workers die, limits are set, closed and deleted, and the
clock is set. Whatever happens, each claim keeps to all limits, no claim leaves behind what all limits allow, and in the
end every job ends and no permit is held.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import MINUTE, SECOND, ManualClock, claim, error, new_job
from conformance.stores.adapters import BY_NAME, STORES, Adapter
from rota.brokers.in_store import InStoreBroker
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.job_edit import JobEdit
from rota.core.lease import WorkerId
from rota.core.lifecycle import FINISHED, State
from rota.core.limit import STRICT, Limit, key_limit, limit_of_key, names_of
from rota.core.outcome import Failed, Outcome, Released, Snoozed, Succeeded
from rota.core.retry import Backoff
from rota.core.time import to_micros
from rota.engine import Engine
from rota.ports.client import Actor, AttemptReport
from rota.ports.store import JobQuery, Store

OPERATOR = Actor("ada")
QUEUES, TYPES = ("default", "side"), ("mail", "report")
KEYS = (None, None, "a", "b", "mail:1", "mail:2", "in-order")
LEASE = timedelta(seconds=20)
#: What limits may be set to.
CHOICES = (
    Limit("queue:default", 2),
    Limit("queue:default", 3, "4/s burst 2"),
    Limit("queue:side", 1),
    Limit("task:mail", per_key_max_running=2),
    Limit("task:mail", 2, per_key_max_running=1, weight=2),
    Limit("task:report", rate_limit="2/s, 20/m"),
    Limit("key:a", 3),
    Limit("key:b", rate_limit="1/s"),
    Limit("key:in-order", order=STRICT),
)
STEPS = (
    *("submit", "submit", "start", "start", "start", "end", "end", "wait", "drain"),
    *("kill", "cancel", "retry", "run_now", "edit", "set_limit", "close", "open", "delete", "step_clock"),
)


@dataclass
class Walk:
    """One deployment: what is limited, what runs, and when jobs have started under each limit since it was set."""

    stores: Sequence[Store]
    engine: Engine
    clock: ManualClock
    chance: Random
    limits: dict[str, Limit] = field(default_factory=dict)
    running: dict[JobId, Job] = field(default_factory=dict)
    starts: dict[str, list[int]] = field(default_factory=dict)
    submitted: list[JobId] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return self.stores[0]

    async def walk(self, steps: Sequence[str]) -> None:
        for step in steps:
            await getattr(self, step)()
        await self.recover()

    # What is done

    async def submit(self) -> None:
        jobs = [
            new_job(
                self.chance.choice(TYPES),
                queue=self.chance.choice(QUEUES),
                concurrency_key=self.chance.choice(KEYS),
                priority=self.chance.choice((3, 5, 5, 9)),
                run_at=self.clock() + self.chance.choice((0, 0, 0, 3)) * SECOND,
                max_attempts=50,
                backoff=Backoff(base=SECOND, cap=SECOND, jitter=0),
            )
            for _ in range(self.chance.randint(1, 5))
        ]
        self.submitted += [job.id for job in jobs]
        await self.store.insert(jobs)

    async def start(self, limit: int | None = None) -> int:
        await self.engine.upkeep.promote(1000)
        worker = WorkerId(f"w{self.chance.randint(1, 3)}", "b")
        store = self.chance.choice(self.stores)
        wanted = claim(worker, limit or self.chance.randint(1, 4), queues=QUEUES, types=(*TYPES,), lease=LEASE)
        jobs = await store.claim(wanted)
        self.running |= {job.id: job for job in jobs}
        for job in jobs:
            await self.judge(job)
        return len(jobs)

    async def end(self) -> None:
        held = list(self.running.values())
        for job in self.chance.sample(held, min(2, len(held))):
            outcomes: tuple[Outcome, ...] = (Succeeded(), Succeeded(), Failed(error()), Snoozed(SECOND), Released())
            await self.settle(job, self.chance.choice(outcomes))

    async def settle(self, job: Job, outcome: Outcome) -> None:
        await self.engine.settle([AttemptReport(job.id, job.fence, outcome)])
        del self.running[job.id]

    async def wait(self) -> None:
        self.clock.move(self.chance.choice((0.1, 0.5, 2, 7)) * SECOND)

    async def drain(self) -> None:
        """Claim until there is nothing: then nothing is left that all limits allow."""
        empty = 0
        while empty < 2:
            empty = 0 if await self.start(20) else empty + 1
        for job in await self.store.find(JobQuery(states=(State.PENDING,), limit=1000)):
            assert not await self.could_start(job), f"{job} was left behind; {self.limits}; {Counter(self._names())}"

    async def kill(self) -> None:
        """A worker dies with all it holds; after a while its jobs are taken from it."""
        name = f"w{self.chance.randint(1, 3)}"
        lost = {job_id for job_id, job in self.running.items() if job.worker == name}
        self.clock.move(LEASE / 2)
        for job in [job for job_id, job in self.running.items() if job_id not in lost]:
            await self.settle(job, Succeeded())
        self.clock.move(LEASE)
        await self.reap()

    async def reap(self) -> None:
        """Take lapsed leases back. After the clock was set back they last longer."""
        await self.engine.upkeep.reap(1000)
        held = {job.id for job in await self.store.get(sorted(self.running)) if job.state is State.RUNNING}
        self.running = {job_id: job for job_id, job in self.running.items() if job_id in held}

    async def cancel(self) -> None:
        await self._act(self.engine.jobs.cancel, State.PENDING, State.SCHEDULED, State.RETRYING)

    async def retry(self) -> None:
        await self._act(self.engine.jobs.retry, State.DEAD, State.CANCELLED)

    async def run_now(self) -> None:
        await self._act(self.engine.jobs.run_now, State.SCHEDULED, State.RETRYING)

    async def _act(self, act: object, *states: State) -> None:
        for job in await self.store.find(JobQuery(states=states, limit=1)):
            assert callable(act)
            await act([job.id], OPERATOR)

    async def edit(self) -> None:
        for job in await self.store.find(JobQuery(states=(State.PENDING, State.SCHEDULED), limit=1)):
            change = JobEdit(queue=self.chance.choice(QUEUES), priority=self.chance.choice((1, 9)))
            await self.engine.jobs.edit(job.id, change, OPERATOR)

    async def set_limit(self) -> None:
        limit = self.chance.choice(CHOICES)
        await self.engine.limits.put(limit, OPERATOR)
        closed_until = self.limits.get(limit.name, limit).closed_until
        self.limits[limit.name] = replace(limit, closed_until=closed_until)
        self.starts.clear()

    async def close(self) -> None:
        name = self.chance.choice(CHOICES).name
        until = self.clock() + self.chance.choice((2, 5)) * SECOND
        await self.engine.limits.close(name, until, "429", OPERATOR)
        self.limits[name] = replace(self.limits.get(name, Limit(name)), closed_until=until)

    async def open(self) -> None:
        for name, limit in list(self.limits.items()):
            await self.engine.limits.open(name, OPERATOR)
            self.limits[name] = replace(limit, closed_until=None)
            if self.limits[name].is_empty:
                del self.limits[name]

    async def delete(self) -> None:
        name = self.chance.choice(CHOICES).name
        await self.engine.limits.delete(name, OPERATOR)
        self.limits.pop(name, None)

    async def step_clock(self) -> None:
        self.clock.step(self.chance.choice((-600, -3, 4)) * SECOND)
        self.starts.clear()

    # What must hold

    def _names(self) -> list[str]:
        return [name for job in self.running.values() for name in names_of(job.queue, job.type, job.concurrency_key)]

    def _limit(self, name: str, job: Job) -> Limit | None:
        if job.concurrency_key is not None and name == key_limit(job.concurrency_key):
            return limit_of_key(job.concurrency_key, job.type, self.limits)
        return self.limits.get(name)

    async def judge(self, job: Job) -> None:
        """Hold a job that has just started to all its limits."""
        running = Counter(self._names())
        for name in names_of(job.queue, job.type, job.concurrency_key):
            limit = self._limit(name, job)
            if limit is None:
                continue
            assert limit.max_running is None or running[name] <= limit.max_running, f"{running[name]} under {limit}"
            assert not limit.is_closed(self.clock()), f"{job.id} started under {limit} at {self.clock()}"
            if limit.rates:
                self._judge_rates(name, limit)
        assert await self._is_next(job), f"{job.id} started before those that were submitted before it"

    def _judge_rates(self, name: str, limit: Limit) -> None:
        starts = self.starts.setdefault(name, [])
        starts.append(to_micros(self.clock()))
        for rate in limit.rates:
            for number, begun in enumerate(reversed(starts), 1):
                assert number <= rate.burst + (starts[-1] - begun) / rate.interval, f"{number} started under {limit}"

    async def could_start(self, job: Job) -> bool:
        """Whether all limits of a pending job allow it to start; of rates it is not known here."""
        running = Counter(self._names())
        for name in names_of(job.queue, job.type, job.concurrency_key):
            limit = self._limit(name, job)
            if limit is None:
                continue
            if limit.rates or limit.is_closed(self.clock()):
                return False
            if limit.max_running is not None and running[name] >= limit.max_running:
                return False
        return job.run_at <= self.clock() and await self._is_next(job)

    async def _is_next(self, job: Job) -> bool:
        """Whether all jobs of a key in strict order that were submitted before this one have ended."""
        key = job.concurrency_key
        if key is None or limit_of_key(key, job.type, self.limits).order != STRICT:
            return True
        before = await self.store.get([one for one in self.submitted if one < job.id])
        return all(one.state in FINISHED for one in before if one.concurrency_key == key)

    async def recover(self) -> None:
        """Without closed limits all jobs end, and no permit is held."""
        await self.open()
        for _ in range(400):
            await self.start(20)
            for job in list(self.running.values()):
                await self.settle(job, Succeeded())
            self.clock.move(MINUTE)
            await self.reap()
            if not await self.store.find(JobQuery(states=tuple(set(State) - FINISHED), limit=1)):
                break
        states = {one.state for one in await self.store.get(sorted(self.submitted))}
        assert states <= {State.COMPLETED, State.CANCELLED}, states
        for limit in CHOICES:
            usage = await self.store.limit_usage(limit)
            assert (usage.running, usage.waiting) == (0, 0)
        assert list(await self.store.check()) == []


@asynccontextmanager
async def _stores(adapter: Adapter, folder: Path, clock: ManualClock) -> AsyncIterator[list[Store]]:
    async for place in adapter.place(folder):
        stores = [await adapter.open(place, clock) for _ in range(2 if adapter.is_shared else 1)]
        try:
            yield stores
        finally:
            for store in stores:
                await store.close()


async def _walk(adapter: Adapter, folder: Path, steps: Sequence[str], seed: int) -> None:
    clock = ManualClock()
    async with _stores(adapter, folder, clock) as stores:
        broker = InStoreBroker(stores[0])
        engine = Engine(stores[0], broker, clock=clock, rng=lambda: 0.5, steady=clock.steady)
        try:
            await Walk(stores, engine, clock, Random(seed)).walk(steps)
        finally:
            await broker.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=60), st.integers(0, 2**32))
def test_limits_hold_and_nothing_is_stuck_whatever_happens(steps: list[str], seed: int) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(_walk(BY_NAME["sqlite-memory"], Path(folder), steps, seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("adapter", STORES, ids=lambda adapter: adapter.name)
async def test_long_walks_hold_on_each_store(adapter: Adapter, tmp_path: Path, seed: int) -> None:
    steps = Random(seed).choices(STEPS, k=150)
    await _walk(adapter, tmp_path, steps, seed)
