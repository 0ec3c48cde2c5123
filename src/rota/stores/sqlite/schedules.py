"""Schedules: recurring rules, their occurrences, and the jobs they make."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.ids import JobId
from rota.core.schedule import Firing
from rota.core.time import to_micros
from rota.stores.firings import with_ids
from rota.stores.rows import micros
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.insert import insert_made
from rota.stores.sqlite.settle import cancel_replaced
from rota.stores.sqlite.statements import statement


def fire(connection: SqliteConnection, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Store the occurrences and jobs of firings, and return the ids of the jobs."""
    return [job_id for firing in firings for job_id in _fire_one(connection, firing, now)]


def _fire_one(connection: SqliteConnection, firing: Firing, now: int) -> list[JobId]:
    if not _still_holds(connection, firing):
        return []
    jobs = {job.id: job for job in firing.jobs}
    ids: dict[JobId, JobId] = {}
    for occurrence in firing.occurrences:
        fire_time = to_micros(occurrence.fire_time)
        row = (firing.schedule_id, fire_time, occurrence.fate.value, occurrence.job_id, now)
        if not connection.run(statement("save_occurrence"), row) or occurrence.job_id is None:
            continue
        made = insert_made(connection, with_ids(jobs[occurrence.job_id], ids), now)
        ids[occurrence.job_id] = made
        if made != occurrence.job_id:
            connection.run(statement("update_job_of_occurrence"), (made, firing.schedule_id, fire_time))
    if ids:
        # Only then: if no job was made, the fire time was recorded before, and so was its job.
        cancel_replaced(connection, firing.cancels, now)
    if not firing.is_backfill:
        _advance(connection, firing, ids)
    return list(ids.values())


def _still_holds(connection: SqliteConnection, firing: Firing) -> bool:
    if firing.is_backfill:
        return bool(connection.rows(statement("schedule_has_version"), (firing.schedule_id, firing.version)))
    planned = (firing.schedule_id, firing.version, micros(firing.planned_for))
    return bool(connection.rows(statement("schedule_is_unchanged"), planned))


def _advance(connection: SqliteConnection, firing: Firing, ids: dict[JobId, JobId]) -> None:
    fired = [one for one in firing.occurrences if one.job_id in ids]
    parameters = {
        "id": firing.schedule_id,
        "next_fire_at": micros(firing.next_fire_at),
        "last_fire_at": micros(fired[-1].fire_time) if fired else None,
        "last_job_id": ids[fired[-1].job_id] if fired and fired[-1].job_id is not None else None,
    }
    connection.run(statement("advance_schedule"), parameters)
