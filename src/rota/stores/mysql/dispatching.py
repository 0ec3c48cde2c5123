"""Handing jobs over to a broker, and taking them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from rota.core.identity import JobId
from rota.core.instant import span_to_micros
from rota.core.lane import Lane
from rota.core.lifecycle import State
from rota.ports.store import Dispatched
from rota.stores.mysql.driver import Connection, lists
from rota.stores.mysql.leasing import paused_queues, take
from rota.stores.mysql.places import enter, lock, shift
from rota.stores.mysql.statements import statement


async def dispatch(connection: Connection, room: Mapping[Lane, int], now: int) -> list[Dispatched]:
    """Make due jobs of some lanes queued, as many of each as there is room for."""
    paused = await paused_queues(connection, now)
    ids: list[JobId] = []
    for lane, limit in room.items():
        if lane.queue not in paused and limit > 0:
            ids += [job_id for _, job_id in await take(connection, lane, limit, now)]
    if not ids:
        return []
    # Nobody moves them: we took them out of the line.
    found = await lock(connection, ids)
    for some in lists(ids):
        await connection.run(statement("dispatch"), {"ids": some, "now": now})
    has_made_work = connection.has_made_work
    await enter(connection, {"held": [(one.id, State.QUEUED.value, one.queue, one.type) for one in found.values()]})
    # The broker tells the workers; nobody else has anything to do here.
    connection.has_made_work = has_made_work
    return [Dispatched(one.id, Lane(one.queue, one.type), one.priority) for one in (found[job_id] for job_id in ids)]


async def recall(connection: Connection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Make queued jobs pending again, and give those that were."""
    found = await lock(connection, list(dict.fromkeys(ids)), "lock_free_jobs")
    before = [one for one in found.values() if one.state is State.QUEUED]
    for some in lists([one.id for one in before]):
        await connection.run(statement("recall"), {"ids": some, "now": now})
    await shift(connection, before, [replace(one, state=State.PENDING) for one in before])
    recalled = {one.id for one in before}
    return [job_id for job_id in dict.fromkeys(ids) if job_id in recalled]


async def queued(connection: Connection, limit: int, since: timedelta, after: int, now: int) -> list[Dispatched]:
    """Give jobs that have been queued for a while."""
    parameters = {"after": after, "before": now - span_to_micros(since), "limit": limit}
    rows = await connection.rows(statement("queued"), parameters)
    return [Dispatched(job_id, Lane(queue, type_), priority) for job_id, queue, type_, priority in rows]
