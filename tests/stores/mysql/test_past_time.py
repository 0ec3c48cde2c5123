"""Pruning looks first whether anything is past its time: what nobody else would show is seen by itself, too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rota.ports.store import Retention
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import Connection, connect
from rota.stores.mysql.location import location_of

OLD = {
    "claim": "INSERT INTO claim (claim_id, at, leases) VALUES ('c', 0, '[]')",
    "bell": "INSERT INTO bell (origin, number, at) VALUES ('o', 1, 0)",
    "idempotency": "INSERT INTO idempotency (scope, `key`, request, job_id, expires_at) VALUES ('', 'k', '', 1, 0)",
}


@pytest.fixture
async def bare(url: str, store: MysqlStore) -> AsyncIterator[Connection]:
    del store
    connection = await connect(location_of(url), "bare", autocommit=True)
    yield connection
    await connection.close()


@pytest.mark.parametrize("table", OLD)
async def test_what_is_past_its_time_is_seen_by_itself(store: MysqlStore, bare: Connection, table: str) -> None:
    await bare.run(OLD[table])
    await store.prune(Retention(), 100)
    assert await bare.rows(f"SELECT COUNT(*) FROM {table}") == ((0,),)  # noqa: S608 - a table of ours
