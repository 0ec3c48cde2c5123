"""Schedules and their fire times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rota.core.identity import JobId, ScheduleId
from rota.core.instant import to_micros
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.submission import Dependency, NewJob
from rota.stores.postgres import settling
from rota.stores.postgres.database import Session
from rota.stores.postgres.submitting import insert_made
from rota.stores.rows import micros, occurrence_of, schedule_of, schedule_row

#: The order of create_schedule.sql and replace_schedule.sql.
_COLUMNS: Final = (
    "id", "name", "rule", "template", "now", "zone", "catch_up", "catch_up_limit", "grace", "overlap", "jitter",
    "start_at", "end_at", "blackouts", "paused_at", "pause_reason", "next_fire_at", "version",
)  # fmt: skip


async def put_schedules(session: Session, schedules: Sequence[Schedule], now: int) -> list[ScheduleId]:
    """Create or replace schedules, and give the ids of those written."""
    written = []
    for schedule in schedules:
        verb = "create_schedule" if schedule.version == 0 else "replace_schedule"
        row = schedule_row(schedule, now)
        if await session.run(verb, *(row[column] for column in _COLUMNS)):
            written.append(schedule.id)
    return written


async def schedules(
    session: Session, ids: Sequence[ScheduleId], names: Sequence[str], after: str, limit: int
) -> list[Schedule]:
    """Give schedules by id or name, or all of them."""
    if ids:
        rows = await session.rows("schedules_by_id", list(ids))
    elif names:
        rows = await session.rows("schedules_by_name", list(names))
    else:
        rows = await session.rows("schedules", after, limit)
    return [schedule_of(row) for row in rows]


async def due_schedules(session: Session, limit: int, now: int) -> list[Schedule]:
    """Give schedules whose fire time has come."""
    return [schedule_of(row) for row in await session.rows("due_schedules", now, limit)]


async def fire(session: Session, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Write firings down and give the ids of the jobs made."""
    return [job_id for firing in firings for job_id in await _fire_one(session, firing, now)]


async def _fire_one(session: Session, firing: Firing, now: int) -> list[JobId]:
    if not await _still_holds(session, firing):
        return []
    jobs = {job.id: job for job in firing.jobs}
    ids: dict[JobId, JobId] = {}
    for occurrence in firing.occurrences:
        fire_time = to_micros(occurrence.fire_time)
        row = (firing.schedule_id, fire_time, occurrence.fate.value, occurrence.job_id, now)
        if not await session.run("put_occurrence", *row) or occurrence.job_id is None:
            continue
        (made,) = await insert_made(session, [_with_ids(jobs[occurrence.job_id], ids)], now)
        ids[occurrence.job_id] = made
        if made != occurrence.job_id:
            await session.run("correct_occurrence", made, firing.schedule_id, fire_time)
    if ids:
        # Where nothing was made, nothing is replaced: the fire time is on record, and so is its job.
        await settling.replace(session, firing.cancels, now)
    if not firing.is_backfill:
        await _advance(session, firing, ids)
    return list(ids.values())


def _with_ids(job: NewJob, ids: dict[JobId, JobId]) -> NewJob:
    """Follow the rare job whose id was taken and which has another one now."""
    if not any(ids.get(one.on, one.on) != one.on for one in job.after):
        return job
    return replace(job, after=tuple(Dependency(ids.get(one.on, one.on), one.need) for one in job.after))


async def _still_holds(session: Session, firing: Firing) -> bool:
    if firing.is_backfill:
        return bool(await session.rows("schedule_version", firing.schedule_id, firing.version))
    planned = (firing.schedule_id, firing.version, micros(firing.planned_for))
    return bool(await session.rows("schedule_as_planned", *planned))


async def _advance(session: Session, firing: Firing, ids: dict[JobId, JobId]) -> None:
    fired = [one for one in firing.occurrences if one.job_id in ids]
    last_fire_at = micros(fired[-1].fire_time) if fired else None
    last_job_id = ids[fired[-1].job_id] if fired and fired[-1].job_id is not None else None
    await session.run("advance_schedule", firing.schedule_id, micros(firing.next_fire_at), last_fire_at, last_job_id)


async def drop_schedules(session: Session, ids: Sequence[ScheduleId], now: int) -> list[ScheduleId]:  # noqa: ARG001
    """Delete schedules with their record of fire times."""
    dropped = []
    for schedule_id in ids:
        await session.run("drop_occurrences", schedule_id)
        if await session.run("drop_schedule", schedule_id):
            dropped.append(schedule_id)
    return dropped


async def occurrences(session: Session, schedule_id: ScheduleId, before: int, limit: int) -> list[Occurrence]:
    """Give what became of a schedule's fire times, newest first."""
    return [occurrence_of(row) for row in await session.rows("occurrences", schedule_id, before, limit)]
