"""Fixtures of the PostgreSQL store's tests: databases, stores and plain connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from rota.stores.postgres import PostgresStore
from servers.postgres import migrated_database, new_database, shared_server


@pytest.fixture
async def blank() -> AsyncIterator[str]:
    """The address of a database without any tables."""
    async with new_database(shared_server()) as dsn:
        yield dsn


@pytest.fixture
async def dsn() -> AsyncIterator[str]:
    """The address of a database with tables and nothing in them."""
    async with migrated_database(shared_server()) as dsn:
        yield dsn


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    """A store on the server's own clock."""
    store = await PostgresStore.open(dsn)
    yield store
    await store.close()


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[PostgresStore]:
    """Another store on the same database, as another process has one."""
    store = await PostgresStore.open(dsn)
    yield store
    await store.close()


@pytest.fixture
async def stranger(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A bare connection to the same database."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()
