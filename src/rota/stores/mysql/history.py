"""History: buckets of counts, to which every process adds."""

from __future__ import annotations

from rota.core.history import Bucket, BucketLength, HistoryFlush, HistoryQuery, add_to_bucket, bucket_of, by_bucket
from rota.core.time import span_to_micros, to_micros
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.statements import statement


async def add_history(connection: MysqlConnection, flush: HistoryFlush, now: int) -> bool:
    """Add counts to their buckets, unless this flush was added before. One process adds at a time."""
    await connection.run(statement("lock_history"), {"now": now})
    last = await connection.rows(statement("history_writer"), {"writer": flush.writer})
    if last and last[0][0] >= flush.number:
        return False
    writer = {"writer": flush.writer, "number": flush.number, "now": now}
    await connection.run(statement("save_history_writer"), writer)
    for (step, at), added in sorted(by_bucket(flush.counted, now).items()):
        rows = await connection.rows(statement("history_bucket"), {"step": step.value, "at": at})
        stored = {bucket.lane: bucket.tally for bucket in (bucket_of(*row) for row in rows)}
        changed = add_to_bucket(stored, added)
        rows_changed = [(step.value, at, *lane, tally.to_text()) for lane, tally in changed.items()]
        await connection.many(statement("save_history_bucket"), rows_changed)
    return True


async def history(connection: MysqlConnection, query: HistoryQuery, limit: int) -> list[Bucket]:
    """Return buckets, oldest first."""
    name = "history_by_lane" if query.by_lane else "history_totals"
    span = {"since": to_micros(query.since), "until": to_micros(query.until)}
    rows = await connection.rows(statement(name), {"step": query.step.value, "limit": limit, **span})
    return [bucket_of(*row) for row in rows]


async def prune_history(connection: MysqlConnection, limit: int, now: int) -> int:
    """Delete old buckets, and writers that have stopped."""
    count = 0
    for step in BucketLength:
        parameters = {"step": step.value, "before": now - span_to_micros(step.kept), "limit": limit}
        count += await connection.run(statement("delete_old_history"), parameters)
    before = now - span_to_micros(BucketLength.MINUTE.kept)
    await connection.run(statement("delete_old_history_writers"), {"before": before})
    return count
