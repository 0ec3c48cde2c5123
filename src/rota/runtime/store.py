"""Which store a URL names. A server's driver is loaded only when a server is named: it is an extra."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final, NoReturn

from rota.core.errors import InvalidRequest
from rota.ports.store import Store
from rota.stores.migrations import MigrationState, compare
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import StandardConnection
from rota.stores.sqlite.migrations import all_migrations, applied

#: A DSN as Go programs write it, such as root:root@tcp(127.0.0.1:3310)/scheduler?parseTime=true.
_GO_STYLE: Final = re.compile(r"(?:.*@)?(?:tcp|unix)\([^()]*\)/.*", re.DOTALL)

#: Where a PostgreSQL server is, as libpq reads it: `host=db port=5432 dbname=x`. Taken for a file, it would become one.
_IN_WORDS: Final = re.compile(r"\s*(?:host|hostaddr|port|dbname|user|password|service|sslmode)\s*=")


async def open_store(url: str) -> Store:
    """Open the store that a URL or a path names, brought to the form this release needs."""
    if is_postgres(url):
        return await _open_postgres(url)
    if is_mysql(url):
        return await _open_mysql(url)
    return await SqliteStore.open(path_of(url))


def migrations_of(url: str) -> list[MigrationState]:
    """Give the migrations of this release, and those of others, and whether a store has seen them; changes nothing."""
    if is_postgres(url):
        return asyncio.run(_postgres_status(url))
    if is_mysql(url):
        return asyncio.run(_mysql_status(url))
    path = path_of(url)
    seen: dict[int, str] = {}
    if path.exists():
        connection = StandardConnection(str(path))
        try:
            seen = applied(connection)
        finally:
            connection.close()
    return compare(all_migrations(), seen)


def is_server(url: str) -> bool:
    """Whether a URL names a database on a server."""
    return is_postgres(url) or is_mysql(url)


def is_postgres(url: str) -> bool:
    """Whether a URL names a database on PostgreSQL."""
    return url.startswith(("postgresql://", "postgres://"))


async def _open_postgres(url: str) -> Store:
    try:
        from rota.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncpg", "postgres", error)
    return await PostgresStore.open(url)


async def _postgres_status(url: str) -> list[MigrationState]:
    try:
        from rota.stores.postgres.migrations import status  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncpg", "postgres", error)
    return await status(url)


def is_mysql(url: str) -> bool:
    """Whether a URL or a DSN names a database on MariaDB or MySQL."""
    return url.startswith(("mysql://", "mariadb://")) or _GO_STYLE.fullmatch(url) is not None


async def _open_mysql(url: str) -> Store:
    try:
        from rota.stores.mysql import MysqlStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncmy", "mysql", error)
    return await MysqlStore.open(url)


async def _mysql_status(url: str) -> list[MigrationState]:
    try:
        from rota.stores.mysql.migrations import status  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncmy", "mysql", error)
    return await status(url)


def _refuse_without(driver: str, extra: str, error: ModuleNotFoundError) -> NoReturn:
    """Say what to install; unless something else is missing, which is a fault of ours."""
    if (error.name or "").partition(".")[0] != driver:
        raise error
    raise InvalidRequest(
        f"store: {driver} is needed for this store and is not installed; pip install 'rota[{extra}]'", field="store"
    ) from None


def path_of(url: str) -> Path:
    """Give the file that a URL or a path names."""
    scheme, separator, rest = url.partition("://")
    if not separator and _IN_WORDS.match(url):
        raise InvalidRequest(
            "store: words such as host=… are not understood; write postgresql://user:password@host:port/database",
            field="store",
        )
    if not separator:
        return Path(url)
    if scheme == "sqlite":
        # Three slashes and a relative path, four and an absolute one, as everywhere.
        return Path(rest.removeprefix("/"))
    raise InvalidRequest(
        f"store: {scheme!r} is not a kind of store we know; use a file such as rota.db, sqlite:///rota.db,"
        " postgresql://user:password@host/database, or mysql://user:password@host/database",
        field="store",
    )
