"""PostgreSQL is killed under load, or its connections are: nothing acknowledged is lost, and processes continue without
a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg
import pytest

from crash.server_kill import Report, Run
from rota.stores.postgres import PostgresStore
from servers.postgres import PostgresServer, require_binaries

KILLS = 2
STEADY_SECONDS = 1.0


@dataclass
class CutOff:
    """A server that closes all connections instead of dying."""

    server: PostgresServer
    count: int = 0

    def kill(self) -> None:
        self.count += asyncio.run(self._terminate())

    def start(self) -> None:
        """It never went."""

    async def _terminate(self) -> int:
        connection = await asyncpg.connect(self.server.dsn())
        ended = await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        await connection.close()
        return len(ended)


def started(settings: Mapping[str, str]) -> PostgresServer:
    return PostgresServer(require_binaries(), settings)


@pytest.mark.timeout(120)
async def test_a_killed_server_loses_nothing_that_was_acknowledged_and_is_used_again() -> None:
    """Tuned to forget what it acknowledged in the last moments, too: the store does not let it."""
    server = started({"synchronous_commit": "off", "wal_writer_delay": "10s"})
    try:
        report = await Run(server, seed=1).drive(lambda: PostgresStore.open(server.dsn()), KILLS, STEADY_SECONDS)
    finally:
        server.remove()
    assert_all_went_on(report)


@pytest.mark.timeout(120)
async def test_connections_that_are_all_cut_under_load_lose_nothing_and_are_made_again() -> None:
    server = started({})
    cutter = CutOff(server)
    try:
        report = await Run(cutter, seed=2).drive(lambda: PostgresStore.open(server.dsn()), 2 * KILLS, STEADY_SECONDS)
    finally:
        server.remove()
    assert cutter.count > 0
    assert_all_went_on(report)


def assert_all_went_on(report: Report) -> None:
    assert report.violations == []
    assert report.kills > 0
    assert all(report.rate(back, 10.0) > 0 for back in report.returns)
