"""The condition of the store itself: schema, sizes, free disk space, and whether retention keeps up."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from rota.core.time import from_micros
from rota.ports.store import Retention, StoreCondition, TableSize
from rota.stores.migrations import differences
from rota.stores.retention import OLDEST_LOOKED_AT, ends_before
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.migrations import all_migrations, applied
from rota.stores.sqlite.statements import statement


def condition(connection: SqliteConnection, retention: Retention, now: int) -> StoreCondition:
    """Return the condition of the store."""
    missing, unknown = differences(all_migrations(), applied(connection))
    return StoreCondition(missing, unknown, _oldest_prunable(connection, retention, now), _free_bytes(connection))


def sizes(connection: SqliteConnection) -> list[TableSize]:
    """Return the size of the database and of the files beside it; SQLite does not keep those of its tables."""
    ((pages,),), ((size,),), ((free,),) = (
        connection.rows(f"PRAGMA {name}") for name in ("page_count", "page_size", "freelist_count")
    )
    found = [TableSize("database", pages * size), TableSize("free pages in it", free * size)]
    path = _path(connection)
    wal = Path(f"{path}-wal")
    if path and wal.exists():
        found.append(TableSize("write-ahead log", wal.stat().st_size))
    return found


def _oldest_prunable(connection: SqliteConnection, retention: Retention, now: int) -> datetime | None:
    ends = []
    for state, before in ends_before(retention, now):
        parameters = {"state": state.value, "before": before, "now": now, "limit": OLDEST_LOOKED_AT}
        ((end,),) = connection.rows(statement("oldest_prunable"), parameters)
        ends += [] if end is None else [end]
    return from_micros(min(ends)) if ends else None


def _free_bytes(connection: SqliteConnection) -> int | None:
    """Read the free space beside the file; None for a database in memory."""
    path = _path(connection)
    return shutil.disk_usage(Path(path).parent).free if path else None


def _path(connection: SqliteConnection) -> str:
    """Return the path of the database; empty for one in memory."""
    return next((str(file) for _, name, file in connection.rows("PRAGMA database_list") if name == "main"), "")
