"""Notifications within a process: they wake the current or the next wait, and a cancelled wait affects no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from rota.brokers.in_store import InStoreBroker
from rota.stores.sqlite import SqliteStore

LONG = timedelta(hours=1)
SHORT = timedelta(milliseconds=1)


@pytest.fixture
async def broker() -> AsyncIterator[InStoreBroker]:
    store = await SqliteStore.open(":memory:")
    made = InStoreBroker(store)
    yield made
    await made.close()
    await store.close()


async def test_what_was_rung_before_a_wait_ends_it_at_once_and_is_told_once(broker: InStoreBroker) -> None:
    with broker.subscribe(["a"]) as subscription:
        await broker.announce(["a", "b"])
        assert await subscription.wait(LONG) == {"a"}
        assert not await subscription.wait(SHORT)


async def test_a_wait_cancelled_during_a_wake_up_ends_and_the_next_wait_gets_the_wake_up(broker: InStoreBroker) -> None:
    with broker.subscribe(["a"]) as subscription:
        waiting = asyncio.ensure_future(subscription.wait(LONG))
        await asyncio.sleep(0)
        await broker.announce(["a"])
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await subscription.wait(LONG) == {"a"}


async def test_a_subscription_that_ends_late_takes_no_wake_up_from_the_next(broker: InStoreBroker) -> None:
    with broker.subscribe(["a"]) as subscription:
        leaving = asyncio.ensure_future(subscription.wait(LONG))
        await asyncio.sleep(0)
        # The next one waits before the one that was called off has gone.
        leaving.cancel()
        next_one = subscription.wait(LONG).__await__()
        next(next_one)
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await broker.announce(["a"])
        with pytest.raises(StopIteration) as answer:
            next(next_one)
        assert answer.value.value == {"a"}
