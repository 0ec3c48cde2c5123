"""Fresh stores for measurements: private servers that sync every commit, with any number of empty databases.

They can also copy a stored job many times, far faster than the store could take submissions. The copies are rows as the
store itself would have written them; they differ by their number only.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, Protocol

import asyncpg

from bench.servers import MARIADB, POSTGRES
from rota.core.ids import JobId
from rota.stores.mysql.driver import connect as connect_mysql
from rota.stores.mysql.location import location_of
from servers.mariadb import MariadbServer
from servers.mariadb import require_binary as require_mariadb
from servers.postgres import PostgresServer, require_binaries

NAMES: Final = ("sqlite", "postgres", "mysql")
#: The columns in which the copies of a job differ. Turns and times are in microseconds, so a million of them last one
#: second.
_COUNTED: Final = frozenset({"id", "job_id", "turn", "run_at", "finished_at"})
#: The tables of a job's waits, by job_id.
_WAITS: Final = ("rota_step", "rota_waiter")
_AT_ONCE: Final = 100_000


class FreshStores(Protocol):
    """A private server, or a folder, on which empty databases are made."""

    name: str
    described: str

    async def fresh(self) -> str:
        """Make an empty database and give its URL."""
        ...

    async def copy(self, url: str, model: JobId, number: int) -> None:
        """Insert copies of a job into a database, with the ids that follow its own."""
        ...

    async def rest(self, url: str) -> None:
        """Flush pending writes to the disk (checkpoint, vacuum), as after an idle minute."""
        ...


class SqliteStores:
    name = "sqlite"
    described = f"SQLite {sqlite3.sqlite_version} (WAL, synchronous=FULL)"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    async def fresh(self) -> str:
        return str(self._folder / f"rota-{next(self._numbers)}.db")

    async def copy(self, url: str, model: JobId, number: int) -> None:
        with closing(sqlite3.connect(url, timeout=60, isolation_level=None)) as connection:
            for table in ("rota_job", *_WAITS):
                names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                connection.execute(
                    "WITH RECURSIVE number(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM number WHERE value < ?)"
                    f" INSERT INTO {table} ({', '.join(names)}) SELECT {_counted(names, 'value')} FROM {table}, number"
                    f" WHERE {table}.{_id_of(table)} = ?",
                    (number, model),
                )

    async def rest(self, url: str) -> None:
        with closing(sqlite3.connect(url, timeout=60)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class PostgresStores:
    name = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._numbers = count(1)
        self.described = "PostgreSQL (fsync and synchronous_commit on)"

    async def fresh(self) -> str:
        name = f"rota_{next(self._numbers)}"
        connection = await asyncpg.connect(self._server.dsn())
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()
        return self._server.dsn(name)

    async def copy(self, url: str, model: JobId, number: int) -> None:
        connection = await asyncpg.connect(url)
        for table in ("rota_job", "rota_job_done", *_WAITS):
            found = await connection.fetch(
                "SELECT column_name FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position",
                table,
            )
            names = [str(row[0]) for row in found]
            await connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {_counted(names, 'value')}"
                f" FROM {table}, generate_series(1, $2::bigint) AS number(value) WHERE {_id_of(table)} = $1",
                model,
                number,
                timeout=600,
            )
        await connection.close()

    async def rest(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("VACUUM ANALYZE", timeout=600)
        await connection.execute("CHECKPOINT", timeout=600)
        await connection.close()


class MariadbStores:
    name = "mysql"

    def __init__(self, server: MariadbServer) -> None:
        self._server = server
        self._numbers = count(1)
        self.described = "MariaDB (innodb_flush_log_at_trx_commit=1)"

    async def fresh(self) -> str:
        name = f"rota_{next(self._numbers)}"
        self._server.execute(f"CREATE DATABASE {name}")
        return self._server.url(name)

    async def copy(self, url: str, model: JobId, number: int) -> None:
        connection = await connect_mysql(location_of(url), "bench", autocommit=True)
        for table in ("rota_job", "rota_ready", "rota_scheduled", "rota_finished", *_WAITS):
            found = await connection.rows(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = database()"
                " AND table_name = %(table)s ORDER BY ordinal_position",
                {"table": table},
            )
            names = [str(row[0]) for row in found]
            for start in range(1, number + 1, _AT_ONCE):
                # MariaDB's tables of numbers, which exist as soon as they are named.
                numbers = f"seq_{start}_to_{min(start + _AT_ONCE - 1, number)}"
                # A column has a reserved word as its name.
                quoted = ", ".join(f"`{one}`" for one in names)
                await connection.run(
                    f"INSERT INTO {table} ({quoted}) SELECT {_counted(names, 'seq', '`')} FROM {table}, {numbers}"
                    f" WHERE {_id_of(table)} = %(model)s",
                    {"model": model},
                )
        await connection.close()

    async def rest(self, url: str) -> None:
        connection = await connect_mysql(location_of(url), "bench", autocommit=True)
        # As installed, the server writes 200 pages a second in the background: minutes for a million jobs.
        faster = {"innodb_io_capacity_max": 20_000, "innodb_io_capacity": 20_000, "innodb_max_dirty_pages_pct": 0}
        (usual,) = await connection.rows(f"SELECT {', '.join(f'@@{name}' for name in faster)}")
        for name, value in faster.items():
            await connection.run(f"SET GLOBAL {name} = {value}")
        dirty = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = %(name)s"
        for _ in range(300):
            ((pages,),) = await connection.rows(dirty, {"name": "INNODB_BUFFER_POOL_PAGES_DIRTY"})
            if int(pages) < 100:
                break
            await asyncio.sleep(0.1)
        # The largest capacity last: it cannot be less than the usual one.
        for name, value in reversed(list(zip(faster, usual, strict=True))):
            await connection.run(f"SET GLOBAL {name} = {float(value):.0f}")
        await connection.close()


def _id_of(table: str) -> str:
    return "job_id" if table in _WAITS else "id"


def _counted(names: Sequence[str], number: str, quote: str = "") -> str:
    """Return a job's columns with a number added to those in which its copies differ."""
    return ", ".join(
        f"{quote}{name}{quote} + {number}" if name in _COUNTED else f"{quote}{name}{quote}" for name in names
    )


@contextmanager
def open_fresh_stores(name: str, folder: Path | None = None) -> Iterator[FreshStores]:
    """Open fresh stores of a kind, removed at the end. The folder should be on a real disk, not on a tmpfs."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            yield SqliteStores(Path(fresh))
    elif name == "postgres":
        postgres = PostgresServer(require_binaries(), POSTGRES)
        try:
            yield PostgresStores(postgres)
        finally:
            postgres.remove()
    elif name == "mysql":
        mariadb = MariadbServer(require_mariadb(), MARIADB)
        try:
            yield MariadbStores(mariadb)
        finally:
            mariadb.remove()
    else:
        raise ValueError(f"{name!r} is not a store; choose from {', '.join(NAMES)}")
