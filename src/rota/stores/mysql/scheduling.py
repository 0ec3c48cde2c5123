"""Schedules and their fire times. Whoever fires a schedule keeps its row locked until the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rota.core.identity import JobId, ScheduleId
from rota.core.instant import to_micros
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.submission import Dependency, NewJob
from rota.stores.mysql.driver import Clash, Connection, lists
from rota.stores.mysql.settling import withdraw
from rota.stores.mysql.statements import statement
from rota.stores.mysql.submitting import insert_made
from rota.stores.rows import Row, micros, occurrence_of, schedule_of, schedule_row


async def put_schedules(connection: Connection, schedules: Sequence[Schedule], now: int) -> list[ScheduleId]:
    """Create or replace schedules, and give the ids of those written."""
    written = []
    for schedule in schedules:
        verb = "create_schedule" if schedule.version == 0 else "replace_schedule"
        try:
            if await connection.run(statement(verb), schedule_row(schedule, now)):
                written.append(schedule.id)
        except Clash:
            continue
    connection.has_made_work |= bool(written)
    return written


async def schedules(
    connection: Connection, ids: Sequence[ScheduleId], names: Sequence[str], after: str, limit: int
) -> list[Schedule]:
    """Give schedules by id or name, or all of them."""
    rows: list[Row] = []
    if ids:
        for some in lists(ids):
            rows += await connection.rows(statement("schedules_by_id"), {"ids": some})
    elif names:
        for some in lists(names):
            rows += await connection.rows(statement("schedules_by_name"), {"names": some})
    else:
        rows += await connection.rows(statement("schedules"), {"after": after, "limit": limit})
    return sorted((schedule_of(row) for row in rows), key=lambda schedule: schedule.name)


async def due_schedules(connection: Connection, limit: int, now: int) -> list[Schedule]:
    """Give schedules whose fire time has come."""
    rows = await connection.rows(statement("due_schedules"), {"now": now, "limit": limit})
    return [schedule_of(row) for row in rows]


async def fire(connection: Connection, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Write firings down and give the ids of the jobs made."""
    made: list[JobId] = []
    for firing in firings:
        made += await _fire_one(connection, firing, now)
    return made


async def _fire_one(connection: Connection, firing: Firing, now: int) -> list[JobId]:
    if not await _still_holds(connection, firing):
        return []
    jobs = {job.id: job for job in firing.jobs}
    ids: dict[JobId, JobId] = {}
    for occurrence in firing.occurrences:
        if not await _record(connection, firing, occurrence, now) or occurrence.job_id is None:
            continue
        made = await insert_made(connection, _with_ids(jobs[occurrence.job_id], ids), now)
        ids[occurrence.job_id] = made
        if made != occurrence.job_id:
            corrected = {
                "job_id": made,
                "schedule_id": firing.schedule_id,
                "fire_time": to_micros(occurrence.fire_time),
            }
            await connection.run(statement("correct_occurrence"), corrected)
    if ids:
        # Where nothing was made, nothing is replaced: the fire time is on record, and so is its job.
        await withdraw(connection, firing.cancels, now)
    if not firing.is_backfill:
        await _advance(connection, firing, ids)
    return list(ids.values())


async def _record(connection: Connection, firing: Firing, occurrence: Occurrence, now: int) -> bool:
    """Record a fire time; False if it is already known."""
    parameters = {
        "schedule_id": firing.schedule_id,
        "fire_time": to_micros(occurrence.fire_time),
        "fate": occurrence.fate.value,
        "job_id": occurrence.job_id,
        "now": now,
    }
    try:
        await connection.run(statement("put_occurrence"), parameters)
    except Clash:
        return False
    return True


def _with_ids(job: NewJob, ids: dict[JobId, JobId]) -> NewJob:
    """Follow the rare job whose id was taken and which has another one now."""
    if not any(ids.get(one.on, one.on) != one.on for one in job.after):
        return job
    return replace(job, after=tuple(Dependency(ids.get(one.on, one.on), one.need) for one in job.after))


async def _still_holds(connection: Connection, firing: Firing) -> bool:
    parameters = {"id": firing.schedule_id, "version": firing.version, "planned_for": micros(firing.planned_for)}
    question = "schedule_version" if firing.is_backfill else "schedule_as_planned"
    return bool(await connection.rows(statement(question), parameters))


async def _advance(connection: Connection, firing: Firing, ids: dict[JobId, JobId]) -> None:
    fired = [one for one in firing.occurrences if one.job_id in ids]
    parameters = {
        "id": firing.schedule_id,
        "next_fire_at": micros(firing.next_fire_at),
        "last_fire_at": micros(fired[-1].fire_time) if fired else None,
        "last_job_id": ids[fired[-1].job_id] if fired and fired[-1].job_id is not None else None,
    }
    await connection.run(statement("advance_schedule"), parameters)


async def drop_schedules(connection: Connection, ids: Sequence[ScheduleId]) -> list[ScheduleId]:
    """Delete schedules with their record of fire times."""
    dropped = []
    for schedule_id in ids:
        # The schedule first: whoever fires it keeps it locked, and records its fire times under that lock.
        if await connection.run(statement("drop_schedule"), {"id": schedule_id}):
            dropped.append(schedule_id)
        await connection.run(statement("drop_occurrences"), {"id": schedule_id})
    return dropped


async def occurrences(connection: Connection, schedule_id: ScheduleId, before: int, limit: int) -> list[Occurrence]:
    """Give what became of a schedule's fire times, newest first."""
    parameters = {"schedule_id": schedule_id, "before": before, "limit": limit}
    return [occurrence_of(row) for row in await connection.rows(statement("occurrences"), parameters)]
