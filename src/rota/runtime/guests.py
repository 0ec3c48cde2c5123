"""Which guest a connection of the caller's becomes.

A connection is known by the names of its class and of the package that the class is from, its ancestors' included. So
no driver is imported here: whoever brings a connection has imported what it is made of. SQLAlchemy's sessions and
connections are taken apart down to the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.ports.guest import Guest, Welcome
from rota.runtime.store import is_mysql, is_postgres, path_of
from rota.stores.guests import answered


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of connection: what it is of, and how it is used."""

    name: str
    #: Whether its calls have to be awaited.
    is_async: bool
    #: Which kind of store it can reach; None for SQLAlchemy's, which can reach any.
    store: str | None = None
    #: Makes a guest of such a connection, for the store at a URL.
    welcome: Callable[[Any, str], Guest] | None = None


def _sqlite(connection: Any, url: str) -> Guest:  # noqa: ANN401 - as recognised
    from rota.stores.sqlite.guest import SqliteGuest  # noqa: PLC0415 - when needed, as below

    return SqliteGuest(connection, path_of(url))


def _asyncpg(connection: Any, url: str) -> Guest:  # noqa: ANN401 - as recognised
    from rota.stores.postgres.guest import over_asyncpg  # noqa: PLC0415 - an extra

    del url
    return over_asyncpg(connection)


def _psycopg(connection: Any, url: str) -> Guest:  # noqa: ANN401 - as recognised
    from rota.stores.postgres.guest import over_psycopg  # noqa: PLC0415 - an extra

    del url
    return over_psycopg(connection, is_async=kind_of(connection).is_async)


def _asyncmy(connection: Any, url: str) -> Guest:  # noqa: ANN401 - as recognised
    from rota.stores.mysql.guest import over_asyncmy  # noqa: PLC0415 - an extra

    return over_asyncmy(connection, url)


def _pymysql(connection: Any, url: str) -> Guest:  # noqa: ANN401 - as recognised
    from rota.stores.mysql.guest import over_pymysql  # noqa: PLC0415 - an extra

    return over_pymysql(connection, url)


_SESSION: Final = Kind("SQLAlchemy session", is_async=False)
_ASYNC_SESSION: Final = Kind("SQLAlchemy async session", is_async=True)
_CONNECTION: Final = Kind("SQLAlchemy connection", is_async=False)
_ASYNC_CONNECTION: Final = Kind("SQLAlchemy async connection", is_async=True)
_ASYNCPG: Final = Kind("asyncpg connection", is_async=True, store="PostgreSQL", welcome=_asyncpg)

#: By package and class.
KINDS: Final[Mapping[tuple[str, str], Kind]] = {
    ("sqlite3", "Connection"): Kind("sqlite3 connection", is_async=False, store="SQLite", welcome=_sqlite),
    ("asyncpg", "Connection"): _ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): _ASYNCPG,
    ("psycopg", "Connection"): Kind("psycopg connection", is_async=False, store="PostgreSQL", welcome=_psycopg),
    ("psycopg", "AsyncConnection"): Kind(
        "psycopg async connection", is_async=True, store="PostgreSQL", welcome=_psycopg
    ),
    ("asyncmy", "Connection"): Kind("asyncmy connection", is_async=True, store="MySQL", welcome=_asyncmy),
    ("pymysql", "Connection"): Kind("PyMySQL connection", is_async=False, store="MySQL", welcome=_pymysql),
    ("sqlalchemy", "Session"): _SESSION,
    ("sqlalchemy", "scoped_session"): _SESSION,
    ("sqlalchemy", "AsyncSession"): _ASYNC_SESSION,
    ("sqlalchemy", "async_scoped_session"): _ASYNC_SESSION,
    ("sqlalchemy", "Connection"): _CONNECTION,
    ("sqlalchemy", "AsyncConnection"): _ASYNC_CONNECTION,
}


#: Names `guests_of` to workers, which cannot see it, and to their child processes.
HOUSE: Final = f"{__name__}:guests_of"


def kind_of(tx: object) -> Kind:
    """Recognise a connection, or refuse it."""
    for ancestor in type(tx).__mro__:
        kind = KINDS.get((ancestor.__module__.partition(".")[0], ancestor.__name__))
        if kind is not None:
            return kind
    given = f"{type(tx).__module__}.{type(tx).__qualname__}"
    known = ", ".join(dict.fromkeys(kind.name for kind in KINDS.values()))
    raise InvalidRequest(f"tx: {given} is no connection that we know; pass one of: {known}", field="tx")


async def guest_of(url: str, tx: Any) -> Guest:  # noqa: ANN401 - any connection
    """Make a guest of a connection, for the store at a URL. Suspends only if the connection is async."""
    store = _store_of(url)
    kind = driver_kind = kind_of(tx)
    connection = tx
    if kind.welcome is None:
        connection = await _unwrapped(tx, kind)
        driver_kind = kind_of(connection)
    if driver_kind.is_async != kind.is_async:
        message = f"tx: what this {kind.name} uses ({driver_kind.name}) has to be awaited"
        raise InvalidRequest(f"{message}; pass the AsyncSession or AsyncConnection, and use asubmit", field="tx")
    if driver_kind.store != store or driver_kind.welcome is None:
        message = f"tx: this {driver_kind.name} does not lead to the store, which is on {store}"
        raise InvalidRequest(f"{message}; connect to the store's database", field="tx")
    return driver_kind.welcome(connection, url)


def guests_of(url: str) -> Welcome:
    """Give what makes guests of handlers' connections, for the store at a URL; see `HOUSE`."""

    async def welcome(tx: object, *, is_async: bool) -> Guest:
        kind = kind_of(tx)
        if kind.is_async and not is_async:
            raise InvalidRequest(f"tx: the {kind.name} has to be awaited; use astep", field="tx")
        if is_async and not kind.is_async:
            raise InvalidRequest(f"tx: the {kind.name} would block the event loop; use step", field="tx")
        return await guest_of(url, tx)

    return welcome


def _store_of(url: str) -> str:
    if url.startswith(("http://", "https://")):
        raise InvalidRequest(
            "tx: over HTTP nobody can be a part of your transaction; give Rota the store's own address, such as"
            " postgresql://user@host/database",
            field="tx",
        )
    return "PostgreSQL" if is_postgres(url) else "MySQL" if is_mysql(url) else "SQLite"


async def _unwrapped(tx: Any, kind: Kind) -> Any:  # noqa: ANN401 - SQLAlchemy's, and then a driver's
    """Give the driver's connection that SQLAlchemy uses in this transaction."""
    connection = await answered(tx.connection()) if kind in {_SESSION, _ASYNC_SESSION} else tx
    # It begins with the first statement, in its own books and with some drivers on the server too. Before that, its
    # commit would commit nothing, and ours would stand alone.
    (await answered(connection.exec_driver_sql("SELECT 1"))).close()
    pooled = await answered(connection.get_raw_connection()) if kind.is_async else connection.connection
    return pooled.driver_connection
