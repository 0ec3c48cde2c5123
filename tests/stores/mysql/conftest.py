"""Connections of the store's driver to databases on the shared server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of
from servers.databases import empty_database, fresh_database


@pytest.fixture
async def fresh_url() -> AsyncIterator[str]:
    """Return a database without tables."""
    async with fresh_database() as url:
        yield url


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Return a database without rows."""
    async with empty_database() as url:
        yield url


@pytest.fixture
async def store(url: str) -> AsyncIterator[MysqlStore]:
    store = await MysqlStore.open(url)
    yield store
    await store.close()


@pytest.fixture
async def fresh(fresh_url: str) -> AsyncIterator[MysqlConnection]:
    connection = await connect(location_of(fresh_url), "test", autocommit=True)
    yield connection
    await connection.close()
