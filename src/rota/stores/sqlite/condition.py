"""The condition of the store itself: schema, free disk space, and whether retention keeps up."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from rota.core.time import from_micros
from rota.ports.store import Retention, StoreCondition
from rota.stores.migrations import differences
from rota.stores.retention import OLDEST_LOOKED_AT, ends_before
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.migrations import all_migrations, applied
from rota.stores.sqlite.statements import statement


def condition(connection: SqliteConnection, retention: Retention, now: int) -> StoreCondition:
    """Return the condition of the store."""
    missing, unknown = differences(all_migrations(), applied(connection))
    return StoreCondition(missing, unknown, _oldest_prunable(connection, retention, now), _free_bytes(connection))


def _oldest_prunable(connection: SqliteConnection, retention: Retention, now: int) -> datetime | None:
    ends = []
    for state, before in ends_before(retention, now):
        parameters = {"state": state.value, "before": before, "now": now, "limit": OLDEST_LOOKED_AT}
        ((end,),) = connection.rows(statement("oldest_prunable"), parameters)
        ends += [] if end is None else [end]
    return from_micros(min(ends)) if ends else None


def _free_bytes(connection: SqliteConnection) -> int | None:
    """Read the free space beside the file; None for a database in memory."""
    path = next((file for _, name, file in connection.rows("PRAGMA database_list") if name == "main"), "")
    return shutil.disk_usage(Path(path).parent).free if path else None
