"""Checking in at the moment at which another takes the lead."""

from __future__ import annotations

import asyncio

import asyncpg

from building import BASE, MICROSECOND, SECOND, at
from rota.core.fleet import CheckIn
from rota.core.instant import to_micros
from rota.stores.postgres import PostgresStore

TEN = 10 * SECOND
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
OURS = CheckIn((), "upkeep", "we", TEN)


async def test_who_is_overtaken_while_it_asks_does_not_lead(store: PostgresStore, dsn: str) -> None:
    await store.check_in(OURS, now=BASE)
    other = await asyncpg.connect(dsn)
    taking = other.transaction()
    await taking.start()
    await other.execute("UPDATE leader SET holder = 'they', term = 2, until = $1", to_micros(at(20)))
    # It sees the lead as it was, its own and not quite over; and then waits for those who have just taken it.
    asked = asyncio.create_task(store.check_in(OURS, now=at(10) - MICROSECOND))
    async with asyncio.timeout(10):
        while not await other.fetchval(WAITING):
            pass
    await taking.commit()
    assert (await asked).leadership is None
    led = (await store.check_in(OURS, now=at(10))).leadership
    assert led is not None
    assert led.holder == "they"
    await other.close()
