from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from journeys.stage import Stage, staged
from servers.databases import empty_database
from servers.postgres import migrated_database, shared_server

STORES = ("sqlite", "postgres", "mariadb")


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Give a stage on the store that a test asks for: `@on_every_store`, or a SQLite file."""
    kind = getattr(request, "param", "sqlite")
    if kind == "sqlite":
        with staged(tmp_path) as one:
            yield one
        return
    lent: AbstractAsyncContextManager[str] = (
        migrated_database(shared_server()) if kind == "postgres" else empty_database()
    )
    with asyncio.Runner() as runner:
        url = runner.run(lent.__aenter__())
        with staged(tmp_path, url) as one:
            yield one
        runner.run(lent.__aexit__(None, None, None))
