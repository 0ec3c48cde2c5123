"""Migrations: bring a database file to the schema of this release.

Numbered files, forward only. Missing ones are applied in one transaction, by whichever process opens the file first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress

from rota.stores.migrations import Migration, migrations_in, require_known
from rota.stores.sqlite.driver import DatabaseBusy, DatabaseFailed, SqliteConnection, begin_immediate
from rota.stores.sqlite.statements import statement

_CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS rota_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT
"""
_HAS_TABLE = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
#: The first migration of stores whose tables had no prefix, in a table of that name and form.
_FIRST_WITHOUT_PREFIX = "0001_first"


def all_migrations() -> list[Migration]:
    """Return the migrations of this release, in order."""
    return migrations_in(__package__)


def applied(connection: SqliteConnection) -> dict[int, str]:
    """Return the names of the applied migrations by number; none for a database without a store."""
    if not connection.rows(_HAS_TABLE, ("rota_migration",)):
        return {}
    return dict(connection.rows(statement("applied_migrations")))


def migrate(connection: SqliteConnection, now_micros: int) -> list[str]:
    """Apply the missing migrations and return their names."""
    seen = applied(connection)
    require_known(all_migrations(), seen)
    if {migration.number for migration in all_migrations()} <= seen.keys():
        return []
    if not seen:
        _refuse_tables_without_prefix(connection)
    begin_immediate(connection)
    try:
        done = _apply_missing(connection, now_micros)
        connection.run("COMMIT")
    except BaseException:
        # SQLite may have rolled back by itself; the first error must not be hidden by the second.
        with suppress(DatabaseFailed, DatabaseBusy):
            connection.run("ROLLBACK")
        raise
    return done


def _apply_missing(connection: SqliteConnection, now_micros: int) -> list[str]:
    connection.run(_CREATE_TABLE)
    seen = applied(connection)
    require_known(all_migrations(), seen)
    missing = [migration for migration in all_migrations() if migration.number not in seen]
    for migration in missing:
        for part in statements_in(migration.text):
            connection.run(part)
        row = (migration.number, migration.name, migration.digest, now_micros)
        connection.run("INSERT INTO rota_migration (number, name, digest, applied_at) VALUES (?, ?, ?, ?)", row)
    return [migration.name for migration in missing]


def _refuse_tables_without_prefix(connection: SqliteConnection) -> None:
    """Refuse a store made before tables had the prefix `rota_`: its jobs would be left behind, unseen."""
    table = "migration"
    columns = {name for (name,) in connection.rows("SELECT name FROM pragma_table_info(?)", (table,))}
    if columns != {"number", "name", "digest", "applied_at"}:
        return  # none, or an application's own
    if connection.rows(f"SELECT 1 FROM {table} WHERE name = ?", (_FIRST_WITHOUT_PREFIX,)):  # noqa: S608 - a constant
        raise DatabaseFailed(
            "its tables were made before Rota's tables had the prefix rota_; stop all processes that use it, make a"
            " copy, and run `python tools/rename_tables/sqlite.py FILE` from Rota's repository",
            is_final=True,
        )


def statements_in(script: str) -> Iterator[str]:
    """Split a script into its statements."""
    collected = ""
    for line in script.splitlines(keepends=True):
        collected += line
        if sqlite3.complete_statement(collected):
            yield collected
            collected = ""
