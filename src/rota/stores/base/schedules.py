"""Schedules: recurring rules and their occurrences. What fires them is each store's own (`fire`)."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.ids import ScheduleId
from rota.core.schedule import Occurrence, Schedule
from rota.stores.base.session import StoreSession
from rota.stores.rows import occurrence_of, schedule_of, schedule_row


async def put_schedules(session: StoreSession, schedules: Sequence[Schedule], now: int) -> list[ScheduleId]:
    """Create or replace schedules, and return the ids of those written."""
    written = []
    for schedule in schedules:
        name = "create_schedule" if schedule.version == 0 else "replace_schedule"
        if await session.put(name, **schedule_row(schedule, now)):
            written.append(schedule.id)
    if written:
        session.note_times()
    return written


async def schedules(
    session: StoreSession, ids: Sequence[ScheduleId], names: Sequence[str], after: str, limit: int
) -> list[Schedule]:
    """Return schedules by id, by name, or a page of all, in the order of their names."""
    if ids:
        rows = await session.select_by("schedules_by_id", ids)
    elif names:
        rows = await session.select_by("schedules_by_name", names)
    else:
        rows = await session.select("schedules", after=after, limit=limit)
    return sorted((schedule_of(row) for row in rows), key=lambda schedule: schedule.name)


async def due_schedules(session: StoreSession, limit: int, now: int) -> list[Schedule]:
    """Return schedules whose fire time has come."""
    return [schedule_of(row) for row in await session.select("due_schedules", now=now, limit=limit)]


async def drop_schedules(session: StoreSession, ids: Sequence[ScheduleId], now: int) -> list[ScheduleId]:  # noqa: ARG001 - as all recorded verbs
    """Delete schedules with their occurrences."""
    dropped = []
    for schedule_id in ids:
        # The schedule first: a firing holds its lock while it records fire times.
        if await session.change("delete_schedule", id=schedule_id):
            dropped.append(schedule_id)
        await session.change("delete_occurrences", id=schedule_id)
    return dropped


async def occurrences(session: StoreSession, schedule_id: ScheduleId, before: int, limit: int) -> list[Occurrence]:
    """Return the occurrences of a schedule, newest first."""
    rows = await session.select("occurrences", schedule_id=schedule_id, before=before, limit=limit)
    return [occurrence_of(row) for row in rows]
