"""Heartbeats and claims are not delayed by long reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from builders import SECOND, claim, ids_of, new_job
from rota.core.cluster import Member, MemberHeartbeat, Role
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.store import READERS

SAM = Member(role=Role.SCHEDULER, name="sam", boot="b2", types=None)
WANTED = claim(types=("mail",), claim_id=None)


async def _read_at_length(connection: MysqlConnection) -> None:
    await connection.rows("SELECT SLEEP(60)")


@pytest.fixture
async def busy(store: MysqlStore) -> AsyncIterator[MysqlStore]:
    """A store on which others read for as long as the test lasts."""
    await store.claim(WANTED)
    reads = [asyncio.create_task(store._readers.run(_read_at_length)) for _ in range(READERS)]
    await asyncio.sleep(0)
    yield store
    for read in reads:
        read.cancel()
    await asyncio.gather(*reads, return_exceptions=True)


async def test_a_heartbeat_waits_for_no_reader(busy: MysqlStore) -> None:
    async with asyncio.timeout(5):
        view = await busy.check_in(MemberHeartbeat((SAM,), "upkeep", "sam", 10 * SECOND))
    assert view.leadership is not None
    assert view.leadership.holder == "sam"


async def test_a_claim_waits_for_no_reader(busy: MysqlStore) -> None:
    async with asyncio.timeout(5):
        assert list(await busy.claim(WANTED)) == []
        job = new_job(type="mail")
        await busy.insert([job])
        assert ids_of(await busy.claim(WANTED)) == [job.id]
