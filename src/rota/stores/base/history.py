"""History: buckets of counts, to which every process adds, and the payload schemas that workers register."""

from __future__ import annotations

from collections.abc import Mapping

from rota.core.history import Bucket, BucketLength, HistoryFlush, HistoryQuery, add_to_bucket, bucket_of, by_bucket
from rota.core.payload_schema import PayloadSchema
from rota.core.time import from_micros, span_to_micros, to_micros
from rota.stores.base.session import StoreSession


async def add_history(session: StoreSession, flush: HistoryFlush, now: int) -> bool:
    """Add counts to their buckets, unless this flush was added before. One process adds at a time."""
    await session.lock("lock_history", now=now)
    last = await session.select("history_writer", writer=flush.writer)
    if last and last[0][0] >= flush.number:
        return False
    await session.change("save_history_writer", writer=flush.writer, number=flush.number, now=now)
    for (step, at), added in sorted(by_bucket(flush.counted, now).items()):
        rows = await session.select("history_bucket", step=step.value, at=at)
        stored = {bucket.lane: bucket.tally for bucket in (bucket_of(*row) for row in rows)}
        changed = [
            {"queue": lane.queue, "type": lane.type, "tally": tally.to_text()}
            for lane, tally in add_to_bucket(stored, added).items()
        ]
        await session.change_rows("save_history_bucket", changed, step=step.value, at=at)
    return True


async def history(session: StoreSession, query: HistoryQuery, limit: int) -> list[Bucket]:
    """Return buckets, oldest first."""
    name = "history_by_lane" if query.by_lane else "history_totals"
    since, until = to_micros(query.since), to_micros(query.until)
    rows = await session.select(name, step=query.step.value, since=since, until=until, limit=limit)
    return [bucket_of(*row) for row in rows]


async def prune_history(session: StoreSession, limit: int, now: int) -> int:
    """Delete old buckets, writers that have stopped, and payload schemas as old as the oldest bucket."""
    count = 0
    for step in BucketLength:
        before = now - span_to_micros(step.kept)
        count += await session.change("delete_old_history", step=step.value, before=before, limit=limit)
    await session.change("delete_old_history_writers", before=now - span_to_micros(BucketLength.MINUTE.kept))
    await session.change("delete_old_payload_schemas", before=now - span_to_micros(BucketLength.HOUR.kept))
    return count


async def register_schemas(session: StoreSession, schemas: Mapping[str, str], now: int) -> None:
    """Write the payload schemas of task types, sorted, so that two writers cannot deadlock."""
    rows = [{"type": type_, "body": body} for type_, body in sorted(schemas.items())]
    await session.change_rows("save_payload_schema", rows, now=now)


async def payload_schema(session: StoreSession, type_: str) -> PayloadSchema | None:
    rows = await session.select("payload_schema", type=type_)
    return PayloadSchema(rows[0][0], from_micros(rows[0][1])) if rows else None
