"""Upkeep: promoting due jobs, finding expired ones, and deleting what is past its retention."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.ids import JobId, compose
from rota.core.job import Job
from rota.core.lifecycle import TIMED, State
from rota.core.time import span_to_micros
from rota.ports.store import Retention, Timetable
from rota.stores.base.retention import ends_before
from rota.stores.mysql import breakers
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import MysqlConnection, chunks
from rota.stores.mysql.limits import delete_old_arrivals
from rota.stores.mysql.state_tables import Placement, lock_jobs, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.mysql.workflows import delete_empty, keep_ends
from rota.stores.rows import job_of, timetable_of

#: No client repeats a named claim after this long: its leases have lapsed.
CLAIM_MEMORY: Final = timedelta(hours=1)
#: The notification counter of a writer that has made no work for this time is deleted, and starts again.
NOTIFICATION_MEMORY: Final = timedelta(days=1)
#: The statements that delete a job and all rows that belong to it.
_DELETE_JOB: Final = (
    "delete_attempts",
    "delete_steps",
    "delete_waiters_of_jobs",
    "delete_tags",
    "delete_fired",
    "delete_keys",
    "delete_dependencies_of_children",
    "delete_dependencies_of_parents",
    "delete_jobs",
)


async def promote(connection: MysqlConnection, limit: int, now: int) -> Mapping[str, int]:
    """Make due jobs pending; return how many of each queue. Jobs that others have locked are skipped."""
    ids = [job_id for (job_id,) in await connection.rows(statement("due_jobs"), {"now": now, "limit": limit})]
    unlocked = (await lock_jobs(connection, ids, "lock_jobs_skip_locked")).values()
    due_now = [one for one in unlocked if one.state in TIMED and one.run_at <= now]
    for chunk in chunks([one.id for one in due_now]):
        await connection.run(statement("set_pending"), {"ids": chunk, "now": now})
    await move_rows(connection, due_now, [replace(one, state=State.PENDING) for one in due_now])
    return dict(Counter(one.queue for one in due_now))


async def expired(connection: MysqlConnection, limit: int, now: int) -> list[Job]:
    """Return waiting jobs that were not started in time."""
    return [job_of(row) for row in await connection.rows(statement("expired_jobs"), {"now": now, "limit": limit})]


async def timetable(connection: MysqlConnection, clock: ServerClock) -> Timetable:
    """Return the server time, and when each kind of upkeep is needed next."""
    return timetable_of(await clock.query(connection, statement("timetable")))


async def has_prunable(connection: MysqlConnection, clock: ServerClock, retention: Retention, now: int | None) -> bool:
    """Return whether anything may be past its retention; it may still be needed."""
    server_time, *oldest = await clock.query(connection, statement("oldest_of_each_kind"))
    moment = server_time if now is None else now
    kept = (
        retention.completed, retention.cancelled, retention.dead, CLAIM_MEMORY, NOTIFICATION_MEMORY, timedelta(0),
        timedelta(0), retention.history, retention.history, retention.history,
    )  # fmt: skip
    return any(
        at is not None and span is not None and at <= moment - span_to_micros(span)
        for at, span in zip(oldest, kept, strict=True)
    )


async def prune(connection: MysqlConnection, retention: Retention, limit: int, now: int) -> int:
    """Delete finished jobs past their retention, and old history."""
    count = 0
    for state, before in ends_before(retention, now):
        if count < limit:
            parameters = {"state": state.value, "before": before, "limit": limit - count, "now": now}
            ids = [job_id for (job_id,) in await connection.rows(statement("prunable_jobs"), parameters)]
            count += len(await _delete(connection, ids, {state}, now))
    await _prune_history(connection, retention, limit, now)
    return count


async def discard(connection: MysqlConnection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Delete dead and cancelled jobs by id, and return those that were deleted."""
    discardable: list[JobId] = []
    for chunk in chunks(sorted(set(ids))):
        discardable += [job_id for (job_id,) in await connection.rows(statement("discardable_jobs"), {"ids": chunk})]
    return await _delete(connection, discardable, {State.DEAD, State.CANCELLED}, now)


async def _delete(connection: MysqlConnection, ids: Sequence[JobId], states: set[State], now: int) -> list[JobId]:
    """Delete finished jobs with all their rows, unless they are still needed, and return those deleted."""
    locked = await lock_jobs(connection, ids, "lock_jobs_skip_locked")
    # Read again under the lock: a job may have been retried, or another may depend on it by now.
    deleted: list[Placement] = []
    for chunk in chunks(sorted(one.id for one in locked.values() if one.state in states)):
        rows = await connection.rows(statement("deletable_jobs"), {"ids": chunk, "now": now})
        deleted += [locked[job_id] for (job_id,) in rows]
    emptied = await keep_ends(connection, [one.id for one in deleted])
    for chunk in chunks([one.id for one in deleted]):
        for name in _DELETE_JOB:
            await connection.run(statement(name), {"keys": json.dumps(chunk)})
    await move_rows(connection, deleted, ())
    for state, count in sorted(Counter(one.state.value for one in deleted).items()):
        await connection.run(statement("add_pruned"), {"state": state, "count": count})
    await delete_empty(connection, emptied)
    return [one.id for one in deleted]


async def _prune_history(connection: MysqlConnection, retention: Retention, limit: int, now: int) -> None:
    claims = {"before": now - span_to_micros(CLAIM_MEMORY), "limit": limit}
    await connection.run(statement("prune_claims"), claims)
    await connection.run(statement("prune_notifications"), {"before": now - span_to_micros(NOTIFICATION_MEMORY)})
    await connection.run(statement("prune_events"), {"before": now, "limit": limit})
    keys = await connection.rows(statement("prunable_keys"), {"before": now, "limit": limit})
    if keys:
        await connection.many(statement("prune_key"), [(*key, now) for key in sorted(keys)])
    await delete_old_arrivals(connection, now)
    await breakers.delete_old(connection, now)
    if retention.history is None:
        return
    parameters = {"before": now - span_to_micros(retention.history), "limit": limit}
    await connection.run(statement("prune_occurrences"), parameters)
    last = await connection.rows(statement("last_entry"))
    if last:
        await connection.run(statement("prune_ledger"), {**parameters, "last": last[0][0]})
    await connection.run(statement("prune_members"), parameters)
    below = compose(parameters["before"] // 1000, 0)
    await connection.run(statement("prune_operations"), {"below": below, "limit": limit})
