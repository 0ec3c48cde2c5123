"""Lists over several states show one moment: a job that moves between two of them is in the list, once."""

from __future__ import annotations

import asyncio

import pytest

from builders import ADA, BASE, BEN, HOUR, SECOND, claim, ids_of, means, new_jobs
from rota.core.decision import decide
from rota.core.lease import WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Outcome, Released, Snoozed
from rota.ports.store import JobQuery, Store

JOBS = 100
LISTS = 60


async def move(store: Store, worker: WorkerId, outcome: Outcome) -> None:
    """Claim jobs and give them back, until cancelled."""
    while True:
        held = await store.claim(claim(worker, JOBS // 4, ahead=HOUR), now=BASE)
        await store.settle([decide(job, outcome, means()) for job in held], now=BASE)
        # Some stores answer without giving way to others.
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("outcome", "waiting"),
    [(Released(started=True), State.PENDING), (Snoozed(SECOND), State.SCHEDULED)],
    ids=["pending", "scheduled"],
)
async def test_no_job_is_missing_while_jobs_move(store: Store, outcome: Outcome, waiting: State) -> None:
    """Each state was read by a statement of its own, which saw a moment of its own."""
    jobs = new_jobs(JOBS, run_at=BASE if waiting is State.PENDING else BASE + SECOND)
    await store.insert(jobs, now=BASE)
    moves = [asyncio.create_task(move(store, worker, outcome)) for worker in (ADA, BEN)]
    orders = ((State.RUNNING, waiting), (waiting, State.RUNNING))
    queries = [JobQuery(states=states, limit=2 * JOBS) for states in orders]
    for number in range(LISTS):
        assert ids_of(await store.find(queries[number % 2])) == ids_of(reversed(jobs))
        assert not any(one.done() for one in moves)
        await asyncio.sleep(0)
    for one in moves:
        one.cancel()
    await asyncio.gather(*moves, return_exceptions=True)
