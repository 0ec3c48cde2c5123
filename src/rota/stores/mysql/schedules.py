"""Schedules and their occurrences. A transaction that fires a schedule holds the lock on its row to the end."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.ids import JobId
from rota.core.schedule import Fate, Firing
from rota.stores.firings import FireTime, groups, is_plain, makes_any, moves, records, still_holding, with_ids
from rota.stores.mysql.driver import MysqlConnection, chunks
from rota.stores.mysql.errors import ConstraintViolated, RetryTransaction
from rota.stores.mysql.insert import insert_system_jobs
from rota.stores.mysql.settle import cancel_replaced
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row


async def fire(connection: MysqlConnection, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Record firings and return the ids of the jobs made."""
    made: list[JobId] = []
    for group in groups(firings):
        made += await _fire_together(connection, group, now)
    return made


async def _fire_together(connection: MysqlConnection, firings: Sequence[Firing], now: int) -> list[JobId]:
    """Record firings of different schedules with a fixed number of statements."""
    schedules: list[Row] = []
    for chunk in chunks(sorted(firing.schedule_id for firing in firings)):
        schedules += await connection.rows(statement("lock_schedules"), {"ids": chunk})
    holding = still_holding(firings, schedules)
    fresh = await _recorded(connection, holding, now)
    ids = await _made(connection, holding, [job_id for job_id in fresh.values() if job_id is not None], now)
    for (schedule_id, fire_time), job_id in fresh.items():
        if job_id is not None and ids[job_id] != job_id:
            corrected = {"job_id": ids[job_id], "schedule_id": schedule_id, "fire_time": fire_time}
            await connection.run(statement("set_occurrence_job"), corrected)
    for firing in holding:
        if firing.cancels and makes_any(firing, ids):
            await cancel_replaced(connection, firing.cancels, now)
    moved = [(*rest, schedule_id) for schedule_id, *rest in moves(holding, ids)]
    if moved:
        await connection.update_each(statement("advance_schedule"), moved)
    return list(ids.values())


async def _recorded(connection: MysqlConnection, firings: Sequence[Firing], now: int) -> dict[FireTime, JobId | None]:
    """Record fire times, and return those that were not on record, with their jobs, in order.

    No other process records any meanwhile: their schedules are locked.
    """
    planned = records(firings)
    known: dict[FireTime, str] = {}
    for chunk in chunks(list(planned)):
        rows = await connection.rows(statement("known_occurrences"), {"fire_times": chunk})
        known.update(((schedule_id, fire_time), fate) for schedule_id, fire_time, fate in rows)
    fresh = {one: rest for one, rest in planned.items() if one not in known or _replaces(rest[0], known[one])}
    missed = [one for one in fresh if one in known]
    if missed:
        await connection.update_each(statement("delete_missed_occurrence"), missed)
    if fresh:
        try:
            await connection.many(statement("insert_occurrence"), [(*one, *rest, now) for one, rest in fresh.items()])
        except ConstraintViolated as error:
            raise RetryTransaction("another process recorded a fire time of a locked schedule") from error
    return {fire_time: job_id for fire_time, (_, job_id) in fresh.items()}


def _replaces(fate: str, recorded: str) -> bool:
    """Whether a new fate replaces the recorded one: only a missed fire time may be caught up."""
    return recorded == Fate.MISSED and fate != Fate.MISSED


async def _made(
    connection: MysqlConnection, firings: Sequence[Firing], planned: Sequence[JobId], now: int
) -> dict[JobId, JobId]:
    """Insert the jobs of fire times, and return the planned ids with the ids that were used."""
    jobs = {job.id: job for firing in firings for job in firing.jobs}
    if all(map(is_plain, firings)):
        return dict(
            zip(planned, await insert_system_jobs(connection, [jobs[one] for one in planned], now), strict=True)
        )
    ids: dict[JobId, JobId] = {}
    for job_id in planned:
        (ids[job_id],) = await insert_system_jobs(connection, [with_ids(jobs[job_id], ids)], now)
    return ids
