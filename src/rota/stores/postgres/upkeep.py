"""Upkeep: due jobs, lapsed leases, expired jobs, and deletion after retention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from rota.core.ids import JobId, compose
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.time import span_to_micros
from rota.ports.store import Retention
from rota.stores.handoff import LONGEST_WAIT
from rota.stores.postgres import breakers
from rota.stores.postgres.notify import NO_NOTIFICATION, Notification
from rota.stores.postgres.session import Session
from rota.stores.postgres.workflows import delete_empty, keep_ends
from rota.stores.rows import Row, job_of

#: No worker repeats a claim after this long: its leases have lapsed.
CLAIM_MEMORY: Final = timedelta(hours=1)
_DELETIONS: Final = (
    "delete_attempts",
    "delete_steps",
    "delete_waiters_of_jobs",
    "delete_tags",
    "delete_keys",
    "delete_dependencies",
)


async def promote(
    session: Session, limit: int, start: int, now: int | None, notification: Notification | None
) -> Mapping[str, int]:
    """Make due jobs pending, with a notification if one is given; return how many in which queue."""
    sent = NO_NOTIFICATION if notification is None else (notification.channel, notification.text)
    return dict(Counter(await session.values("promote_jobs", now, limit, start, *sent)))


async def lapsed(session: Session, limit: int, start: int, now: int) -> list[Job]:
    """Return running jobs whose lease has lapsed."""
    return [job_of(row) for row in await session.rows("lapsed_leases", now, limit, start)]


async def expired(session: Session, limit: int, now: int) -> list[Job]:
    """Return waiting jobs that were not started in time."""
    return [job_of(row) for row in await session.rows("expired_jobs", now, limit)]


async def timetable(session: Session, job_start: int, lease_start: int) -> Row:
    """Return the server's time, and when upkeep of each kind is needed next, as `timetable_of` reads it."""
    (row,) = await session.rows("timetable", job_start, lease_start)
    return row


async def is_anything_prunable(session: Session, retention: Retention, now: int | None) -> tuple[int, bool]:
    """Return the time, and whether anything may be past its retention."""
    kept = [retention.completed, retention.cancelled, retention.dead, CLAIM_MEMORY, retention.history]
    spans = [None if span is None else span_to_micros(span) for span in kept]
    ((time, is_any),) = await session.rows("is_anything_prunable", now, *spans)
    return time, is_any


async def prune(session: Session, retention: Retention, limit: int, now: int) -> int:
    """Delete finished jobs past their retention, and old history."""
    count = 0
    for state, kept in kept_for(retention).items():
        if kept is not None and count < limit:
            count += await _prune_state(session, state, now - span_to_micros(kept), limit - count, now)
    await _delete_history(session, retention, limit, now)
    return count


def kept_for(retention: Retention) -> dict[State, timedelta | None]:
    """Return how long jobs are kept, by final state."""
    return {
        State.COMPLETED: retention.completed,
        State.CANCELLED: retention.cancelled,
        State.DEAD: retention.dead,
    }


async def _prune_state(session: Session, state: State, before: int, limit: int, now: int) -> int:
    ids = await session.values("prunable_jobs", now, state.value, before, limit)
    return await _delete(session, state, ids)


async def discard(session: Session, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Delete dead and cancelled jobs by id, and return those that were deleted."""
    rows = await session.rows("discardable_jobs", now, sorted(set(ids)))
    for state in (State.DEAD, State.CANCELLED):
        await _delete(session, state, [job_id for job_id, its_state in rows if its_state == state.value])
    return [job_id for job_id, _ in rows]


async def _delete(session: Session, state: State, ids: Sequence[JobId]) -> int:
    """Delete finished jobs of one state with all that belongs to them, and count them as pruned."""
    if not ids:
        return 0
    ordered = sorted(ids)
    emptied = await keep_ends(session, ordered)
    for deletion in _DELETIONS:
        await session.run(deletion, ordered)
    count = await session.run("delete_jobs", ordered)
    await session.run("add_pruned", state.value, count)
    await delete_empty(session, emptied)
    return count


async def _delete_history(session: Session, retention: Retention, limit: int, now: int) -> None:
    await session.run("delete_old_claims", now - span_to_micros(CLAIM_MEMORY), limit)
    await session.run("delete_old_open_claims", now - span_to_micros(LONGEST_WAIT))
    await session.run("delete_old_keys", now, limit)
    await session.run("delete_old_events", now, limit)
    await session.run("delete_old_arrivals", now)
    await breakers.delete_old(session, now)
    if retention.history is None:
        return
    before = now - span_to_micros(retention.history)
    await session.run("delete_old_occurrences", before, limit)
    await session.run("delete_old_entries", before, limit)
    await session.run("delete_old_members", before)
    await session.run("delete_old_operations", compose(before // 1000, 0), limit)
