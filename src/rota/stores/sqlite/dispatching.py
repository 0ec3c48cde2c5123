"""Handing jobs over to a broker, and taking them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.core.identity import JobId
from rota.core.instant import span_to_micros
from rota.core.lane import Lane
from rota.ports.store import Dispatched
from rota.stores.rows import ids_text
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement


def dispatch(connection: Connection, room: Mapping[Lane, int], now: int) -> list[Dispatched]:
    """Make due jobs of some lanes queued, as many of each as there is room for."""
    paused = {name for (name,) in connection.rows(statement("paused_queues"), (now,))}
    ids: list[JobId] = []
    for lane, limit in room.items():
        if lane.queue not in paused and limit > 0:
            rows = connection.rows(statement("pending"), (*lane, now, now, limit))
            ids += [job_id for _, job_id in rows]
    if not ids:
        return []
    rows = connection.rows(statement("dispatch"), {"ids": ids_text(ids), "now": now})
    made = {job_id: Dispatched(job_id, Lane(queue, type_), priority) for job_id, queue, type_, priority in rows}
    return [made[job_id] for job_id in ids]


def recall(connection: Connection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Make queued jobs pending again, and give those that were."""
    rows = connection.rows(statement("recall"), {"ids": ids_text(ids), "now": now})
    connection.has_made_work |= bool(rows)
    recalled = {job_id for (job_id,) in rows}
    return [job_id for job_id in dict.fromkeys(ids) if job_id in recalled]


def queued(connection: Connection, limit: int, since: timedelta, after: int, now: int) -> list[Dispatched]:
    """Give jobs that have been queued for a while."""
    parameters = {"after": after, "before": now - span_to_micros(since), "limit": limit}
    rows = connection.rows(statement("queued"), parameters)
    return [Dispatched(job_id, Lane(queue, type_), priority) for job_id, queue, type_, priority in rows]
