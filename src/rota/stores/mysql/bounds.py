"""Bounds of queues: how many more jobs may wait there, and who may come in meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.submission import NewJob
from rota.stores.mysql.driver import Runner
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: How many more jobs may wait in each queue that has a bound.
Room = dict[str, int]


async def room_for(connection: Runner, jobs: Sequence[NewJob], bound: int | None) -> Room:
    """Say how much room there is in queues with a bound, and let nobody else in until we are done."""
    connection.bounds = bounds = _bounds(await connection.rows(statement("queue_bounds")))
    if not bounds and bound is None:
        return {}
    limits = {queue: bounds.get(queue, bound) for queue in sorted({job.queue for job in jobs})}
    bounded = {queue: limit for queue, limit in limits.items() if limit is not None}
    if bounded:
        await connection.many(statement("pass_gate"), [(queue,) for queue in bounded])
    room = {}
    for queue, limit in bounded.items():
        ((depth,),) = await connection.rows(statement("queue_depth"), {"queue": queue, "limit": limit})
        room[queue] = max(limit - depth, 0)
    return room


def seems_open(connection: Runner, queue: str, bound: int | None) -> bool:
    """Whether a queue had no bound when we last looked."""
    return bound is None and connection.bounds is not None and queue not in connection.bounds


def is_open(connection: Runner, queue: str, found: Sequence[Row]) -> bool:
    """Whether a queue has no bound, as queue_bounds.sql found just now."""
    connection.bounds = bounds = _bounds(found)
    return queue not in bounds


def _bounds(found: Sequence[Row]) -> dict[str, int]:
    return {name: int(bound) for name, bound in found}
