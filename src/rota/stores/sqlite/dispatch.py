"""Dispatch: handing due jobs to an external broker, and taking them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.core.ids import JobId
from rota.core.queue import Lane
from rota.core.time import span_to_micros
from rota.ports.store import Dispatched
from rota.stores.limited_lanes import is_limited
from rota.stores.rows import ids_text
from rota.stores.sqlite.claim import claim_conditions
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def dispatch(connection: SqliteConnection, room: Mapping[Lane, int], now: int) -> list[Dispatched]:
    """Mark due jobs of some lanes as queued, as many of each as there is room for; none that a limit concerns."""
    conditions = claim_conditions(connection, now)
    ids: list[JobId] = []
    for lane, limit in room.items():
        if lane.queue not in conditions.paused and limit > 0 and not is_limited(lane, conditions.limited):
            rows = connection.rows(statement("pending_of_lane"), (*lane, now, now, limit))
            ids += [job_id for _, job_id in rows]
    if not ids:
        return []
    rows = connection.rows(statement("mark_queued"), {"ids": ids_text(ids), "now": now})
    made = {job_id: Dispatched(job_id, Lane(queue, type_), priority) for job_id, queue, type_, priority in rows}
    return [made[job_id] for job_id in ids]


def recall(connection: SqliteConnection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Make queued jobs pending again, and return those that were queued."""
    rows = connection.rows(statement("return_to_pending"), {"ids": ids_text(ids), "now": now})
    connection.has_made_work |= bool(rows)
    recalled = {job_id for (job_id,) in rows}
    return [job_id for job_id in dict.fromkeys(ids) if job_id in recalled]


def queued(connection: SqliteConnection, limit: int, since: timedelta, after: int, now: int) -> list[Dispatched]:
    """Return jobs that have been queued for a while."""
    parameters = {"after": after, "before": now - span_to_micros(since), "limit": limit}
    rows = connection.rows(statement("queued_jobs"), parameters)
    return [Dispatched(job_id, Lane(queue, type_), priority) for job_id, queue, type_, priority in rows]
