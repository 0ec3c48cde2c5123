"""Schedules and their fire times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.core.identity import JobId, ScheduleId
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.stores.firings import FireTime, groups, is_plain, makes_any, moves, records, still_holding, with_ids
from rota.stores.postgres import settling
from rota.stores.postgres.session import Session
from rota.stores.postgres.submitting import insert_made
from rota.stores.rows import Row, occurrence_of, schedule_of, schedule_row

#: The order of create_schedule.sql and replace_schedule.sql.
_COLUMNS: Final = (
    "id", "name", "rule", "template", "now", "zone", "catch_up", "catch_up_limit", "grace", "overlap", "jitter",
    "start_at", "end_at", "blackouts", "paused_at", "pause_reason", "next_fire_at", "version", "app",
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
    return [job_id for group in groups(firings) for job_id in await _fire_together(session, group, now)]


async def _fire_together(session: Session, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Write down firings of different schedules: a handful of statements, however many they are."""
    schedules = await session.rows("hold_schedules", [firing.schedule_id for firing in firings])
    holding = still_holding(firings, schedules)
    fresh = await _recorded(session, holding, now)
    ids = await _made(session, holding, [job_id for job_id in fresh.values() if job_id is not None], now)
    for (schedule_id, fire_time), job_id in fresh.items():
        if job_id is not None and ids[job_id] != job_id:
            await session.run("correct_occurrence", ids[job_id], schedule_id, fire_time)
    for firing in holding:
        if firing.cancels and makes_any(firing, ids):
            await settling.replace(session, firing.cancels, now)
    moved = moves(holding, ids)
    if moved:
        await session.run("advance_schedules", *_columns(moved))
    return list(ids.values())


async def _recorded(session: Session, firings: Sequence[Firing], now: int) -> dict[FireTime, JobId | None]:
    """Record fire times, and give those that were not on record before, with their jobs, in order."""
    wanted = records(firings)
    if not wanted:
        return {}
    columns = _columns([(*fire_time, *rest) for fire_time, rest in wanted.items()])
    fresh = {(row[0], row[1]) for row in await session.rows("put_occurrences", *columns, now)}
    return {fire_time: job_id for fire_time, (_, job_id) in wanted.items() if fire_time in fresh}


async def _made(session: Session, firings: Sequence[Firing], wanted: Sequence[JobId], now: int) -> dict[JobId, JobId]:
    """Store the jobs of fire times, and say under which ids."""
    jobs = {job.id: job for firing in firings for job in firing.jobs}
    if all(map(is_plain, firings)):
        return dict(zip(wanted, await insert_made(session, [jobs[job_id] for job_id in wanted], now), strict=True))
    ids: dict[JobId, JobId] = {}
    for job_id in wanted:
        (ids[job_id],) = await insert_made(session, [with_ids(jobs[job_id], ids)], now)
    return ids


def _columns(rows: Sequence[Row]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


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
