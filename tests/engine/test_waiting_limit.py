from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from builders import new_job
from rota.core.errors import NamespaceFull
from rota.engine.waiting_limit import WaitingLimit
from rota.stores.sqlite import SqliteStore


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(":memory:")
    yield opened
    await opened.close()


async def test_what_is_under_way_counts_until_a_count_can_have_seen_it(store: SqliteStore) -> None:
    now = 0.0
    limit = WaitingLimit(store, lambda: now)
    limit.most = 3
    await limit.admit(2)
    now += 2
    # The count of this moment does not see the two, which are not stored yet.
    with pytest.raises(NamespaceFull):
        await limit.admit(2)
    await store.insert([new_job(), new_job()])
    limit.finish(2)
    now += 2
    await limit.admit(1)
    limit.finish(1)
    with pytest.raises(NamespaceFull):
        await limit.admit(1)
    # The third was never stored, which the next count shows.
    now += 2
    await limit.admit(1)


async def test_callers_at_the_same_time_never_exceed_the_limit(store: SqliteStore) -> None:
    limit = WaitingLimit(store)
    limit.most = 10

    async def submit() -> bool:
        try:
            await limit.admit(1)
        except NamespaceFull:
            return False
        try:
            await asyncio.sleep(0)
            await store.insert([new_job()])
        finally:
            limit.finish(1)
        return True

    assert sum(await asyncio.gather(*(submit() for _ in range(50)))) == 10


async def test_without_a_limit_nothing_is_counted(store: SqliteStore) -> None:
    limit = WaitingLimit(store)
    await limit.admit(1_000_000)
    limit.finish(1_000_000)
    limit.most = 1
    await limit.admit(1)
