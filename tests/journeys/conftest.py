from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from journeys.system import System, open_system
from servers.databases import empty_database
from servers.etcd import shared_cluster
from servers.pgbouncer import shared_pooler
from servers.postgres import migrated_database, shared_server
from servers.valkey import shared_valkey


@pytest.fixture
def system(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[System]:
    """Open a system on the store that a test names, or on a SQLite file."""
    kind = getattr(request, "param", "sqlite")
    if kind == "sqlite":
        with open_system(tmp_path) as one:
            yield one
        return
    lent: AbstractAsyncContextManager[str] = (
        empty_database() if kind == "mariadb" else migrated_database(shared_server())
    )
    with asyncio.Runner() as runner:
        url = runner.run(lent.__aenter__())
        with open_system(tmp_path, shared_pooler().dsn(url) if kind == "pgbouncer" else url) as one:
            if kind == "cluster":
                # One server of each for all tests of this process: a name of its own keeps a test apart.
                one.variables = {
                    "REDIS_URL": shared_valkey().url,
                    "REDIS_STREAM_NAME": f"journey-{one.port}",
                    "ROTA_COORDINATOR": f"etcd://{shared_cluster().endpoints}/journey-{one.port}",
                }
            yield one
        runner.run(lent.__aexit__(None, None, None))
