"""Pruning first checks whether anything is past its retention: each kind is found by itself and deleted."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from guard.counting import PostgresQueries
from rota.ports.store import Retention
from rota.stores.postgres import PostgresStore

RETENTION = Retention(history=timedelta(days=1))
OLD = {
    "claim": "INSERT INTO rota_claim (claim_id, at, leases) VALUES ('c', 0, '[]')",
    "idempotency": "INSERT INTO rota_idempotency (scope, key, request, job_id, expires_at) VALUES ('', 'k', '', 1, 0)",
    "member": (
        "INSERT INTO rota_member (boot, role, name, host, pid, version, address, queues, slots, busy, is_draining,"
        " started_at, seen_at) VALUES ('b', 'worker', 'w', '', 1, '', '', '[]', 1, 0, false, 0, 0)"
    ),
}


@pytest.mark.parametrize("table", OLD)
async def test_each_kind_past_its_retention_is_found_by_itself(store: PostgresStore, dsn: str, table: str) -> None:
    await store.prune(RETENTION, 100)
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(OLD[table])
        await store.prune(RETENTION, 100)
        assert await connection.fetchval(f"SELECT count(*) FROM rota_{table}") == 0  # noqa: S608 - a table of ours
    finally:
        await connection.close()


async def test_the_last_entry_of_the_ledger_is_nothing_to_prune(store: PostgresStore, dsn: str) -> None:
    """It stays for ever, and would else be one."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "INSERT INTO rota_ledger (number, at, actor, action, target, origin, detail, digest, surface)"
        " VALUES (1, 0, '', '', '', '', '', '', '')"
    )
    await connection.close()
    await store.prune(RETENTION, 100)
    counts = await PostgresQueries(store).counted(lambda: store.prune(RETENTION, 100))
    assert counts["statements"] == 1
