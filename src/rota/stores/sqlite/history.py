"""History: buckets of counts, to which every process adds."""

from __future__ import annotations

from rota.core.history import Bucket, BucketLength, HistoryFlush, HistoryQuery, add_to_bucket, bucket_of, by_bucket
from rota.core.time import span_to_micros, to_micros
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def add_history(connection: SqliteConnection, flush: HistoryFlush, now: int) -> bool:
    """Add counts to their buckets, unless this flush was added before."""
    last = connection.rows(statement("history_writer"), (flush.writer,))
    if last and last[0][0] >= flush.number:
        return False
    connection.run(statement("save_history_writer"), (flush.writer, flush.number, now))
    for (step, at), added in sorted(by_bucket(flush.counted, now).items()):
        rows = connection.rows(statement("history_bucket"), (step.value, at))
        stored = {bucket.lane: bucket.tally for bucket in (bucket_of(*row) for row in rows)}
        changed = add_to_bucket(stored, added)
        rows_changed = [(step.value, at, *lane, tally.to_text()) for lane, tally in changed.items()]
        connection.many(statement("save_history_bucket"), rows_changed)
    return True


def history(connection: SqliteConnection, query: HistoryQuery, limit: int) -> list[Bucket]:
    """Return buckets, oldest first."""
    name = "history_by_lane" if query.by_lane else "history_totals"
    parameters = (query.step.value, to_micros(query.since), to_micros(query.until), limit)
    return [bucket_of(*row) for row in connection.rows(statement(name), parameters)]


def prune_history(connection: SqliteConnection, limit: int, now: int) -> int:
    """Delete old buckets, and writers that have stopped."""
    count = 0
    for step in BucketLength:
        parameters = {"step": step.value, "before": now - span_to_micros(step.kept), "limit": limit}
        count += connection.run(statement("delete_old_history"), parameters)
    connection.run(statement("delete_old_history_writers"), (now - span_to_micros(BucketLength.MINUTE.kept),))
    return count
