"""Heartbeats at the moment at which another process takes leadership."""

from __future__ import annotations

import asyncio

import asyncpg

from builders import BASE, MICROSECOND, SECOND, at
from rota.core.cluster import MemberHeartbeat
from rota.core.time import to_micros
from rota.stores.postgres import PostgresStore

TEN = 10 * SECOND
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
OURS = MemberHeartbeat((), "upkeep", "we", TEN)


async def test_a_candidate_that_loses_the_race_does_not_lead(store: PostgresStore, dsn: str) -> None:
    await store.check_in(OURS, now=BASE)
    other = await asyncpg.connect(dsn)
    taking = other.transaction()
    await taking.start()
    await other.execute("UPDATE rota_leader SET holder = 'they', term = 2, until = $1", to_micros(at(20)))
    # Its snapshot shows its own leadership; then it waits for the process that has just taken over.
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
