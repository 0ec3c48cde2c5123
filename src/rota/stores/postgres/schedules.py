"""Schedules and their occurrences."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.ids import JobId
from rota.core.schedule import Firing
from rota.stores.firings import FireTime, groups, is_plain, makes_any, moves, records, still_holding, with_ids
from rota.stores.postgres.insert import insert_made
from rota.stores.postgres.session import Session
from rota.stores.postgres.settle import replace_jobs
from rota.stores.rows import Row


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
