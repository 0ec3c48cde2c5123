"""Queues: which are paused, and the bounds on how many jobs may wait in them."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.submission import NewJob
from rota.stores.mysql.driver import MysqlConnection, Runner
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: How many more jobs may wait in each bounded queue.
QueueRoom = dict[str, int]


async def paused_queues(connection: MysqlConnection, now: int) -> set[str]:
    return {name for (name,) in await connection.rows(statement("paused_queues"), {"now": now})}


async def lock_bounded_queues(connection: Runner, jobs: Sequence[NewJob], bound: int | None) -> QueueRoom:
    """Lock the bounded queues of new jobs until the transaction ends, and return how many more jobs each takes."""
    connection.bounds = bounds = _bounds(await connection.rows(statement("queue_bounds")))
    if not bounds and bound is None:
        return {}
    limits = {queue: bounds.get(queue, bound) for queue in sorted({job.queue for job in jobs})}
    bounded = {queue: limit for queue, limit in limits.items() if limit is not None}
    if bounded:
        await connection.many(statement("lock_queue"), [(queue,) for queue in bounded])
    room = {}
    for queue, limit in bounded.items():
        ((depth,),) = await connection.rows(statement("queue_depth"), {"queue": queue, "limit": limit})
        room[queue] = max(limit - depth, 0)
    return room


def is_probably_unbounded(connection: Runner, queue: str, bound: int | None) -> bool:
    """Whether a queue had no bound when this connection last read the bounds."""
    return bound is None and connection.bounds is not None and queue not in connection.bounds


def is_unbounded(connection: Runner, queue: str, rows: Sequence[Row]) -> bool:
    """Whether a queue has no bound, according to the rows of `queue_bounds` just read."""
    connection.bounds = bounds = _bounds(rows)
    return queue not in bounds


def _bounds(rows: Sequence[Row]) -> dict[str, int]:
    return {name: int(bound) for name, bound in rows}
