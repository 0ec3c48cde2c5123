"""Helpers: wait until a store listens, or has received a notification."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from rota.core.submission import NewJob
from rota.stores.postgres import PostgresStore

SHORT = timedelta(milliseconds=50)


async def all_listening(*stores: PostgresStore) -> None:
    """Wait until stores listen, for work too, and have received all earlier notifications."""
    async with asyncio.timeout(60):
        for store in stores:
            store.watch_for_work()
            while await store.watch(SHORT) or not store._listener.is_listening:
                pass


async def announce_one(store: PostgresStore, other: PostgresStore, job: NewJob) -> None:
    store._notifier._sent_at = float("-inf")
    count = other._listener._count
    await store.insert([job])
    await until_notified(other, count)


async def until_notified(store: PostgresStore, count: int) -> None:
    """Wait until a store has received more notifications than `count`."""
    async with asyncio.timeout(20):
        while store._listener._count == count:
            store._listener._change.clear()
            await store._listener._change.wait()
