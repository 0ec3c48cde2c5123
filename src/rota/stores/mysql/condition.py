"""The condition of the store itself: schema, sizes, and whether retention keeps up. Servers do not show their disk."""

from __future__ import annotations

from rota.core.time import from_micros
from rota.ports.store import Retention, StoreCondition, TableSize
from rota.stores.migrations import differences
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.migrations import all_migrations, applied
from rota.stores.mysql.statements import statement
from rota.stores.retention import OLDEST_LOOKED_AT, ends_before


async def condition(connection: MysqlConnection, retention: Retention, now: int) -> StoreCondition:
    """Return the condition of the store."""
    missing, unknown = differences(all_migrations(), await applied(connection))
    ends = []
    for state, before in ends_before(retention, now):
        parameters = {"state": state.value, "before": before, "now": now, "limit": OLDEST_LOOKED_AT}
        ((end,),) = await connection.rows(statement("oldest_prunable"), parameters)
        ends += [] if end is None else [end]
    return StoreCondition(missing, unknown, from_micros(min(ends)) if ends else None)


async def sizes(connection: MysqlConnection) -> list[TableSize]:
    """Return the sizes of the tables with their indexes, as the server last estimated them."""
    return [
        TableSize(name, int(size), int(rows)) for name, rows, size in await connection.rows(statement("table_sizes"))
    ]
