"""Provisioning of namespaces: a database of its own, `rota_acme` beside `rota`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.errors import ConnectionLost, RetryTransaction, ServerRefused
from rota.stores.mysql.location import MysqlLocation, location_of, with_database
from rota.stores.mysql.migrations import applied

_LONGEST: Final = 64
_THERE: Final = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %(name)s"


def url_of_namespace(url: str, name: str) -> str:
    """Return the URL of a namespace's store."""
    own = f"{location_of(url).database}_{name.replace('-', '_')}"
    if len(own) > _LONGEST:
        raise InvalidRequest(f"name: the database {own!r} would be longer than {_LONGEST} characters", field="name")
    return with_database(url, own)


async def exists(url: str) -> bool:
    """Return whether there is a database with the tables of a store."""
    where = location_of(url)
    async with _connected(replace(where, database="")) as server:
        if not await server.rows(_THERE, {"name": where.database}):
            return False
    async with _connected(where) as connection:
        return bool(await applied(connection))


async def create(url: str) -> None:
    """Create the database of a store, without tables."""
    where = location_of(url)
    try:
        async with _connected(replace(where, database="")) as server:
            if not await server.rows(_THERE, {"name": where.database}):
                await server.run(f"CREATE DATABASE {_quoted(where.database)}")
    except StoreUnavailable as error:
        raise InvalidRequest(
            f"store: the database {where.database} cannot be created: {error}; create it, or grant the user the rights",
            field="store",
        ) from error


async def drop(url: str) -> None:
    """Drop the database of a store; one that is gone already does no harm."""
    where = location_of(url)
    async with _connected(replace(where, database="")) as server:
        await server.run(f"DROP DATABASE IF EXISTS {_quoted(where.database)}")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@asynccontextmanager
async def _connected(where: MysqlLocation) -> AsyncIterator[MysqlConnection]:
    """Lend a connection without a pool; statements may take long."""
    try:
        connection = await connect(where, "", autocommit=True)
        try:
            with connection.allowing():
                yield connection
        finally:
            await connection.close()
    except (ServerRefused, ConnectionLost, RetryTransaction) as error:
        raise StoreUnavailable(f"{where.name}: {error}") from error
