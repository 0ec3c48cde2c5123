"""A pool is closed by a task that may be cancelled midway, and by another after it: as a loop ends, all tasks are."""

from __future__ import annotations

import asyncio

import pytest

from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.location import location_of
from rota.stores.mysql.pool import Pool

LONG_ENOUGH = 10.0


async def look(connection: MysqlConnection) -> None:
    await connection.rows("SELECT 1")


async def interrupted(closing: asyncio.Task[None], at: asyncio.Event) -> None:
    await at.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_a_second_close_after_an_interrupted_one_ends(fresh_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first had all the places and took them along: a program on MariaDB hung at its end."""
    pool = Pool(location_of(fresh_url), 2, autocommit=True)
    await asyncio.gather(pool.run(look), pool.run(look))
    is_leaving = asyncio.Event()

    async def linger(connection: MysqlConnection) -> None:
        is_leaving.set()
        try:
            await asyncio.Event().wait()
        finally:
            connection.abandon()

    with monkeypatch.context() as patch:
        patch.setattr(MysqlConnection, "close", linger)
        await interrupted(asyncio.create_task(pool.close()), is_leaving)
    async with asyncio.timeout(LONG_ENOUGH):
        await pool.close()


async def test_an_interrupted_close_takes_no_connection_from_running_verbs(fresh_url: str) -> None:
    pool = Pool(location_of(fresh_url), 2, autocommit=True)
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(connection: MysqlConnection) -> None:
        await look(connection)
        has_begun.set()
        await may_end.wait()

    working = asyncio.create_task(pool.run(work))
    await has_begun.wait()
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    await interrupted(closing, has_begun)
    assert pool._places._value == 1
    may_end.set()
    await working
    async with asyncio.timeout(LONG_ENOUGH):
        await pool.close()
