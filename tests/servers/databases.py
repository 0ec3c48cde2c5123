"""Databases on the shared MariaDB: an empty one for each test. Making the tables costs half a second, emptying little,
so a used database is emptied and used again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import count
from typing import Final

import asyncmy

from servers.mariadb import shared_server

_numbers: Final = count(1)
_free: Final[list[str]] = []
_SCHEMA: Final = files("rota.stores.mysql").joinpath("schema.sql").read_text(encoding="utf-8")
_TABLES: Final = [name for name in re.findall(r"CREATE TABLE (\S+)", _SCHEMA) if name != "rota_migration"]


@asynccontextmanager
async def fresh_database() -> AsyncIterator[str]:
    """Make a database without tables, and return its URL."""
    server = shared_server()
    name = f"fresh_{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    try:
        yield server.url(name)
    finally:
        server.execute(f"DROP DATABASE {name}")


@asynccontextmanager
async def empty_database() -> AsyncIterator[str]:
    """Make a database without rows, whose tables may already exist, and return its URL."""
    server = shared_server()
    if _free:
        name = _free.pop()
    else:
        name = f"rota_{next(_numbers)}"
        server.execute(f"CREATE DATABASE {name}")
    yield server.url(name)
    await empty(server.port, name)
    _free.append(name)


async def empty(port: int, name: str) -> None:
    """Delete all rows of a database."""
    connection = await asyncmy.connect(host="127.0.0.1", port=port, user="root", database=name, autocommit=False)
    try:
        cursor = connection.cursor()
        await cursor.execute("SHOW TABLES")
        there = {table for (table,) in await cursor.fetchall()}
        for table in _TABLES:
            if table.strip("`") in there:
                await cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - a table of ours
        await connection.commit()
    finally:
        await connection.ensure_closed()
