"""Stores by URL: opens them, waits for their server at start, and lists their migrations.

A server's driver is an optional extra and is imported only when a URL names such a server.

At start whole deployments come up at once, and a database takes longer than a process. So a store on a server that does
not answer is tried again, after longer and longer pauses, until `start_timeout` is over. Any failure to reach it
counts, also a refused login: a new server has no users yet. Errors that cannot pass (a bad URL, a missing driver, a
newer schema) are raised at once, and so is any error of a store in a file.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from rota.backoff import JitteredBackoff
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.ports.store import Store
from rota.stores.grants import Grants, Roles
from rota.stores.migrations import MigrationState, compare

T = TypeVar("T")
SHORTEST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 5.0
_log = logging.getLogger("rota")
#: A DSN as Go programs write it, such as root:root@tcp(127.0.0.1:3310)/scheduler?parseTime=true.
_GO_STYLE: Final = re.compile(r"(?:.*@)?(?:tcp|unix)\([^()]*\)/.*", re.DOTALL)

#: A connection string of libpq: `host=db port=5432 dbname=x`. Taken for a path, it would create a file.
_LIBPQ_WORDS: Final = re.compile(r"\s*(?:host|hostaddr|port|dbname|user|password|service|sslmode)\s*=")


async def open_store(url: str, *, hand_over: bool = True, few_connections: bool = False) -> Store:
    """Open the store that a URL or a path names, and migrate it to the schema of this release.

    Without `hand_over`, workers of this process get jobs only by claiming them; MariaDB never hands jobs over.
    `few_connections` is for a process that opens many stores.
    """
    if is_postgres(url):
        return await _open_postgres(url, hand_over=hand_over, few_connections=few_connections)
    if is_mysql(url):
        return await _open_mysql(url, few_connections=few_connections)
    from rota.stores.sqlite import SqliteStore  # noqa: PLC0415 - a program that only defines tasks opens no store

    return await SqliteStore.open(path_of(url), hand_over=hand_over)


async def wait_for_store(
    url: str,
    open_it: Callable[[], Awaitable[T]],
    at_most: timedelta,
    *,
    rng: Callable[[], float] = random.random,
) -> T:
    """Open a store; while its server is unavailable, try again for `at_most`. May be cancelled at any moment."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + (at_most.total_seconds() if is_server(url) else 0.0)
    backoff = JitteredBackoff(rng, shortest=SHORTEST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
    while True:
        try:
            return await open_it()
        except StoreUnavailable as error:
            left = give_up_at - loop.time()
            if left <= 0:
                raise
            pause = min(backoff.next(), left)
            _log.warning("the store is unavailable; trying again in %.1f s, for %.0f s more: %s", pause, left, error)
        await asyncio.sleep(pause)


def migrations_of(url: str) -> list[MigrationState]:
    """List the migrations of this release and those in the store, and whether each is applied; changes nothing."""
    if is_postgres(url):
        return asyncio.run(_postgres_status(url))
    if is_mysql(url):
        return asyncio.run(_mysql_status(url))
    from rota.stores.sqlite.driver import StandardConnection  # noqa: PLC0415 - as above
    from rota.stores.sqlite.migrations import all_migrations, applied  # noqa: PLC0415

    path = path_of(url)
    seen: dict[int, str] = {}
    if path.exists():
        connection = StandardConnection(str(path))
        try:
            seen = applied(connection)
        finally:
            connection.close()
    return compare(all_migrations(), seen)


def grants_of(url: str, roles: Roles) -> Grants:
    """Return the SQL that gives roles of the database the least privileges; connects to nothing."""
    if is_postgres(url):
        try:
            from rota.stores.postgres import grants as postgres  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            _refuse_without("asyncpg", "postgres", error)
        return postgres.grants(url, roles)
    if is_mysql(url):
        try:
            from rota.stores.mysql import grants as mysql  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            _refuse_without("asyncmy", "mysql", error)
        return mysql.grants(url, roles)
    raise InvalidRequest(
        f"store: {path_of(url)} is a file of SQLite, which has no roles; set the file's owner and mode instead, or name"
        " a store on PostgreSQL or MariaDB",
        field="store",
    )


def is_server(url: str) -> bool:
    """Whether a URL names a database on a server."""
    return is_postgres(url) or is_mysql(url)


def is_postgres(url: str) -> bool:
    """Whether a URL names a database on PostgreSQL."""
    return url.startswith(("postgresql://", "postgres://"))


async def _open_postgres(url: str, *, hand_over: bool, few_connections: bool) -> Store:
    try:
        from rota.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncpg", "postgres", error)
    return await PostgresStore.open(url, hand_over=hand_over, few_connections=few_connections)


async def _postgres_status(url: str) -> list[MigrationState]:
    try:
        from rota.stores.postgres.migrations import status  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncpg", "postgres", error)
    return await status(url)


def is_mysql(url: str) -> bool:
    """Whether a URL or a DSN names a database on MariaDB or MySQL."""
    return url.startswith(("mysql://", "mariadb://")) or _GO_STYLE.fullmatch(url) is not None


async def _open_mysql(url: str, *, few_connections: bool) -> Store:
    try:
        from rota.stores.mysql import MysqlStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncmy", "mysql", error)
    return await MysqlStore.open(url, few_connections=few_connections)


async def _mysql_status(url: str) -> list[MigrationState]:
    try:
        from rota.stores.mysql.migrations import status  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _refuse_without("asyncmy", "mysql", error)
    return await status(url)


def _refuse_without(driver: str, extra: str, error: ModuleNotFoundError) -> NoReturn:
    """Name the package to install; re-raise if another module is missing."""
    if (error.name or "").partition(".")[0] != driver:
        raise error
    raise InvalidRequest(
        f"store: {driver} is needed for this store and is not installed; pip install 'rota[{extra}]'", field="store"
    ) from None


def path_of(url: str) -> Path:
    """Return the file that a URL or a path names."""
    scheme, separator, rest = url.partition("://")
    if not separator and _LIBPQ_WORDS.match(url):
        raise InvalidRequest(
            "store: libpq's form host=… is not supported; write postgresql://user:password@host:port/database",
            field="store",
        )
    if not separator:
        return Path(url)
    if scheme == "sqlite":
        # Three slashes before a relative path, four with an absolute one, as in SQLAlchemy.
        return Path(rest.removeprefix("/"))
    raise InvalidRequest(
        f"store: {scheme!r} is not a known kind of store; use a file such as rota.db, sqlite:///rota.db,"
        " postgresql://user:password@host/database, or mysql://user:password@host/database",
        field="store",
    )
