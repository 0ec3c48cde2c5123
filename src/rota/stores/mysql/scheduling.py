"""Schedules and their fire times. Whoever fires a schedule keeps its row locked until the end."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.identity import JobId, ScheduleId
from rota.core.schedule import Fate, Firing, Occurrence, Schedule
from rota.stores.firings import FireTime, groups, is_plain, makes_any, moves, records, still_holding, with_ids
from rota.stores.mysql.driver import Again, Clash, Connection, lists
from rota.stores.mysql.settling import withdraw
from rota.stores.mysql.statements import statement
from rota.stores.mysql.submitting import insert_made
from rota.stores.rows import Row, occurrence_of, schedule_of, schedule_row


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
    for group in groups(firings):
        made += await _fire_together(connection, group, now)
    return made


async def _fire_together(connection: Connection, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Write down firings of different schedules: a handful of statements, however many they are."""
    schedules: list[Row] = []
    for some in lists(sorted(firing.schedule_id for firing in firings)):
        schedules += await connection.rows(statement("hold_schedules"), {"ids": some})
    holding = still_holding(firings, schedules)
    fresh = await _recorded(connection, holding, now)
    ids = await _made(connection, holding, [job_id for job_id in fresh.values() if job_id is not None], now)
    for (schedule_id, fire_time), job_id in fresh.items():
        if job_id is not None and ids[job_id] != job_id:
            corrected = {"job_id": ids[job_id], "schedule_id": schedule_id, "fire_time": fire_time}
            await connection.run(statement("correct_occurrence"), corrected)
    for firing in holding:
        if firing.cancels and makes_any(firing, ids):
            await withdraw(connection, firing.cancels, now)
    moved = [(*rest, schedule_id) for schedule_id, *rest in moves(holding, ids)]
    if moved:
        await connection.each(statement("advance_schedule"), moved)
    return list(ids.values())


async def _recorded(connection: Connection, firings: Sequence[Firing], now: int) -> dict[FireTime, JobId | None]:
    """Record fire times, and give those that were not on record before, with their jobs, in order.

    Nobody else records any meanwhile: we hold their schedules.
    """
    wanted = records(firings)
    known: dict[FireTime, str] = {}
    for some in lists(list(wanted)):
        rows = await connection.rows(statement("known_occurrences"), {"fire_times": some})
        known.update(((schedule_id, fire_time), fate) for schedule_id, fire_time, fate in rows)
    fresh = {one: rest for one, rest in wanted.items() if one not in known or _replaces(rest[0], known[one])}
    missed = [one for one in fresh if one in known]
    if missed:
        await connection.each(statement("drop_occurrence"), missed)
    if fresh:
        try:
            await connection.many(statement("put_occurrence"), [(*one, *rest, now) for one, rest in fresh.items()])
        except Clash as error:
            raise Again("somebody else recorded a fire time of a schedule that we hold") from error
    return {fire_time: job_id for fire_time, (_, job_id) in fresh.items()}


def _replaces(fate: str, recorded: str) -> bool:
    """Say whether what is on record of a fire time may change: only that it was missed."""
    return recorded == Fate.MISSED and fate != Fate.MISSED


async def _made(
    connection: Connection, firings: Sequence[Firing], wanted: Sequence[JobId], now: int
) -> dict[JobId, JobId]:
    """Store the jobs of fire times, and say under which ids."""
    jobs = {job.id: job for firing in firings for job in firing.jobs}
    if all(map(is_plain, firings)):
        return dict(zip(wanted, await insert_made(connection, [jobs[one] for one in wanted], now), strict=True))
    ids: dict[JobId, JobId] = {}
    for job_id in wanted:
        (ids[job_id],) = await insert_made(connection, [with_ids(jobs[job_id], ids)], now)
    return ids


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
