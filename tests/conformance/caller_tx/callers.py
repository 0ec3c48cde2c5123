"""The ways in which a program may be connected to the store's database. A new driver adds an entry here, and no tests.

Every caller has a table of its own beside Rota's, and each is used by the same tests, whether it blocks or is awaited.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import asyncmy
import asyncpg
import psycopg
import pymysql
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from conformance.stores.adapters import Adapter, Mariadb, Postgres, SqliteFile
from rota import Call, Handle, Rota, Task
from rota.ports.caller_tx import run_sync
from rota.stores.caller_tx import resolved
from rota.worker.transactions import TransactionSteps

OWN_TABLE: Final = "CREATE TABLE IF NOT EXISTS purchase (number bigint NOT NULL)"


@dataclass(slots=True)
class Caller:
    """A program's own connection, and what the program does with it."""

    tx: Any
    run: Callable[[str], Any]
    rows: Callable[[str], Any]
    end: Callable[[str], Any]
    begin: Callable[[], Any] = field(default=lambda: None)
    is_async: bool = field(kw_only=True)

    async def execute(self, sql: str) -> None:
        """Run a statement in the transaction."""
        await resolved(self.run(sql))

    async def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement in the transaction and give its rows."""
        return [tuple(row) for row in await resolved(self.rows(sql))]

    async def start(self) -> None:
        """Begin a transaction, where the driver does not do so by itself."""
        await resolved(self.begin())

    async def buy(self, number: int) -> None:
        """Do the program's own business."""
        await self.execute(f"INSERT INTO purchase VALUES ({number})")  # noqa: S608 - a number

    async def commit(self) -> None:
        """End the transaction well."""
        await resolved(self.end("commit"))

    async def rollback(self) -> None:
        """End the transaction without a trace."""
        await resolved(self.end("rollback"))

    async def submit(self, task: Task[[int], int], number: int, **options: Any) -> Handle[int]:  # noqa: ANN401
        """Submit a job within the transaction, in the way that suits the driver."""
        chosen = task.using(tx=self.tx, **options)
        return await chosen.asubmit(number) if self.is_async else chosen.submit(number)

    async def step(self, within: TransactionSteps, key: str, number: int) -> Any:  # noqa: ANN401 - what it yielded
        """Buy as a step of a job, with the blocking or async form of the driver; a purchase of nothing is refused."""

        async def buy() -> dict[str, int]:
            await self.buy(number)
            return {"bought": number * number // number}

        if self.is_async:
            return await within.perform_async(key, buy, self.tx)
        return within.perform(key, lambda: run_sync(buy()), self.tx)

    async def submit_many(self, app: Rota, calls: list[Call[int]]) -> list[Handle[int]]:
        """Submit jobs within the transaction, in the way that suits the driver."""
        return await app.asubmit_many(calls, tx=self.tx) if self.is_async else app.submit_many(calls, tx=self.tx)


Connect = Callable[[str], AbstractAsyncContextManager[Caller]]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of being connected, and the store that it leads to."""

    name: str
    store: Adapter
    connect: Connect


@asynccontextmanager
async def over_sqlite3(place: str) -> AsyncIterator[Caller]:
    connection = sqlite3.connect(place, check_same_thread=False)
    execute = connection.execute
    yield Caller(
        connection, execute, lambda sql: execute(sql).fetchall(), lambda how: getattr(connection, how)(), is_async=False
    )
    connection.close()


@asynccontextmanager
async def over_asyncpg(place: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(place)
    begin = connection.execute
    yield Caller(
        connection, connection.execute, connection.fetch, connection.execute, lambda: begin("BEGIN"), is_async=True
    )
    await connection.close()


@asynccontextmanager
async def over_asyncpg_pool(place: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(place, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        begin = connection.execute
        yield Caller(
            connection, connection.execute, connection.fetch, connection.execute, lambda: begin("BEGIN"), is_async=True
        )


@asynccontextmanager
async def over_psycopg(place: str) -> AsyncIterator[Caller]:
    connection = psycopg.connect(place)
    execute: Any = connection.execute
    yield Caller(
        connection, execute, lambda sql: execute(sql).fetchall(), lambda how: getattr(connection, how)(), is_async=False
    )
    connection.close()


@asynccontextmanager
async def over_async_psycopg(place: str) -> AsyncIterator[Caller]:
    connection = await psycopg.AsyncConnection.connect(place)
    execute: Any = connection.execute

    async def rows(sql: str) -> Any:  # noqa: ANN401 - the driver's
        return await (await execute(sql)).fetchall()

    yield Caller(connection, execute, rows, lambda how: getattr(connection, how)(), is_async=True)
    await connection.close()


def mysql_options(place: str) -> dict[str, Any]:
    """Return how to reach a database on MariaDB."""
    parts = urlsplit(place)
    return {"host": parts.hostname, "port": parts.port, "user": parts.username, "database": parts.path[1:]}


@asynccontextmanager
async def over_pymysql(place: str) -> AsyncIterator[Caller]:
    connection = pymysql.connect(**mysql_options(place))

    def rows(sql: str) -> Any:  # noqa: ANN401 - the driver's
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor.fetchall()

    yield Caller(connection, rows, rows, lambda how: getattr(connection, how)(), is_async=False)
    connection.close()


@asynccontextmanager
async def over_asyncmy(place: str) -> AsyncIterator[Caller]:
    connection = await asyncmy.connect(**mysql_options(place))

    async def rows(sql: str) -> Any:  # noqa: ANN401 - the driver's
        cursor = connection.cursor()
        await cursor.execute(sql)
        return await cursor.fetchall()

    yield Caller(connection, rows, rows, lambda how: getattr(connection, how)(), is_async=True)
    await connection.ensure_closed()


def address(dialect: str, place: str) -> str:
    """Say a place as SQLAlchemy has it."""
    return f"{dialect}:///{place}" if "://" not in place else f"{dialect}://{place.partition('://')[2]}"


def blocking(dialect: str, make: Callable[[Engine], Session | Connection]) -> Connect:
    """Be connected over SQLAlchemy."""

    @asynccontextmanager
    async def connect(place: str) -> AsyncIterator[Caller]:
        engine = create_engine(address(dialect, place))
        used = make(engine)
        run: Callable[[str], Any] = lambda sql: used.execute(text(sql))  # noqa: E731
        yield Caller(used, run, lambda sql: run(sql).all(), lambda how: getattr(used, how)(), is_async=False)
        used.close()
        engine.dispose()

    return connect


def awaited(dialect: str, make: Callable[[AsyncEngine], AsyncSession | AsyncConnection]) -> Connect:
    """Be connected over SQLAlchemy's asyncio side."""

    @asynccontextmanager
    async def connect(place: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(address(dialect, place))
        async with make(engine) as used:
            run: Callable[[str], Any] = lambda sql: used.execute(text(sql))  # noqa: E731

            async def rows(sql: str) -> Any:  # noqa: ANN401 - SQLAlchemy's
                return (await run(sql)).all()

            yield Caller(used, run, rows, lambda how: getattr(used, how)(), is_async=True)
        await engine.dispose()

    return connect


SQLITE3: Final = Way("sqlite3", SqliteFile(), over_sqlite3)
ASYNCPG: Final = Way("asyncpg", Postgres(), over_asyncpg)
PSYCOPG: Final = Way("psycopg", Postgres(), over_psycopg)
ASYNC_PSYCOPG: Final = Way("psycopg-async", Postgres(), over_async_psycopg)
PYMYSQL: Final = Way("pymysql", Mariadb(), over_pymysql)
ASYNCMY: Final = Way("asyncmy", Mariadb(), over_asyncmy)
DRIVERS: Final = (SQLITE3, ASYNCPG, PSYCOPG, ASYNC_PSYCOPG, PYMYSQL, ASYNCMY)
WRAPPED: Final = (
    Way("asyncpg-pool", Postgres(), over_asyncpg_pool),
    Way("session-sqlite3", SqliteFile(), blocking("sqlite", Session)),
    Way("connection-sqlite3", SqliteFile(), blocking("sqlite", Engine.connect)),
    Way("session-psycopg", Postgres(), blocking("postgresql+psycopg", Session)),
    Way("connection-psycopg", Postgres(), blocking("postgresql+psycopg", Engine.connect)),
    Way("async-session-psycopg", Postgres(), awaited("postgresql+psycopg", AsyncSession)),
    Way("async-session-asyncpg", Postgres(), awaited("postgresql+asyncpg", AsyncSession)),
    Way("async-connection-asyncpg", Postgres(), awaited("postgresql+asyncpg", AsyncEngine.connect)),
    Way("session-pymysql", Mariadb(), blocking("mysql+pymysql", Session)),
    Way("connection-pymysql", Mariadb(), blocking("mysql+pymysql", Engine.connect)),
    Way("async-session-asyncmy", Mariadb(), awaited("mysql+asyncmy", AsyncSession)),
    Way("async-connection-asyncmy", Mariadb(), awaited("mysql+asyncmy", AsyncEngine.connect)),
)
WAYS: Final = (*DRIVERS, *WRAPPED)
BY_NAME: Final = {way.name: way for way in WAYS}
