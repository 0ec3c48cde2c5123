"""A submission that is repeated while its job ends: it is answered with that job, and nothing runs twice."""

from __future__ import annotations

import asyncio

import pytest

from builders import BASE, means, new_job
from conformance.stores.adapters import SHARED
from conformance.stores.conftest import OpenStore
from conformance.stores.transitions import begin
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.submission import NewJob
from rota.ports.store import Receipt, Store

RACES = 300
SUBMITTERS = 3


async def _repeat(store: Store, job: NewJob, ended: asyncio.Event) -> set[Receipt]:
    """Submit a job again and again, and once more after its end."""
    seen: set[Receipt] = set()
    is_last = False
    while not is_last:
        is_last = ended.is_set()
        seen |= {answer.receipt for answer in await store.insert([job], now=BASE)}
    return seen


async def _complete(store: Store, held: Job, ended: asyncio.Event) -> None:
    assert await store.settle([decide(held, Succeeded(), means(BASE))], now=BASE) == [held.id]
    ended.set()


@pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name, indirect=True)
async def test_an_id_that_is_submitted_again_while_its_job_completes_makes_no_other_job(open_store: OpenStore) -> None:
    worker, *submitters = [await open_store() for _ in range(1 + SUBMITTERS)]
    for _ in range(RACES):
        job, ended = new_job(), asyncio.Event()
        await worker.insert([job], now=BASE)
        # Before the race: a claim passes over a job that a submission has locked.
        held = await begin(worker, job)
        _, *seen = await asyncio.gather(
            _complete(worker, held, ended), *(_repeat(store, job, ended) for store in submitters)
        )
        assert all(Receipt.CREATED not in (receipts or ()) for receipts in seen)
    census = await worker.census()
    assert {state: census.total(state) for state in State if census.total(state)} == {State.COMPLETED: RACES}
