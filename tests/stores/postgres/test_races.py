"""Races that are decided by a lock: another transaction holds the row, and the second one must wait for it.

Each test has the other transaction open at the critical moment, so the lock that decides is needed every time, not once
in a thousand runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import asyncpg
import pytest

from builders import ADA, claim, failure, means, new_job
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lease import Renewal
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Outcome, Succeeded
from rota.core.submission import NewJob
from rota.core.time import to_micros
from rota.ports.store import Receipt
from rota.stores.postgres import PostgresStore, insert, settle
from rota.stores.postgres import claim as claims
from rota.stores.postgres.session import Session

T = TypeVar("T")
LEASE = timedelta(seconds=30)


class Interrupted:
    """A verb in a transaction that stays open until `commit` is called."""

    def __init__(self) -> None:
        self.has_acted = asyncio.Event()
        self.may_commit = asyncio.Event()

    async def run(self, acting: Awaitable[T]) -> T:
        answer = await acting
        self.has_acted.set()
        await self.may_commit.wait()
        return answer


async def second_waits(stranger: asyncpg.Connection, second: asyncio.Future[T], first: Interrupted) -> T:
    """Let the second verb run until it waits for the first, or has ended without; then let the first one commit."""
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"
    while not second.done() and not await stranger.fetchval(blocked):
        pass
    first.may_commit.set()
    return await second


async def begun(store: PostgresStore, now: datetime) -> Job:
    job = new_job()
    await store.insert([job], now=now)
    (held,) = await store.claim(claim(ADA, 1, ids=(job.id,), lease=LEASE), now=now)
    return held


async def test_counting_a_limited_queue_waits_for_a_concurrent_insert(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection
) -> None:
    first, now = Interrupted(), to_micros(datetime.now(UTC))

    async def fill(session: Session) -> object:
        return await first.run(insert.insert(session, [new_job()], 1, now))

    filling = asyncio.ensure_future(other._database.write(fill))
    await first.has_acted.wait()
    answers = await second_waits(stranger, asyncio.ensure_future(store.insert([new_job()], bound=1)), first)
    await filling
    assert [answer.receipt for answer in answers] == [Receipt.QUEUE_FULL]


@pytest.mark.parametrize("verb", ["intend", "conclude", "withdraw"])
async def test_a_step_is_not_recorded_under_a_lease_that_is_just_lost(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection, verb: str
) -> None:
    now = datetime.now(UTC)
    held = await begun(store, now)
    if verb != "intend":
        await store.intend(held.id, held.fence, "charge")
    first, late = Interrupted(), now + 2 * LEASE

    async def reap(session: Session) -> object:
        move = decide(held, Lost(), means(late))
        return await first.run(settle.settle(session, [move], to_micros(late)))

    reaping = asyncio.ensure_future(other._database.write(reap))
    await first.has_acted.wait()
    calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "intend": lambda: store.intend(held.id, held.fence, "charge"),
        "conclude": lambda: store.conclude(held.id, held.fence, "charge", "1"),
        "withdraw": lambda: store.withdraw(held.id, held.fence, "charge"),
    }
    answer = await second_waits(stranger, asyncio.ensure_future(calls[verb]()), first)
    assert await reaping == [True]
    assert not answer
    assert [step.is_done for step in await store.steps(held.id)] == ([] if verb == "intend" else [False])


async def test_a_job_whose_lease_is_just_renewed_is_not_reaped(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection
) -> None:
    now = datetime.now(UTC)
    held = await begun(store, now)
    first, late = Interrupted(), now + LEASE + timedelta(seconds=1)

    async def renew(session: Session) -> object:
        renewal = Renewal(held.id, held.fence, lease=LEASE)
        return await first.run(claims.renew(session, [renewal], to_micros(now + timedelta(seconds=20))))

    renewing = asyncio.ensure_future(other._database.write(renew))
    await first.has_acted.wait()
    reaping = asyncio.ensure_future(
        store.settle([replace(decide(held, Lost(), means(late)), lapsed_at=held.lease_until)], now=late)
    )
    assert await second_waits(stranger, reaping, first) == []
    await renewing
    assert (await store.get([held.id]))[0].state is State.RUNNING


@pytest.mark.parametrize("outcome", [Succeeded(), failure(permanent=True)], ids=["succeeds", "fails"])
async def test_a_job_that_is_also_among_the_finished_can_end(
    store: PostgresStore, stranger: asyncpg.Connection, outcome: Outcome
) -> None:
    """An older release, or a restore, may have left it in both tables. Its end must not fail for ever."""
    held = await begun(store, datetime.now(UTC))
    await stranger.execute(
        "INSERT INTO rota_job_done (id, type, queue, priority, state, turn, run_at, created_at, updated_at,"
        " max_attempts, delivery, payload, finished_at) SELECT id, type, queue, priority, 'cancelled',"
        " turn, run_at, created_at, updated_at, max_attempts, delivery, payload, 1 FROM rota_job"
    )
    plain = NewJob(id=new_job().id, type="mail")
    await store.insert([plain])
    (beside,) = await store.claim(claim(ADA, 1, ids=(plain.id,)))
    moves = [decide(job, outcome, means(datetime.now(UTC))) for job in (held, beside)]
    assert await store.settle(moves) == [held.id, plain.id]
    assert await stranger.fetchval("SELECT count(*) FROM rota_job") == 0
    assert await stranger.fetchval("SELECT count(*) FROM rota_job_done") == 2
