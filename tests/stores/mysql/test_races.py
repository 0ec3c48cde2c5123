"""Races that are decided by a lock: another transaction holds the row, and the second one must wait for it.

Each test has the other transaction open at the critical moment, so the lock that decides is needed every time, not once
in a thousand runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from builders import ADA, claim, means, new_job
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lease import Renewal
from rota.core.lifecycle import State
from rota.core.outcome import Lost
from rota.core.time import to_micros
from rota.stores.mysql import MysqlStore, settle
from rota.stores.mysql import claim as claims
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of

T = TypeVar("T")
LEASE = timedelta(seconds=30)
BLOCKED = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"


@pytest.fixture
async def first(url: str) -> AsyncIterator[MysqlConnection]:
    """A connection whose transaction stays open until `commit` is called."""
    connection = await connect(location_of(url), "test", autocommit=False)
    yield connection
    await connection.close()


@pytest.fixture
async def watcher(url: str) -> AsyncIterator[MysqlConnection]:
    connection = await connect(location_of(url), "test", autocommit=True)
    yield connection
    await connection.close()


async def second_waits(watcher: MysqlConnection, second: asyncio.Future[T], first: MysqlConnection) -> T:
    """Let the second verb run until it waits for the first, or has ended without; then let the first one commit."""
    # The server refreshes this table only if it was not read for a tenth of a second.
    while not (await asyncio.wait([second], timeout=0.15))[0] and (await watcher.rows(BLOCKED))[0][0] == 0:
        pass
    await first.commit()
    return await second


async def begun(store: MysqlStore, now: datetime) -> Job:
    job = new_job()
    await store.insert([job], now=now)
    (held,) = await store.claim(claim(ADA, 1, ids=(job.id,), lease=LEASE), now=now)
    return held


@pytest.mark.parametrize("verb", ["intend", "conclude", "withdraw"])
async def test_a_step_is_not_written_under_a_lease_that_is_just_taken_away(
    store: MysqlStore, first: MysqlConnection, watcher: MysqlConnection, verb: str
) -> None:
    now = datetime.now(UTC)
    held = await begun(store, now)
    if verb != "intend":
        await store.intend(held.id, held.fence, "charge")
    late = now + 2 * LEASE
    assert await settle.settle(first, [decide(held, Lost(), means(late))], to_micros(late)) == [True]
    await first.rows("SELECT 1")
    calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "intend": lambda: store.intend(held.id, held.fence, "charge"),
        "conclude": lambda: store.conclude(held.id, held.fence, "charge", "1"),
        "withdraw": lambda: store.withdraw(held.id, held.fence, "charge"),
    }
    assert not await second_waits(watcher, asyncio.ensure_future(calls[verb]()), first)
    assert [step.is_done for step in await store.steps(held.id)] == ([] if verb == "intend" else [False])


async def test_a_job_whose_lease_is_just_renewed_is_not_reaped(
    store: MysqlStore, first: MysqlConnection, watcher: MysqlConnection
) -> None:
    """The reaper saw the lease lapse before the renewal, and writes after it."""
    now = datetime.now(UTC)
    held = await begun(store, now)
    late = now + LEASE + timedelta(seconds=1)
    renewal = Renewal(held.id, held.fence, lease=LEASE)
    assert all(await claims.renew(first, [renewal], to_micros(now + timedelta(seconds=20))))
    await first.rows("SELECT 1")
    reaping = asyncio.ensure_future(
        store.settle([replace(decide(held, Lost(), means(late)), lapsed_at=held.lease_until)], now=late)
    )
    assert await second_waits(watcher, reaping, first) == []
    assert (await store.get([held.id]))[0].state is State.RUNNING
