"""A step within the handler's own transaction happened exactly if the transaction was committed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from builders import claim, new_job
from conformance.caller_tx.callers import ASYNCPG, Caller, Way
from conformance.stores.adapters import SqliteFile
from rota.core.errors import InvalidRequest
from rota.core.job import Job
from rota.core.lease import Renewal, WorkerId
from rota.ports.caller_tx import CallerTxConfig
from rota.ports.store import Store
from rota.runtime.caller_tx import CALLER_TX_FACTORY
from rota.worker.exceptions import Cancelled, OutcomeUnknown
from rota.worker.transactions import TransactionSteps


@pytest.fixture
async def job(store: Store) -> Job:
    """A job that runs."""
    await store.insert([new_job()])
    (job,) = await store.claim(claim(WorkerId("ada", "boot")))
    return job


@pytest.fixture
def within(job: Job, place: str) -> TransactionSteps:
    return TransactionSteps(job.id, job.fence, CallerTxConfig(CALLER_TX_FACTORY, place))


async def touch(store: Store, job: Job) -> None:
    """Change a job and its lease, as a process that takes it away does."""
    await store.renew([Renewal(job.id, job.fence)])


async def bought(caller: Caller) -> list[int]:
    """Return what was bought, in a transaction of its own."""
    await caller.start()
    rows = await caller.fetch("SELECT number FROM purchase ORDER BY number")
    await caller.rollback()
    await caller.start()
    return [row[0] for row in rows]


async def test_a_commit_leaves_the_effect_and_its_record(
    caller: Caller, within: TransactionSteps, job: Job, store: Store
) -> None:
    assert await caller.step(within, "buy", 7) == {"bought": 7}
    await caller.commit()
    (step,) = await store.steps(job.id)
    assert (step.key, step.is_done, step.outcome, step.began_under) == ("buy", True, '{"bought":7}', job.fence)
    assert await bought(caller) == [7]


async def test_what_was_performed_once_is_not_performed_again(caller: Caller, within: TransactionSteps) -> None:
    await caller.step(within, "buy", 7)
    await caller.commit()
    await caller.start()
    assert await caller.step(within, "buy", 8) == {"bought": 7}
    assert await caller.step(within, "buy more", 9) == {"bought": 9}
    await caller.commit()
    assert await bought(caller) == [7, 9]


async def test_a_rollback_leaves_neither_and_the_next_attempt_performs_it(
    caller: Caller, within: TransactionSteps, job: Job, store: Store
) -> None:
    await caller.step(within, "buy", 7)
    await caller.rollback()
    assert await store.steps(job.id) == []
    await caller.start()
    assert await caller.step(within, "buy", 8) == {"bought": 8}
    await caller.commit()
    assert await bought(caller) == [8]


async def test_an_attempt_that_lost_its_job_is_refused_after_the_effect(
    caller: Caller, within: TransactionSteps, job: Job, store: Store
) -> None:
    stale = replace(within, fence=job.fence - 1)
    with pytest.raises(Cancelled, match="another worker"):
        await caller.step(stale, "buy", 7)
    await caller.rollback()
    assert await store.steps(job.id) == []
    assert await bought(caller) == []


async def test_an_effect_that_fails_is_not_recorded_and_is_the_caller_s_to_roll_back(
    caller: Caller, within: TransactionSteps, job: Job, store: Store
) -> None:
    with pytest.raises(ZeroDivisionError):
        await caller.step(within, "buy", 0)
    await caller.buy(3)
    await caller.commit()
    assert await store.steps(job.id) == []
    assert await bought(caller) == [0, 3]


async def test_a_step_that_was_begun_without_a_transaction_stays_in_doubt(
    caller: Caller, within: TransactionSteps, job: Job, store: Store
) -> None:
    await store.intend(job.id, job.fence, "buy")
    with pytest.raises(OutcomeUnknown, match="'buy' was begun"):
        await caller.step(within, "buy", 7)
    await caller.rollback()
    assert await bought(caller) == []


async def test_nobody_takes_the_job_away_between_the_record_and_the_commit(
    way: Way, caller: Caller, within: TransactionSteps, job: Job, store: Store
) -> None:
    if isinstance(way.store, SqliteFile):
        # One writer at a time: there is no other write meanwhile.
        return
    await caller.step(within, "buy", 7)
    taking = asyncio.create_task(touch(store, job))
    await asyncio.wait([taking], timeout=0.5)
    assert not taking.done()
    await caller.commit()
    await taking


@pytest.mark.parametrize("way", [ASYNCPG], ids=lambda way: way.name)
async def test_a_worker_over_http_has_no_transaction_to_be_a_part_of(caller: Caller, within: TransactionSteps) -> None:
    with pytest.raises(InvalidRequest, match=r"over HTTP.*--store"):
        await caller.step(replace(within, caller_tx_config=None), "buy", 7)


async def test_the_wrong_verb_is_refused_and_the_right_one_is_named(caller: Caller, within: TransactionSteps) -> None:
    with pytest.raises(InvalidRequest, match="use step$" if not caller.is_async else "use astep$"):
        await replace(caller, is_async=not caller.is_async).step(within, "buy", 7)
