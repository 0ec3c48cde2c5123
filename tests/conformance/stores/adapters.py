"""The stores that the suite runs on. A new adapter adds an entry here, and no tests."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from conformance.model.reference import Reference
from crash.scratch import DATABASE, memory_folder
from rota.ports.store import Store
from rota.stores.mysql import MysqlStore
from rota.stores.postgres import PostgresStore
from rota.stores.sqlite import SqliteStore
from servers.databases import empty_database
from servers.pgbouncer import shared_pooler
from servers.postgres import migrated_database, shared_server
from servers.roles import limited_mariadb, limited_postgres

ReadClock = Callable[[], datetime]


class Adapter(Protocol):
    """One kind of store: where its databases are, and how one is opened."""

    @property
    def name(self) -> str:
        """How the suite calls it, and how a child process finds it."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether several stores, in several processes, can have one database open."""
        ...

    def place(self, folder: Path) -> AsyncIterator[str]:
        """Return an empty database to one test, and take it away afterwards."""
        ...

    async def open(self, place: str, clock: ReadClock) -> Store:
        """Open a database."""
        ...


@dataclass(frozen=True, slots=True)
class SqliteMemory:
    """SQLite in memory: inline on the calling thread, gone when closed."""

    name: str = "sqlite-memory"
    is_shared: bool = False

    async def place(self, folder: Path) -> AsyncIterator[str]:
        del folder
        yield ":memory:"

    async def open(self, place: str, clock: ReadClock) -> Store:
        return await SqliteStore.open(place, clock=clock)


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """SQLite on a file: a writing thread with group commit, reading threads, and other processes beside us."""

    name: str = "sqlite-file"
    is_shared: bool = True

    async def place(self, folder: Path) -> AsyncIterator[str]:
        # In memory and a copy: most of a test's time was spent on making tables and on waiting for the disk. That it
        # makes them, and what it entrusts to the disk, is tested elsewhere.
        del folder
        with memory_folder() as memory:
            path = memory / DATABASE
            if not _made:
                await (await SqliteStore.open(path)).close()
                _made.append(path.read_bytes())
            path.write_bytes(_made[0])
            yield str(path)

    async def open(self, place: str, clock: ReadClock) -> Store:
        return await SqliteStore.open(place, clock=clock)


#: A file as it is when it has just been made and closed.
_made: Final[list[bytes]] = []


class HastyPostgresStore(PostgresStore):
    """On a server that does not wait for the disk: it says so when it is checked, and here that is no finding."""

    async def check(self) -> Sequence[str]:
        return [finding for finding in await super().check() if not finding.startswith("setting ")]


@dataclass(frozen=True, slots=True)
class Postgres:
    """PostgreSQL: a server of our own, shared by all tests of this process, and a database for each.

    With ROTA_TEST_POOLED set, through pgbouncer in transaction mode.
    """

    name: str = "postgres"
    is_shared: bool = True

    async def place(self, folder: Path) -> AsyncIterator[str]:
        del folder
        async with migrated_database(shared_server()) as dsn:
            yield shared_pooler().dsn(dsn) if os.environ.get("ROTA_TEST_POOLED") else dsn

    async def open(self, place: str, clock: ReadClock) -> Store:
        return await HastyPostgresStore.open(place, clock=clock)


@dataclass(frozen=True, slots=True)
class Mariadb:
    """MariaDB: a server of our own, a database of its own for each test, other processes beside us."""

    name: str = "mariadb"
    is_shared: bool = True

    async def place(self, folder: Path) -> AsyncIterator[str]:
        del folder
        async with empty_database() as url:
            yield url

    async def open(self, place: str, clock: ReadClock) -> Store:
        return await MysqlStore.open(place, clock=clock)


@dataclass(frozen=True, slots=True)
class LimitedPostgres(Postgres):
    """PostgreSQL with the role that `rota db grants` gives to processes: it may change no table."""

    name: str = "postgres-limited"

    async def place(self, folder: Path) -> AsyncIterator[str]:
        del folder
        async with limited_postgres() as dsn:
            yield dsn


@dataclass(frozen=True, slots=True)
class LimitedMariadb(Mariadb):
    """MariaDB with the user that `rota db grants` gives to processes: it may change no table."""

    name: str = "mariadb-limited"

    async def place(self, folder: Path) -> AsyncIterator[str]:
        del folder
        async with limited_mariadb() as url:
            yield url


@dataclass(frozen=True, slots=True)
class ReferenceModel:
    """The model itself, held to the same obligations as those that are measured by it."""

    name: str = "reference"
    is_shared: bool = False

    async def place(self, folder: Path) -> AsyncIterator[str]:
        yield str(folder)

    async def open(self, place: str, clock: ReadClock) -> Store:
        del place
        return Reference(clock=clock)


MODEL: Final = ReferenceModel()
LIMITED: Final[tuple[Adapter, ...]] = (LimitedPostgres(), LimitedMariadb())
#: With ROTA_TEST_LIMITED set, all tests use the database roles of `rota db grants`.
STORES: Final[tuple[Adapter, ...]] = (
    LIMITED if os.environ.get("ROTA_TEST_LIMITED") else (SqliteMemory(), SqliteFile(), Postgres(), Mariadb())
)
SHARED: Final[tuple[Adapter, ...]] = tuple(adapter for adapter in STORES if adapter.is_shared)
BY_NAME: Final = {adapter.name: adapter for adapter in (*STORES, *LIMITED)}


@asynccontextmanager
async def opened(adapter: Adapter, folder: Path, clock: ReadClock) -> AsyncIterator[Store]:
    """Open a store on an empty database, and close it."""
    async for place in adapter.place(folder):
        store = await adapter.open(place, clock)
        try:
            yield store
        finally:
            await store.close()
