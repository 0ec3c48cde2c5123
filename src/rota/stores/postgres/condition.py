"""The condition of the store itself: schema, sizes, and whether retention keeps up. Servers do not show their disk."""

from __future__ import annotations

from rota.core.time import from_micros
from rota.ports.store import Retention, StoreCondition, TableSize
from rota.stores.migrations import differences
from rota.stores.postgres.migrations import all_migrations, applied
from rota.stores.postgres.session import Session
from rota.stores.retention import OLDEST_LOOKED_AT, ends_before


async def condition(session: Session, retention: Retention, now: int) -> StoreCondition:
    """Return the condition of the store."""
    missing, unknown = differences(all_migrations(), await applied(session))
    ends = []
    for state, before in ends_before(retention, now):
        ((end,),) = await session.rows("oldest_prunable", now, state.value, before, OLDEST_LOOKED_AT)
        ends += [] if end is None else [end]
    return StoreCondition(missing, unknown, from_micros(min(ends)) if ends else None)


async def sizes(session: Session) -> list[TableSize]:
    """Return the sizes of the tables with their indexes; a partitioned table has those of its partitions."""
    return [TableSize(name, size, None if rows < 0 else rows) for name, rows, size in await session.rows("table_sizes")]
