"""Checks of the store itself: what `rota db check` finds, and the condition that health pages show.

The condition is the schema, the sizes, the free disk space, and whether retention keeps up.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from rota.ports.store import Retention, StoreCondition, TableSize
from rota.stores.base.retention import oldest_prunable
from rota.stores.migrations import differences
from rota.stores.sqlite.driver import DatabaseFailed, SqliteConnection
from rota.stores.sqlite.limits import findings
from rota.stores.sqlite.migrations import all_migrations, applied
from rota.stores.sqlite.session import shared
from rota.stores.sqlite.statements import statement

_oldest_prunable: Final = shared(oldest_prunable)


def check(connection: SqliteConnection) -> list[str]:
    """Return SQLite's findings about damage, or limits that are exceeded; empty if the file is sound."""
    try:
        damage = [finding for (finding,) in connection.rows(statement("integrity_check")) if finding != "ok"]
        return damage or findings(connection)
    except DatabaseFailed as error:
        return [str(error)]


def condition(connection: SqliteConnection, retention: Retention, now: int) -> StoreCondition:
    missing, unknown = differences(all_migrations(), applied(connection))
    return StoreCondition(missing, unknown, _oldest_prunable(connection, retention, now), _free_bytes(connection))


def sizes(connection: SqliteConnection) -> list[TableSize]:
    """Return the size of the database and of the files beside it; SQLite does not keep those of its tables."""
    ((pages,),), ((size,),), ((free,),) = (
        connection.rows(f"PRAGMA {name}") for name in ("page_count", "page_size", "freelist_count")
    )
    parts = [TableSize("database", pages * size), TableSize("free pages in it", free * size)]
    path = _path(connection)
    wal = Path(f"{path}-wal")
    if path and wal.exists():
        parts.append(TableSize("write-ahead log", wal.stat().st_size))
    return parts


def _free_bytes(connection: SqliteConnection) -> int | None:
    """Read the free space beside the file; None for a database in memory."""
    path = _path(connection)
    return shutil.disk_usage(Path(path).parent).free if path else None


def _path(connection: SqliteConnection) -> str:
    """Return the path of the database; empty for one in memory."""
    return next((str(file) for _, name, file in connection.rows("PRAGMA database_list") if name == "main"), "")
