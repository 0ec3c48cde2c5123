"""Check: SQLite's own verification of the database file, and of the limits."""

from __future__ import annotations

from rota.stores.sqlite.driver import DatabaseFailed, SqliteConnection
from rota.stores.sqlite.limits import findings
from rota.stores.sqlite.statements import statement


def check(connection: SqliteConnection) -> list[str]:
    """Return SQLite's findings about damage, or limits that are exceeded; empty if the file is sound."""
    try:
        damage = [finding for (finding,) in connection.rows(statement("integrity_check")) if finding != "ok"]
        return damage or findings(connection)
    except DatabaseFailed as error:
        return [str(error)]
