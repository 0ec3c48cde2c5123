"""Transactions on the caller's own connection: recognises the driver and wraps the connection for the store.

A connection is recognised by the names of its class, of its base classes and of their packages. So no driver is
imported here: the caller has imported it. From SQLAlchemy's sessions and connections the driver's connection is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.ports.caller_tx import CallerTransaction, OpenCallerTransaction
from rota.runtime.encryption import open_cipher
from rota.runtime.store import is_mysql, is_postgres, path_of
from rota.stores.caller_tx import resolved


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """A kind of connection: its driver, and how it is used."""

    name: str
    #: Whether its calls have to be awaited.
    is_async: bool
    #: Which kind of store it can reach; None for SQLAlchemy's, which can reach any.
    store: str | None = None
    #: Wraps such a connection for the store at a URL.
    wrap: Callable[[Any, str], CallerTransaction] | None = None


def _sqlite(connection: Any, url: str) -> CallerTransaction:  # noqa: ANN401 - as recognised
    from rota.stores.sqlite.caller_tx import SqliteCallerConnection  # noqa: PLC0415 - when needed, as below

    return SqliteCallerConnection(connection, path_of(url))


def _asyncpg(connection: Any, url: str) -> CallerTransaction:  # noqa: ANN401 - as recognised
    from rota.stores.postgres.caller_tx import over_asyncpg  # noqa: PLC0415 - an extra

    return over_asyncpg(connection, url)


def _psycopg(connection: Any, url: str) -> CallerTransaction:  # noqa: ANN401 - as recognised
    from rota.stores.postgres.caller_tx import over_psycopg  # noqa: PLC0415 - an extra

    return over_psycopg(connection, url, is_async=kind_of(connection).is_async)


def _asyncmy(connection: Any, url: str) -> CallerTransaction:  # noqa: ANN401 - as recognised
    from rota.stores.mysql.caller_tx import over_asyncmy  # noqa: PLC0415 - an extra

    return over_asyncmy(connection, url)


def _pymysql(connection: Any, url: str) -> CallerTransaction:  # noqa: ANN401 - as recognised
    from rota.stores.mysql.caller_tx import over_pymysql  # noqa: PLC0415 - an extra

    return over_pymysql(connection, url)


_SESSION: Final = ConnectionKind("SQLAlchemy session", is_async=False)
_ASYNC_SESSION: Final = ConnectionKind("SQLAlchemy async session", is_async=True)
_CONNECTION: Final = ConnectionKind("SQLAlchemy connection", is_async=False)
_ASYNC_CONNECTION: Final = ConnectionKind("SQLAlchemy async connection", is_async=True)
_ASYNCPG: Final = ConnectionKind("asyncpg connection", is_async=True, store="PostgreSQL", wrap=_asyncpg)

#: By package and class.
CONNECTION_KINDS: Final[Mapping[tuple[str, str], ConnectionKind]] = {
    ("sqlite3", "Connection"): ConnectionKind("sqlite3 connection", is_async=False, store="SQLite", wrap=_sqlite),
    ("asyncpg", "Connection"): _ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): _ASYNCPG,
    ("psycopg", "Connection"): ConnectionKind("psycopg connection", is_async=False, store="PostgreSQL", wrap=_psycopg),
    ("psycopg", "AsyncConnection"): ConnectionKind(
        "psycopg async connection", is_async=True, store="PostgreSQL", wrap=_psycopg
    ),
    ("asyncmy", "Connection"): ConnectionKind("asyncmy connection", is_async=True, store="MySQL", wrap=_asyncmy),
    ("pymysql", "Connection"): ConnectionKind("PyMySQL connection", is_async=False, store="MySQL", wrap=_pymysql),
    ("sqlalchemy", "Session"): _SESSION,
    ("sqlalchemy", "scoped_session"): _SESSION,
    ("sqlalchemy", "AsyncSession"): _ASYNC_SESSION,
    ("sqlalchemy", "async_scoped_session"): _ASYNC_SESSION,
    ("sqlalchemy", "Connection"): _CONNECTION,
    ("sqlalchemy", "AsyncConnection"): _ASYNC_CONNECTION,
}


#: Names `caller_connections_of` for workers and their child processes, which must not import this package.
CALLER_TX_FACTORY: Final = f"{__name__}:caller_connections_of"


def kind_of(tx: object) -> ConnectionKind:
    for ancestor in type(tx).__mro__:
        kind = CONNECTION_KINDS.get((ancestor.__module__.partition(".")[0], ancestor.__name__))
        if kind is not None:
            return kind
    given = f"{type(tx).__module__}.{type(tx).__qualname__}"
    known = ", ".join(dict.fromkeys(kind.name for kind in CONNECTION_KINDS.values()))
    raise InvalidRequest(f"tx: {given} is not a known connection; pass one of: {known}", field="tx")


async def caller_connection_of(url: str, tx: Any) -> CallerTransaction:  # noqa: ANN401 - any connection
    """Wrap a connection for the store at a URL. Suspends only if the connection is async."""
    store = _store_of(url)
    kind = driver_kind = kind_of(tx)
    connection = tx
    if kind.wrap is None:
        connection = await _driver_connection(tx, kind)
        driver_kind = kind_of(connection)
    if driver_kind.is_async != kind.is_async:
        message = f"tx: the driver that this {kind.name} uses ({driver_kind.name}) is async"
        raise InvalidRequest(f"{message}; pass the AsyncSession or AsyncConnection, and use asubmit", field="tx")
    if driver_kind.store != store or driver_kind.wrap is None:
        message = f"tx: this {driver_kind.name} cannot reach the store, which is on {store}"
        raise InvalidRequest(f"{message}; connect to the store's database", field="tx")
    return driver_kind.wrap(connection, url)


def caller_connections_of(url: str, encryption_keys: str = "") -> OpenCallerTransaction:
    """Return the wrapper of handlers' connections for the store at a URL; see `CALLER_TX_FACTORY`."""
    cipher = open_cipher(encryption_keys)

    async def wrap(tx: object, *, is_async: bool) -> CallerTransaction:
        kind = kind_of(tx)
        if kind.is_async and not is_async:
            raise InvalidRequest(f"tx: the {kind.name} is async; use astep", field="tx")
        if is_async and not kind.is_async:
            raise InvalidRequest(f"tx: the {kind.name} would block the event loop; use step", field="tx")
        opened = await caller_connection_of(url, tx)
        if cipher is None:
            return opened
        from rota.encryption.worker import EncryptedCallerTransaction  # noqa: PLC0415 - an extra

        return EncryptedCallerTransaction(opened, cipher)

    return wrap


def _store_of(url: str) -> str:
    if url.startswith(("http://", "https://")):
        raise InvalidRequest(
            "tx: over HTTP a job cannot join your transaction; give Rota the URL of the store itself, such as"
            " postgresql://user@host/database",
            field="tx",
        )
    return "PostgreSQL" if is_postgres(url) else "MySQL" if is_mysql(url) else "SQLite"


async def _driver_connection(tx: Any, kind: ConnectionKind) -> Any:  # noqa: ANN401 - SQLAlchemy's, and then a driver's
    """Return the driver's connection of a SQLAlchemy session or connection."""
    connection = await resolved(tx.connection()) if kind in {_SESSION, _ASYNC_SESSION} else tx
    # SQLAlchemy begins its transaction with the first statement. Before that, its commit would do nothing, and our
    # insert would be committed alone.
    (await resolved(connection.exec_driver_sql("SELECT 1"))).close()
    pooled = await resolved(connection.get_raw_connection()) if kind.is_async else connection.connection
    return pooled.driver_connection
