"""Dispatch: handing due jobs to an external broker, and recalling them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.queue import Lane
from rota.core.time import span_to_micros
from rota.ports.store import Dispatched
from rota.stores.mysql.driver import MysqlConnection, chunks
from rota.stores.mysql.lanes import take_from_lane
from rota.stores.mysql.limits import conditions
from rota.stores.mysql.state_tables import insert_rows, lock_jobs, move_rows
from rota.stores.mysql.statements import statement


async def dispatch(connection: MysqlConnection, room: Mapping[Lane, int], now: int) -> list[Dispatched]:
    """Make due jobs queued, at most `room` of each lane; none that a limit concerns."""
    restrictions = await conditions(connection, now)
    ids: list[JobId] = []
    for lane, limit in room.items():
        if lane.queue not in restrictions.paused and limit > 0:
            ids += [job_id for _, job_id in await take_from_lane(connection, lane, limit, now)]
    if not ids:
        return []
    # No other transaction moves them: they are no longer in `rota_ready`.
    placements = await lock_jobs(connection, ids)
    for chunk in chunks(ids):
        await connection.run(statement("set_queued"), {"ids": chunk, "now": now})
    has_made_work = connection.has_made_work
    await insert_rows(
        connection, {"held": [(one.id, State.QUEUED.value, one.queue, one.type) for one in placements.values()]}
    )
    # The broker tells the workers, so no process has to be notified.
    connection.has_made_work = has_made_work
    return [
        Dispatched(one.id, Lane(one.queue, one.type), one.priority) for one in (placements[job_id] for job_id in ids)
    ]


async def recall(connection: MysqlConnection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Make queued jobs pending again, and return those that were queued."""
    unlocked = await lock_jobs(connection, list(dict.fromkeys(ids)), "lock_jobs_skip_locked")
    before = [one for one in unlocked.values() if one.state is State.QUEUED]
    for chunk in chunks([one.id for one in before]):
        await connection.run(statement("set_pending"), {"ids": chunk, "now": now})
    await move_rows(connection, before, [replace(one, state=State.PENDING) for one in before])
    recalled = {one.id for one in before}
    return [job_id for job_id in dict.fromkeys(ids) if job_id in recalled]


async def queued(connection: MysqlConnection, limit: int, since: timedelta, after: int, now: int) -> list[Dispatched]:
    """Return jobs that have been queued for at least `since`."""
    parameters = {"after": after, "before": now - span_to_micros(since), "limit": limit}
    rows = await connection.rows(statement("queued_jobs"), parameters)
    return [Dispatched(job_id, Lane(queue, type_), priority) for job_id, queue, type_, priority in rows]
