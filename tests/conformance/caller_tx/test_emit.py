"""An event that is emitted within the caller's own transaction counts exactly if that is committed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import claim, means, new_job
from conformance.caller_tx.callers import Caller
from rota import Rota
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lease import WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Suspended
from rota.core.step import StepKind
from rota.core.waiting import Wait
from rota.ports.store import Store

WAIT = Wait("paid", StepKind.EVENT, event="paid:7", span=timedelta(hours=1))


@pytest.fixture
async def waiting(store: Store) -> Job:
    """A job that is suspended until the event comes."""
    await store.insert([new_job()])
    (job,) = await store.claim(claim(WorkerId("ada", "boot")))
    step = await store.begin_wait(job.id, job.fence, WAIT)
    await store.settle([decide(job, Suspended("paid"), replace(means(), step=step))])
    return job


async def emitted(caller: Caller, place: str, payload: object) -> bool:
    app = Rota(place)
    if caller.is_async:
        return await app.aemit("paid:7", payload, tx=caller.tx)
    return app.emit("paid:7", payload, tx=caller.tx)


async def state(store: Store, job: Job) -> State:
    (found,) = await store.get([job.id])
    return found.state


async def test_a_commit_emits_the_event_and_wakes_the_job(
    caller: Caller, place: str, store: Store, waiting: Job
) -> None:
    assert await emitted(caller, place, {"amount": 3})
    await caller.buy(7)
    await caller.commit()
    assert await state(store, waiting) is State.PENDING
    step = await store.step(waiting.id, "paid")
    assert step is not None
    assert step.outcome == '{"amount": 3}'


async def test_a_rollback_leaves_no_event_and_the_job_waits_on(
    caller: Caller, place: str, store: Store, waiting: Job
) -> None:
    assert await emitted(caller, place, 1)
    await caller.rollback()
    assert await state(store, waiting) is State.BLOCKED
    assert await store.event("paid:7") is None
    await caller.start()
    assert await emitted(caller, place, 2)
    await caller.commit()
    assert await state(store, waiting) is State.PENDING


async def test_a_second_emission_in_a_transaction_changes_nothing(caller: Caller, place: str, store: Store) -> None:
    assert await emitted(caller, place, 1)
    assert not await emitted(caller, place, 2)
    await caller.commit()
    event = await store.event("paid:7")
    assert event is not None
    assert event.payload == "1"
