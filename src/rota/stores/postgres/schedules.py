"""Schedules and their occurrences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.core.ids import JobId, ScheduleId
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.stores.firings import FireTime, groups, is_plain, makes_any, moves, records, still_holding, with_ids
from rota.stores.postgres.insert import insert_made
from rota.stores.postgres.session import Session
from rota.stores.postgres.settle import replace_jobs
from rota.stores.rows import Row, occurrence_of, schedule_of, schedule_row

#: The order of the parameters of create_schedule and replace_schedule.
_COLUMNS: Final = (
    "id", "name", "rule", "template", "now", "zone", "catch_up", "catch_up_limit", "grace", "overlap", "jitter",
    "start_at", "end_at", "blackouts", "paused_at", "pause_reason", "next_fire_at", "version", "app",
)  # fmt: skip


async def put_schedules(session: Session, schedules: Sequence[Schedule], now: int) -> list[ScheduleId]:
    """Create or replace schedules, and return the ids of those written."""
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
    """Return schedules by id or name, or all of them."""
    if ids:
        rows = await session.rows("schedules_by_id", list(ids))
    elif names:
        rows = await session.rows("schedules_by_name", list(names))
    else:
        rows = await session.rows("schedules", after, limit)
    return [schedule_of(row) for row in rows]


async def due_schedules(session: Session, limit: int, now: int) -> list[Schedule]:
    """Return schedules whose fire time has come."""
    return [schedule_of(row) for row in await session.rows("due_schedules", now, limit)]


async def fire(session: Session, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Record firings and return the ids of the new jobs."""
    return [job_id for group in groups(firings) for job_id in await _fire_together(session, group, now)]


async def _fire_together(session: Session, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Record firings of different schedules, with a handful of statements."""
    schedules = await session.rows("lock_schedules", [firing.schedule_id for firing in firings])
    holding = still_holding(firings, schedules)
    fresh = await _record(session, holding, now)
    ids = await _insert_jobs(session, holding, [job_id for job_id in fresh.values() if job_id is not None], now)
    for (schedule_id, fire_time), job_id in fresh.items():
        if job_id is not None and ids[job_id] != job_id:
            await session.run("set_occurrence_job", ids[job_id], schedule_id, fire_time)
    for firing in holding:
        if firing.cancels and makes_any(firing, ids):
            await replace_jobs(session, firing.cancels, now)
    moved = moves(holding, ids)
    if moved:
        await session.run("advance_schedules", *_columns(moved))
    return list(ids.values())


async def _record(session: Session, firings: Sequence[Firing], now: int) -> dict[FireTime, JobId | None]:
    """Record fire times, and return those that were not recorded before, with their jobs, in order."""
    planned = records(firings)
    if not planned:
        return {}
    columns = _columns([(*fire_time, *rest) for fire_time, rest in planned.items()])
    fresh = {(row[0], row[1]) for row in await session.rows("insert_occurrences", *columns, now)}
    return {fire_time: job_id for fire_time, (_, job_id) in planned.items() if fire_time in fresh}


async def _insert_jobs(
    session: Session, firings: Sequence[Firing], job_ids: Sequence[JobId], now: int
) -> dict[JobId, JobId]:
    """Store the jobs of fire times, and return under which ids."""
    jobs = {job.id: job for firing in firings for job in firing.jobs}
    if all(map(is_plain, firings)):
        return dict(zip(job_ids, await insert_made(session, [jobs[one] for one in job_ids], now), strict=True))
    ids: dict[JobId, JobId] = {}
    for job_id in job_ids:
        (ids[job_id],) = await insert_made(session, [with_ids(jobs[job_id], ids)], now)
    return ids


def _columns(rows: Sequence[Row]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def drop_schedules(session: Session, ids: Sequence[ScheduleId], now: int) -> list[ScheduleId]:  # noqa: ARG001
    """Delete schedules with their occurrences."""
    dropped = []
    for schedule_id in ids:
        await session.run("delete_occurrences", schedule_id)
        if await session.run("delete_schedule", schedule_id):
            dropped.append(schedule_id)
    return dropped


async def occurrences(session: Session, schedule_id: ScheduleId, before: int, limit: int) -> list[Occurrence]:
    """Return the occurrences of a schedule, newest first."""
    return [occurrence_of(row) for row in await session.rows("occurrences", schedule_id, before, limit)]
