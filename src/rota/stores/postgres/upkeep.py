"""What time does to jobs: they become due, and after their end they are forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import span_to_micros
from rota.core.lifecycle import State
from rota.ports.store import Retention
from rota.stores.open_claims import LONGEST_STAY
from rota.stores.postgres.hearing import SILENCE, Notice
from rota.stores.postgres.session import Session
from rota.stores.rows import Row

#: Nobody repeats a claim after this long: its leases are gone.
CLAIM_MEMORY: Final = timedelta(hours=1)
_BELONGINGS: Final = ("drop_attempts", "drop_steps", "drop_tags", "drop_keys", "drop_dependencies")


async def promote(
    session: Session, limit: int, start: int, now: int | None, notice: Notice | None
) -> Mapping[str, int]:
    """Make jobs whose time has come pending, with a notice to others if one is given; say how many in which queue."""
    told = SILENCE if notice is None else (notice.channel, notice.text)
    return dict(Counter(await session.values("promote", now, limit, start, *told)))


async def timetable(session: Session, job_start: int, lease_start: int) -> Row:
    """Give the server's time, and when upkeep of each kind is needed next, as `timetable_of` reads it."""
    (row,) = await session.rows("timetable", job_start, lease_start)
    return row


async def past_time(session: Session, retention: Retention, now: int | None) -> tuple[int, bool]:
    """Give the time, and whether anything may be past its own."""
    kept = [retention.completed, retention.cancelled, retention.dead, CLAIM_MEMORY, retention.history]
    spans = [None if span is None else span_to_micros(span) for span in kept]
    ((told, is_past),) = await session.rows("past_time", now, *spans)
    return told, is_past


async def prune(session: Session, retention: Retention, limit: int, now: int) -> int:
    """Delete finished jobs past their time, and old history."""
    count = 0
    for state, kept in kept_for(retention).items():
        if kept is not None and count < limit:
            count += await _prune_state(session, state, now - span_to_micros(kept), limit - count, now)
    await _forget(session, retention, limit, now)
    return count


def kept_for(retention: Retention) -> dict[State, timedelta | None]:
    """Say how long jobs are kept by the state they ended in."""
    return {
        State.COMPLETED: retention.completed,
        State.CANCELLED: retention.cancelled,
        State.DEAD: retention.dead,
    }


async def _prune_state(session: Session, state: State, before: int, limit: int, now: int) -> int:
    ids = await session.values("finished_before", now, state.value, before, limit)
    return await _delete(session, state, ids)


async def discard(session: Session, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Delete dead and cancelled jobs by id, and give those that were."""
    found = await session.rows("discardable", now, sorted(set(ids)))
    for state in (State.DEAD, State.CANCELLED):
        await _delete(session, state, [job_id for job_id, its_state in found if its_state == state.value])
    return [job_id for job_id, _ in found]


async def _delete(session: Session, state: State, ids: Sequence[JobId]) -> int:
    """Delete finished jobs of one state with all that belongs to them, and count them."""
    if not ids:
        return 0
    ordered = sorted(ids)
    for belonging in _BELONGINGS:
        await session.run(belonging, ordered)
    count = await session.run("drop_jobs", ordered)
    await session.run("count_pruned", state.value, count)
    return count


async def _forget(session: Session, retention: Retention, limit: int, now: int) -> None:
    await session.run("forget_claims", now - span_to_micros(CLAIM_MEMORY), limit)
    await session.run("forget_open_claims", now - span_to_micros(LONGEST_STAY))
    await session.run("forget_keys", now, limit)
    if retention.history is None:
        return
    before = now - span_to_micros(retention.history)
    await session.run("forget_occurrences", before, limit)
    await session.run("forget_ledger", before, limit)
    await session.run("forget_members", before)
