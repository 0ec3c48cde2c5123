"""The servers of one run: private, durable, started when first needed, shared by every system that needs them."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Final, TypeVar

import asyncpg

from servers import mariadb, postgres, valkey
from servers.mariadb import MariadbServer
from servers.postgres import PostgresServer
from servers.valkey import ValkeyServer

T = TypeVar("T")
POSTGRES: Final = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
MARIADB: Final = {"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "512M"}
#: As Redis comes: a snapshot now and then, which the peers' users have too.
REDIS: Final = ("--save", "3600 1 300 100 60 10000")
#: How PostgreSQL's log begins a statement, or one that was prepared.
_SAID: Final = re.compile(r"LOG:  (?:statement|execute [^:\n]*): ")


class ServerMissing(Exception):
    """A server that this machine does not have."""


@dataclass
class Servers:
    """What runs for this run, and what ends with it."""

    _stack: ExitStack = field(default_factory=ExitStack)
    _numbers: count[int] = field(default_factory=lambda: count(1))
    #: The number of our own statements on MariaDB for reading its counters.
    _own: int = 0

    @cached_property
    def postgres(self) -> PostgresServer:
        return self._kept(PostgresServer(found(postgres.find_binaries, postgres.MISSING), POSTGRES))

    @cached_property
    def mariadb(self) -> MariadbServer:
        return self._kept(MariadbServer(found(mariadb.find_binary, mariadb.MISSING), MARIADB))

    @cached_property
    def redis(self) -> ValkeyServer:
        return self._kept(ValkeyServer(found(valkey.find_binary, valkey.MISSING), REDIS))

    def new_postgres_database(self, *, is_counted: bool = False) -> str:
        """Make a database; the statements of one that is counted stand in the server's log, see `asked`."""
        name = f"bench_{next(self._numbers)}"
        said = ("log_statement = 'all'", "log_min_messages = 'log'") if is_counted else ()
        asyncio.run(
            self._tell_postgres(
                f"CREATE DATABASE {name}", *(f"ALTER DATABASE {name} SET {setting}" for setting in said)
            )
        )
        return self.postgres.dsn(name)

    def drop_postgres_database(self, dsn: str) -> None:
        asyncio.run(self._tell_postgres(f"DROP DATABASE {dsn.rpartition('/')[2]} WITH (FORCE)", "CHECKPOINT"))

    def new_mariadb_database(self) -> str:
        name = f"bench_{next(self._numbers)}"
        self.mariadb.execute(f"CREATE DATABASE {name}")
        return self.mariadb.url(name)

    def drop_mariadb_database(self, url: str) -> None:
        self.mariadb.execute(f"DROP DATABASE {url.rpartition('/')[2]}")

    def empty_redis(self) -> str:
        self.redis.ask("FLUSHALL")
        return f"{self.redis.url}/0"

    def asked(self, store: str) -> int | None:
        """Return how many statements a server has received so far, with BEGIN and COMMIT; None if it has none."""
        match store:
            case "postgres":
                return len(_SAID.findall((self.postgres.folder / "log").read_text(errors="replace")))
            case "mysql":
                return self._questions()
        return None

    def _questions(self) -> int:
        """Return what MariaDB counts, without our own questions."""
        counts = [int(self.mariadb.execute("SHOW GLOBAL STATUS LIKE 'Questions'").split()[-1]) for _ in range(2)]
        cost = counts[1] - counts[0]
        self._own += 2 * cost
        return counts[1] - self._own

    def versions(self) -> list[str]:
        """Return what the servers are that were started."""
        there = [f"SQLite {sqlite3.sqlite_version}"]
        if "postgres" in self.__dict__:
            there.append(f"PostgreSQL {asyncio.run(self._tell_postgres('SHOW server_version'))}")
        if "mariadb" in self.__dict__:
            there.append(f"MariaDB {self.mariadb.execute('SELECT VERSION()').strip()}")
        if "redis" in self.__dict__:
            there.append(f"Valkey {self.redis.ask('INFO', 'server')['valkey_version']}")
        return there

    def close(self) -> None:
        self._stack.close()

    def _kept(self, server: T) -> T:
        assert isinstance(server, PostgresServer | MariadbServer | ValkeyServer)
        self._stack.callback(server.remove)
        return server

    async def _tell_postgres(self, *statements: str) -> object:
        """Run statements, and give the first value of the last."""
        connection = await asyncpg.connect(self.postgres.dsn())
        try:
            answers = [await connection.fetchval(statement, timeout=600) for statement in statements]
        finally:
            await connection.close()
        return answers[-1]


def found(find: Callable[[], T | None], missing: str) -> T:
    there = find()
    if there is None:
        raise ServerMissing(missing)
    return there
