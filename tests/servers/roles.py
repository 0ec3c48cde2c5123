"""Databases that tests reach with the roles of `rota db grants`: migrated by one role, used by another."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

import psycopg

from rota.stores import mysql, postgres
from rota.stores.grants import Roles
from rota.stores.mysql.grants import grants as mysql_grants
from rota.stores.postgres.grants import grants as postgres_grants
from servers import databases, mariadb
from servers.postgres import PostgresServer, clear, shared_server

ROLES: Final = Roles(migrate="rota_migrate", run="rota_run", read="rota_read")
_numbers: Final = count(1)
_free_postgres: Final[list[str]] = []
_free_mariadb: Final[list[str]] = []


def postgres_as(server: PostgresServer, role: str, database: str) -> str:
    """Return how a role reaches a database."""
    return f"postgresql://{role}@127.0.0.1:{server.port}/{database}"


async def make_limited_postgres(server: PostgresServer, name: str, *, schema: str | None = None) -> str:
    """Make a database as the documentation says, and return the URL of the role that runs Rota."""
    suffix = "" if schema is None else f"?schema={schema}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type, unused-ignore] # no literal
    scripts = postgres_grants(server.dsn(name) + suffix, ROLES)
    execute(server.dsn(name), scripts.roles)
    migrating = postgres_as(server, ROLES.migrate, name)
    await (await postgres.PostgresStore.open(migrating + suffix)).close()
    execute(migrating, scripts.tables)
    return postgres_as(server, ROLES.run, name) + suffix


def execute(dsn: str, script: str) -> None:
    """Run a script, as psql would."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(script.encode())


@asynccontextmanager
async def limited_postgres() -> AsyncIterator[str]:
    """Make an empty database of the shared server for one test, for the role that runs Rota."""
    server = shared_server()
    dsn = _free_postgres.pop() if _free_postgres else await make_limited_postgres(server, f"limited_{next(_numbers)}")
    yield dsn
    clear(server.dsn(dsn.rpartition("/")[2]))
    _free_postgres.append(dsn)


async def make_limited_mariadb(server: mariadb.MariadbServer, name: str) -> str:
    """Make a database as the documentation says, and return the URL of the user that runs Rota."""
    server.execute(f"CREATE DATABASE {name}")
    scripts = mysql_grants(server.url(name), ROLES)
    run_mariadb(server, scripts.roles)
    await (await mysql.MysqlStore.open(mariadb_as(server, ROLES.migrate, name))).close()
    run_mariadb(server, scripts.tables)
    return mariadb_as(server, ROLES.run, name)


def mariadb_as(server: mariadb.MariadbServer, user: str, database: str) -> str:
    """Return how a user reaches a database."""
    return f"mysql://{user}@127.0.0.1:{server.port}/{database}"


def run_mariadb(server: mariadb.MariadbServer, script: str) -> None:
    """Run a script as an administrator; tests that run at the same time may make the same users."""
    try:
        server.execute(*(line.removesuffix(";") for line in script.splitlines() if not line.startswith("--")))
    except subprocess.CalledProcessError as error:
        raise RuntimeError(error.stderr) from error


@asynccontextmanager
async def limited_mariadb() -> AsyncIterator[str]:
    """Make an empty database of the shared server for one test, for the user that runs Rota."""
    server = mariadb.shared_server()
    url = _free_mariadb.pop() if _free_mariadb else await make_limited_mariadb(server, f"limited_{next(_numbers)}")
    yield url
    await databases.empty(server.port, url.rpartition("/")[2])
    _free_mariadb.append(url)
