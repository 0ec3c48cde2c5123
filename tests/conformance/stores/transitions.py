"""Helpers that move jobs from state to state: each verb through the port, each decision by the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from builders import ADA, BASE, claim, means
from rota.core.access import Token
from rota.core.cluster import Member
from rota.core.decision import cancel, decide
from rota.core.ids import JobId
from rota.core.job import Attempt, Job
from rota.core.lease import WorkerId
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.outcome import Failed, Outcome, Succeeded
from rota.core.queue import LaneCount, Queue
from rota.core.schedule import Occurrence, Schedule
from rota.core.settlement import JobError, Settlement
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.ports.store import JobQuery, Store

EVERYTHING = 1_000_000


async def look(store: Store, job: NewJob | Job | JobId) -> Job:
    """Read one job that must be there."""
    (found,) = await store.get([job if isinstance(job, int) else job.id])
    return found


async def state(store: Store, job: NewJob | Job | JobId) -> State:
    return (await look(store, job)).state


async def begin(
    store: Store,
    job: NewJob | Job | JobId,
    now: datetime = BASE,
    worker: WorkerId = ADA,
    **fields: Any,  # noqa: ANN401 - any field of a claim
) -> Job:
    """Claim a given job. One with a key must be the first of its lane, because brokers deliver none with a key."""
    found = await look(store, job)
    ids = (found.id,) if found.concurrency_key is None else None
    types = None if ids else (found.type,)
    (held,) = await store.claim(claim(worker, 1, ids=ids, types=types, queues=(found.queue,), **fields), now=now)
    assert held.id == found.id
    return held


async def end(store: Store, job: Job, outcome: Outcome, now: datetime = BASE) -> Job:
    """Settle a leased job, and read it."""
    assert await store.settle([decide(job, outcome, means(now))], now=now) == [job.id]
    return await look(store, job)


async def complete(store: Store, *jobs: NewJob | Job | JobId, now: datetime = BASE) -> None:
    for job in jobs:
        await end(store, await begin(store, job, now), Succeeded(), now)


async def kill(store: Store, *jobs: NewJob | Job | JobId, now: datetime = BASE) -> None:
    """Fail jobs permanently, so that they are dead."""
    for job in jobs:
        await end(store, await begin(store, job, now), Failed(JobError("E", "dead"), permanent=True), now)


async def call_off(store: Store, *jobs: NewJob | Job | JobId, now: datetime = BASE) -> None:
    """Cancel jobs that do not run."""
    for job in jobs:
        settlement = cancel(await look(store, job))
        assert settlement is not None
        assert len(await store.settle([settlement], now=now)) == 1


async def end_as(store: Store, final: State, *jobs: NewJob, now: datetime = BASE) -> None:
    """Bring pending jobs to a final state."""
    match final:
        case State.COMPLETED:
            await complete(store, *jobs, now=now)
        case State.DEAD:
            await kill(store, *jobs, now=now)
        case _:
            await call_off(store, *jobs, now=now)


async def refused(store: Store, settlement: Settlement, now: datetime = BASE) -> bool:
    return not await store.settle([settlement], now=now)


@dataclass(frozen=True)
class Snapshot:
    """All that the port shows."""

    jobs: Sequence[Job]
    attempts: Sequence[Sequence[Attempt]]
    steps: Sequence[Sequence[Step]]
    lanes: frozenset[LaneCount]
    finished: dict[State, int]
    pruned: dict[State, int]
    due: datetime | None
    schedules: Sequence[Schedule]
    occurrences: Sequence[Sequence[Occurrence]]
    members: Sequence[Member]
    queues: Sequence[Queue]
    ledger: Sequence[LedgerEntry]
    tokens: Sequence[Token]


async def snapshot(store: Store) -> Snapshot:
    """Read everything, so that a test can say that nothing changed."""
    jobs = list(await store.find(JobQuery(limit=EVERYTHING)))
    plans = list(await store.schedules(limit=EVERYTHING))
    census = await store.census()
    return Snapshot(
        jobs=jobs,
        attempts=[list(await store.attempts(job.id)) for job in jobs],
        steps=[list(await store.steps(job.id)) for job in jobs],
        lanes=frozenset(lane for lane in census.lanes if lane.count),
        finished={name: count for name, count in census.finished.items() if count},
        pruned={name: count for name, count in census.pruned.items() if count},
        due=(await store.timetable()).first,
        schedules=plans,
        occurrences=[list(await store.occurrences(plan.id, limit=EVERYTHING)) for plan in plans],
        members=list(await store.members()),
        queues=list(await store.queues()),
        ledger=list(await store.ledger(limit=EVERYTHING)),
        tokens=sorted(await store.tokens(), key=lambda token: token.id),
    )
