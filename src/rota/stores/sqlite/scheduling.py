"""Schedules and their fire times."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rota.core.identity import JobId, ScheduleId
from rota.core.instant import to_micros
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.stores.firings import with_ids
from rota.stores.rows import ids_text, micros, occurrence_of, schedule_of, schedule_row
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.settling import withdraw
from rota.stores.sqlite.statements import statement
from rota.stores.sqlite.submitting import insert_made


def put_schedules(connection: Connection, schedules: Sequence[Schedule], now: int) -> list[ScheduleId]:
    """Create or replace schedules, and give the ids of those written."""
    written = []
    for schedule in schedules:
        verb = "create_schedule" if schedule.version == 0 else "replace_schedule"
        if connection.run(statement(verb), schedule_row(schedule, now)):
            written.append(schedule.id)
    connection.has_set_times |= bool(written)
    return written


def schedules(
    connection: Connection, ids: Sequence[ScheduleId], names: Sequence[str], after: str, limit: int
) -> list[Schedule]:
    """Give schedules by id or name, or all of them."""
    if ids:
        rows = connection.rows(statement("schedules_by_id"), (ids_text(ids),))
    elif names:
        rows = connection.rows(statement("schedules_by_name"), (json.dumps(names),))
    else:
        rows = connection.rows(statement("schedules"), (after, limit))
    return [schedule_of(row) for row in rows]


def due_schedules(connection: Connection, limit: int, now: int) -> list[Schedule]:
    """Give schedules whose fire time has come."""
    return [schedule_of(row) for row in connection.rows(statement("due_schedules"), (now, limit))]


def fire(connection: Connection, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Write firings down and give the ids of the jobs made."""
    return [job_id for firing in firings for job_id in _fire_one(connection, firing, now)]


def _fire_one(connection: Connection, firing: Firing, now: int) -> list[JobId]:
    if not _still_holds(connection, firing):
        return []
    jobs = {job.id: job for job in firing.jobs}
    ids: dict[JobId, JobId] = {}
    for occurrence in firing.occurrences:
        fire_time = to_micros(occurrence.fire_time)
        row = (firing.schedule_id, fire_time, occurrence.fate.value, occurrence.job_id, now)
        if not connection.run(statement("put_occurrence"), row) or occurrence.job_id is None:
            continue
        made = insert_made(connection, with_ids(jobs[occurrence.job_id], ids), now)
        ids[occurrence.job_id] = made
        if made != occurrence.job_id:
            connection.run(statement("correct_occurrence"), (made, firing.schedule_id, fire_time))
    if ids:
        # Where nothing was made, nothing is replaced: the fire time is on record, and so is its job.
        withdraw(connection, firing.cancels, now)
    if not firing.is_backfill:
        _advance(connection, firing, ids)
    return list(ids.values())


def _still_holds(connection: Connection, firing: Firing) -> bool:
    if firing.is_backfill:
        return bool(connection.rows(statement("schedule_version"), (firing.schedule_id, firing.version)))
    planned = (firing.schedule_id, firing.version, micros(firing.planned_for))
    return bool(connection.rows(statement("schedule_as_planned"), planned))


def _advance(connection: Connection, firing: Firing, ids: dict[JobId, JobId]) -> None:
    fired = [one for one in firing.occurrences if one.job_id in ids]
    parameters = {
        "id": firing.schedule_id,
        "next_fire_at": micros(firing.next_fire_at),
        "last_fire_at": micros(fired[-1].fire_time) if fired else None,
        "last_job_id": ids[fired[-1].job_id] if fired and fired[-1].job_id is not None else None,
    }
    connection.run(statement("advance_schedule"), parameters)


def drop_schedules(connection: Connection, ids: Sequence[ScheduleId]) -> list[ScheduleId]:
    """Delete schedules with their record of fire times."""
    dropped = []
    for schedule_id in ids:
        connection.run(statement("drop_occurrences"), (schedule_id,))
        if connection.run(statement("drop_schedule"), (schedule_id,)):
            dropped.append(schedule_id)
    return dropped


def occurrences(connection: Connection, schedule_id: ScheduleId, before: int, limit: int) -> list[Occurrence]:
    """Give what became of a schedule's fire times, newest first."""
    return [occurrence_of(row) for row in connection.rows(statement("occurrences"), (schedule_id, before, limit))]
