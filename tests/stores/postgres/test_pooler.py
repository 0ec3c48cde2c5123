"""Behind pgbouncer in transaction mode: sessions are shared, and everything still works.

The whole conformance suite goes through the pooler with ROTA_TEST_POOLED=1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from builders import after, claim, entry, ids_of, key, means, new_job, new_jobs
from rota.core.decision import decide
from rota.core.lease import Renewal, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.ports.store import JobQuery, Receipt
from rota.stores.postgres import PostgresStore, notify
from servers.pgbouncer import shared_pooler


@pytest.fixture
async def pooled(dsn: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(shared_pooler().dsn(dsn))
    yield store
    await store.close()


async def test_a_pooler_is_detected(pooled: PostgresStore, store: PostgresStore) -> None:
    assert pooled._database.connector.is_pooled
    assert not store._database.connector.is_pooled


async def test_many_at_once_run_every_job_once(pooled: PostgresStore) -> None:
    jobs = new_jobs(200)
    await asyncio.gather(*(pooled.insert([job]) for job in jobs))

    async def work(number: int) -> list[int]:
        ran: list[int] = []
        while held := await pooled.claim(claim(WorkerId(f"w{number}", "b"), 7, claim_id=f"{number}-{len(ran)}")):
            await pooled.renew([Renewal(job.id, job.fence) for job in held])
            ran += await pooled.settle([decide(job, Succeeded(), means()) for job in held])
        return ran

    ran = [job_id for batch in await asyncio.gather(*map(work, range(6))) for job_id in batch]
    assert sorted(ran) == sorted(ids_of(jobs))
    assert {job.state for job in await pooled.find(JobQuery(limit=500))} == {State.COMPLETED}


async def test_keys_dependencies_and_the_ledger_work(pooled: PostgresStore) -> None:
    parent = new_job(idempotency=key("k"), tags=("t",))
    child = new_job(after=after(parent))
    await pooled.insert([parent, child])
    (again,) = await pooled.insert([new_job(idempotency=key("k"))])
    assert (again.job_id, again.receipt) == (parent.id, Receipt.REPLAYED)
    (held,) = await pooled.claim(claim())
    await pooled.settle([decide(held, Succeeded(), means())], entry=entry())
    assert [job.state for job in await pooled.get([child.id])] == [State.PENDING]
    assert len(await pooled.ledger()) == 1


async def test_one_taken_id_in_a_batch_does_not_fail_the_others(pooled: PostgresStore) -> None:
    """The first try breaks the transaction that it is in."""
    jobs = new_jobs(3)
    await pooled.insert(jobs[:1])
    receipts = [answer.receipt for answer in await pooled.insert(jobs)]
    assert receipts == [Receipt.ID_TAKEN, Receipt.CREATED, Receipt.CREATED]
    assert len(await pooled.get(ids_of(jobs))) == 3


async def test_jobs_are_found_by_polling_without_a_listener(
    pooled: PostgresStore, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "POLL_SECONDS", 0.01)
    await store.insert([new_job()])
    assert await pooled.watch(timedelta(seconds=5))


async def test_a_direct_listener_hears_of_jobs_submitted_through_the_pooler(
    pooled: PostgresStore, store: PostgresStore
) -> None:
    await store.claim(claim())
    await store.watch(timedelta(milliseconds=1))
    watching = asyncio.ensure_future(store.watch(timedelta(seconds=20)))
    await pooled.insert([new_job()])
    assert await watching
