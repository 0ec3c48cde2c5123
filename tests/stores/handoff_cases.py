"""How jobs are handed over to claims that wait, are cancelled and repeated, on a store that keeps claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain, count
from random import Random

import pytest

from builders import claim
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import AttemptReport
from rota.runtime import connect
from rota.stores.handoff import HandedOffJob


class Worker:
    """Claims, is called off now and then, and settles what it was given."""

    def __init__(self, engine: Engine, identity: WorkerId, stopped: asyncio.Event) -> None:
        self._engine = engine
        self._identity = identity
        self._stopped = stopped
        self._rng = Random(identity.boot)
        self.given: list[tuple[JobId, int]] = []

    async def run(self) -> None:
        for number in count():
            jobs = await self._jobs(f"{self._identity.boot}-{number}")
            self.given.extend((job.id, job.fence) for job in jobs)
            await self._engine.settle([AttemptReport(job.id, job.fence, Succeeded("null")) for job in jobs])
            if self._stopped.is_set():
                return

    async def _jobs(self, name: str) -> Sequence[Job]:
        wanted = claim(self._identity, limit=3, types=("mail", "bill"), claim_id=name, is_new=True)
        wait = timedelta(seconds=self._rng.choice((0.2, 1.2, 5)))
        asking = asyncio.ensure_future(self._engine.claim(wanted, wait=wait))
        leaving = asyncio.ensure_future(asyncio.wait_for(self._stopped.wait(), self._rng.choice((0.05, 10))))
        await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        leaving.cancel()
        await asyncio.wait([asking, leaving])
        jobs = [] if asking.cancelled() else asking.result()
        # A claim that is cancelled is repeated once by its id, as a worker does.
        return jobs or await self._engine.claim(replace(wanted, limit=1, is_new=False))


async def submit(engine: Engine, rng: Random) -> list[JobId]:
    """Submit single jobs, and two now and then."""
    ids: list[JobId] = []
    for _ in range(150):
        await asyncio.sleep(rng.uniform(0, 0.03))
        jobs = [NewJob(engine.fresh_id(), "mail", "null") for _ in range(rng.choice((1, 1, 1, 1, 2)))]
        ids += [answer.job_id for answer in await engine.submit(jobs)]
    return ids


async def each_job_comes_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play two processes with three workers each, and two that submit.

    No job is leased twice, and none is leased to a worker that does not receive it.
    """
    brought: list[HandedOffJob] = []
    jobs_of = HandedOffJob.jobs

    def noted(answer: HandedOffJob, claim: Claim) -> Sequence[Job]:
        brought.append(answer)
        return jobs_of(answer, claim)

    monkeypatch.setattr(HandedOffJob, "jobs", noted)
    links = [await connect(address) for _ in range(4)]
    engines = [link.engine for link in links if link.engine is not None]
    stopped = asyncio.Event()
    workers = [
        Worker(engine, WorkerId(f"w{place}", f"{name}{place}"), stopped)
        for name, engine in zip("ab", engines[:2], strict=True)
        for place in range(3)
    ]
    try:
        running = [asyncio.ensure_future(worker.run()) for worker in workers]
        ids = list(chain.from_iterable(await asyncio.gather(*(submit(engine, Random(7)) for engine in engines[2:]))))
        async with asyncio.timeout(60):
            while sum(len(worker.given) for worker in workers) < len(ids):  # noqa: ASYNC110 - any of six has the last
                await asyncio.sleep(0.05)
        stopped.set()
        await asyncio.gather(*running)
        states = {
            job.state for start in range(0, len(ids), 100) for job in await engines[0].get(ids[start : start + 100])
        }
    finally:
        for link in links:
            await link.close()
    given = [one for worker in workers for one in worker.given]
    assert sorted(given) == sorted((job_id, 1) for job_id in ids)
    assert states == {State.COMPLETED}
    # The busier the machine, the less often a claim waits.
    assert brought
