"""Check: SQLite's own verification of the database file."""

from __future__ import annotations

from rota.stores.sqlite.driver import DatabaseFailed, SqliteConnection
from rota.stores.sqlite.statements import statement


def check(connection: SqliteConnection) -> list[str]:
    """Return SQLite's findings about damage; empty if the file is sound."""
    try:
        return [finding for (finding,) in connection.rows(statement("integrity_check")) if finding != "ok"]
    except DatabaseFailed as error:
        return [str(error)]
