"""History: buckets of counts, to which every process adds."""

from __future__ import annotations

from rota.core.history import Bucket, BucketLength, HistoryFlush, HistoryQuery, add_to_bucket, bucket_of, by_bucket
from rota.core.time import span_to_micros, to_micros
from rota.stores.postgres.session import Session


async def add_history(session: Session, flush: HistoryFlush, now: int) -> bool:
    """Add counts to their buckets, unless this flush was added before. One process adds at a time."""
    await session.run("lock_history", now)
    last = await session.values("history_writer", flush.writer)
    if last and last[0] >= flush.number:
        return False
    await session.run("save_history_writer", flush.writer, flush.number, now)
    for (step, at), added in sorted(by_bucket(flush.counted, now).items()):
        rows = await session.rows("history_bucket", step.value, at)
        stored = {bucket.lane: bucket.tally for bucket in (bucket_of(*row) for row in rows)}
        changed = add_to_bucket(stored, added)
        queues, types = [lane.queue for lane in changed], [lane.type for lane in changed]
        tallies = [tally.to_text() for tally in changed.values()]
        await session.run("save_history_bucket", step.value, at, queues, types, tallies)
    return True


async def history(session: Session, query: HistoryQuery, limit: int) -> list[Bucket]:
    """Return buckets, oldest first."""
    name = "history_by_lane" if query.by_lane else "history_totals"
    span = (to_micros(query.since), to_micros(query.until))
    return [bucket_of(*row) for row in await session.rows(name, query.step.value, *span, limit)]


async def prune_history(session: Session, limit: int, now: int) -> int:
    """Delete old buckets, and writers that have stopped."""
    count = 0
    for step in BucketLength:
        count += await session.run("delete_old_history", step.value, now - span_to_micros(step.kept), limit)
    await session.run("delete_old_history_writers", now - span_to_micros(BucketLength.MINUTE.kept))
    return count
