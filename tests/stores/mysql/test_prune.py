"""Pruning first checks whether anything is past its retention: each kind of row is enough."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rota.ports.store import Retention
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of

OLD = {
    "rota_claim": "INSERT INTO rota_claim (claim_id, at, leases) VALUES ('c', 0, '[]')",
    "rota_notification": "INSERT INTO rota_notification (origin, number, at) VALUES ('o', 1, 0)",
    "rota_idempotency": (
        "INSERT INTO rota_idempotency (scope, `key`, request, job_id, expires_at) VALUES ('', 'k', '', 1, 0)"
    ),
}


@pytest.fixture
async def bare(url: str, store: MysqlStore) -> AsyncIterator[MysqlConnection]:
    del store
    connection = await connect(location_of(url), "bare", autocommit=True)
    yield connection
    await connection.close()


@pytest.mark.parametrize("table", OLD)
async def test_what_is_past_its_time_is_seen_by_itself(store: MysqlStore, bare: MysqlConnection, table: str) -> None:
    await bare.run(OLD[table])
    await store.prune(Retention(), 100)
    assert await bare.rows(f"SELECT COUNT(*) FROM {table}") == ((0,),)  # noqa: S608 - a table of ours
