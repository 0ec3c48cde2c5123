"""Bringing a database file to the form this release expects.

Numbered files, forward only. Each runs once, in a transaction of its own, whoever comes first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress

from rota.stores.migrations import Migration, migrations_in, require_known
from rota.stores.sqlite.driver import Broken, Busy, Connection
from rota.stores.sqlite.operations import begin

_REGISTER = """
CREATE TABLE IF NOT EXISTS migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT
"""


def all_migrations() -> list[Migration]:
    """Give the migrations that this release brings, in order."""
    return migrations_in(__package__)


def applied(connection: Connection) -> dict[int, str]:
    """Give the migrations a database has seen, by number; none for an empty one."""
    known = connection.rows("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migration'")
    return dict(connection.rows("SELECT number, name FROM migration")) if known else {}


def migrate(connection: Connection, now_micros: int) -> list[str]:
    """Apply what is missing and give the names of what was applied."""
    seen = applied(connection)
    require_known(all_migrations(), seen)
    if {migration.number for migration in all_migrations()} <= seen.keys():
        return []
    done = []
    begin(connection)
    try:
        connection.run(_REGISTER)
        seen = applied(connection)
        require_known(all_migrations(), seen)
        for migration in all_migrations():
            if migration.number not in seen:
                for part in _statements(migration.text):
                    connection.run(part)
                row = (migration.number, migration.name, migration.digest, now_micros)
                connection.run("INSERT INTO migration (number, name, digest, applied_at) VALUES (?, ?, ?, ?)", row)
                done.append(migration.name)
        connection.run("COMMIT")
    except BaseException:
        # SQLite may have rolled back by itself; what went wrong must not be hidden by that.
        with suppress(Broken, Busy):
            connection.run("ROLLBACK")
        raise
    return done


def _statements(text: str) -> Iterator[str]:
    """Cut a script at the ends of its statements."""
    collected = ""
    for line in text.splitlines(keepends=True):
        collected += line
        if sqlite3.complete_statement(collected):
            yield collected
            collected = ""
