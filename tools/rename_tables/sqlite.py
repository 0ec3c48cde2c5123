"""Rename the tables of a SQLite store that was made before Rota's tables had the prefix `rota_`.

    python tools/rename_tables/sqlite.py FILE

Stop all processes that use the file, and copy it, first. The script renames the tables, makes the indexes anew under
their new names and marks migration 0001 as applied, in one transaction: if anything fails, the file is unchanged. Of a
million jobs the indexes take some seconds. Other tables in the file are left alone.

It refuses a file that is no such store, or that has not all migrations of the last release without the prefix.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rota.stores.sqlite.migrations import all_migrations, statements_in

PREFIX: Final = "rota_"
TABLES: Final = (
    "migration",
    "job",
    "tag",
    "attempt",
    "dependency",
    "idempotency",
    "claim",
    "step",
    "schedule",
    "occurrence",
    "queue",
    "member",
    "leader",
    "ledger",
    "token",
    "pruned",
)
#: The migrations of the last release without the prefix.
MIGRATIONS: Final = {1: "0001_first", 2: "0002_count_later", 3: "0003_lists", 4: "0004_schedule_app"}
_CREATE_TABLE: Final = re.compile(rf"\s*(?:--.*\n\s*)*CREATE TABLE {PREFIX}(\w+)")
_CREATE_INDEX: Final = re.compile(rf"\s*(?:--.*\n\s*)*CREATE (?:UNIQUE )?INDEX {PREFIX}(\w+)")


class Refused(Exception):
    """The file was left as it is."""


def rename_tables(path: Path) -> None:
    """Rename the tables of a store, or raise `Refused`."""
    if not path.is_file():
        raise Refused(f"{path}: there is no such file")
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        connection.execute("BEGIN IMMEDIATE")
        _require_last_migration(connection, path)
        _rename(connection)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise Refused(f"{path}: {error}; the file is unchanged") from error
    finally:
        connection.close()


def _require_last_migration(connection: sqlite3.Connection, path: Path) -> None:
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if f"{PREFIX}migration" in found:
        raise Refused(f"{path}: its tables have the prefix {PREFIX} already")
    if missing := [name for name in TABLES if name not in found]:
        raise Refused(f"{path}: it is no store of Rota; it has no table {', '.join(missing)}")
    try:
        applied = dict(connection.execute(f"SELECT number, name FROM {TABLES[0]}").fetchall())  # noqa: S608 - a constant
    except sqlite3.Error:
        raise Refused(f"{path}: it is no store of Rota; its table {TABLES[0]} is another program's") from None
    if applied != MIGRATIONS:
        raise Refused(
            f"{path}: it has the migrations {', '.join(applied.values()) or 'none'}, and needs"
            f" {', '.join(MIGRATIONS.values())}; run `rota db migrate` of the last release without the prefix first"
        )


def _rename(connection: sqlite3.Connection) -> None:
    for name in TABLES:
        connection.execute(f"ALTER TABLE {name} RENAME TO {PREFIX}{name}")
    for column in ("facts", "orders"):
        connection.execute(f"ALTER TABLE {PREFIX}member ADD COLUMN {column} TEXT")
    connection.execute(f"ALTER TABLE {PREFIX}dependency ADD COLUMN position INTEGER NOT NULL DEFAULT 0")
    for column in ("kind TEXT NOT NULL DEFAULT 'effect'", "until INTEGER", "subject TEXT"):
        connection.execute(f"ALTER TABLE {PREFIX}step ADD COLUMN {column}")
    first = all_migrations()[0]
    _remake_ledger_and_tokens(connection, statements_in(first.text))
    for statement in statements_in(first.text):
        # Tables that the last release without the prefix did not have.
        if (table := _CREATE_TABLE.match(statement)) and table[1] not in TABLES:
            connection.execute(statement)
        # SQLite cannot rename an index.
        if index := _CREATE_INDEX.match(statement):
            connection.execute(f"DROP INDEX IF EXISTS {index[1]}")
            connection.execute(statement)
    _move_configuration(connection)
    connection.execute(f"DELETE FROM {PREFIX}migration")  # noqa: S608 - a constant
    connection.execute(
        f"INSERT INTO {PREFIX}migration (number, name, digest, applied_at) VALUES (?, ?, ?, ?)",  # noqa: S608 - as above
        (first.number, first.name, first.digest, time.time_ns() // 1000),
    )


def _move_configuration(connection: sqlite3.Connection) -> None:
    """Move the shared configuration from a row of the queue table to its own table."""
    connection.execute(
        "INSERT INTO rota_configuration (key, value, version) SELECT each.key, each.value, 1"
        " FROM rota_queue, json_each(coalesce(rota_queue.pause_reason, '{}')) AS each WHERE name = '/configuration'"
    )
    connection.execute("DELETE FROM rota_queue WHERE name = '/configuration'")


def _remake_ledger_and_tokens(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    """Add the surface to the ledger's entries, and make the table of tokens anew, which no old release used."""
    connection.execute(f"ALTER TABLE {PREFIX}ledger RENAME TO old_ledger")
    connection.execute(f"DROP TABLE {PREFIX}token")
    for statement in statements:
        if f"CREATE TABLE {PREFIX}ledger" in statement or f"CREATE TABLE {PREFIX}token" in statement:
            connection.execute(statement)
    connection.execute(f"INSERT INTO {PREFIX}ledger SELECT *, '' FROM old_ledger")  # noqa: S608 - a constant
    connection.execute("DROP TABLE old_ledger")


def main(arguments: list[str]) -> int:
    """Rename the tables of the file that is named, and return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python tools/rename_tables/sqlite.py FILE\n")
        return 2
    path = Path(arguments[0])
    try:
        rename_tables(path)
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # The file by which processes notified each other; it has another name now.
    path.with_name(f"{path.name}-bell").unlink(missing_ok=True)
    sys.stdout.write(f"{path}: {len(TABLES)} tables were renamed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
