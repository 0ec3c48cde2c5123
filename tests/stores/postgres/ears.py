"""Waiting until a store has heard: that it listens, or that more has come."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from rota.core.submission import NewJob
from rota.stores.postgres import PostgresStore

SHORT = timedelta(milliseconds=50)


async def all_ears(*stores: PostgresStore) -> None:
    """Wait until stores listen, for work too, and have been told all there was."""
    async with asyncio.timeout(60):
        for store in stores:
            store.hear_work()
            while await store.watch(SHORT) or not store._ear._is_hearing:
                pass


async def tell_of_one(store: PostgresStore, other: PostgresStore, job: NewJob) -> None:
    store._bell._sent_at = float("-inf")
    count = other._ear._count
    await store.insert([job])
    await until_heard(other, count)


async def until_heard(store: PostgresStore, count: int) -> None:
    """Wait until more was heard than so much."""
    async with asyncio.timeout(20):
        while store._ear._count == count:
            store._ear._change.clear()
            await store._ear._change.wait()
