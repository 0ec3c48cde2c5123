"""Circuit breakers, the limits under which their jobs wait while they are open, and counted calls.

Each process counts in rows of its own, so that counting waits for no other process. A change of state writes limits in
the order of their names; claims lock them without waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.breaker import KEEP_UNDEFINED, LONGEST_WINDOW, CallCount, CircuitBreaker
from rota.core.limit import breaker_limit
from rota.core.time import span_to_micros
from rota.stores.breaker_rows import breaker_of, breaker_row, count_rows, open_limit_row, summed, task_limits
from rota.stores.mysql.driver import MysqlConnection, chunks
from rota.stores.mysql.errors import ConstraintViolated
from rota.stores.mysql.statements import statement


async def breakers(
    connection: MysqlConnection, names: Sequence[str] | None, after: str, limit: int
) -> list[CircuitBreaker]:
    """Return breakers by name, or a page of all."""
    if names is None:
        rows = await connection.rows(statement("breakers_after"), {"after": after, "limit": limit})
        return list(map(breaker_of, rows))
    stored: list[CircuitBreaker] = []
    for chunk in chunks(sorted(names)):
        stored += map(breaker_of, await connection.rows(statement("breakers_by_name"), {"names": chunk}))
    return stored


async def put_breaker(connection: MysqlConnection, breaker: CircuitBreaker, now: int) -> bool:
    """Store a breaker that still has the version it was read with, and the limits of its jobs while it is open."""
    verb = "update_breaker" if breaker.version else "insert_breaker"
    try:
        if not await connection.run(statement(verb), breaker_row(breaker)):
            return False
    except ConstraintViolated:
        return False
    name = breaker_limit(breaker.name)
    if breaker.is_open:
        await connection.run(statement("save_breaker_limit"), {**open_limit_row(breaker), "now": now})
    else:
        await connection.run(statement("delete_limit"), {"name": name})
    await connection.run(statement("delete_calls"), {"name": name})
    await _mark_tasks(connection, breaker, now)
    connection.has_made_work = True
    return True


async def _mark_tasks(connection: MysqlConnection, breaker: CircuitBreaker, now: int) -> None:
    limits = task_limits(breaker)
    marked = [name for (name,) in await connection.rows(statement("limits_of_breaker"), {"breaker": breaker.name})]
    for name in sorted({*limits, *marked}):
        if name in limits:
            await connection.run(statement("add_breaker"), {"name": name, "now": now, "breaker": breaker.name})
        else:
            await connection.run(statement("remove_breaker"), {"name": name})
            await connection.run(statement("delete_empty_limit"), {"name": name})


async def count_calls(
    connection: MysqlConnection, source: str, counts: Sequence[CallCount], now: int
) -> list[CallCount]:
    """Add to the calls that a process has counted, and return those of all processes."""
    rows = count_rows(source, counts, now)
    if rows:
        await connection.many(statement("add_calls"), rows)
    return await calls(connection, counts, now)


async def calls(connection: MysqlConnection, counts: Sequence[CallCount], now: int) -> list[CallCount]:
    """Return the calls of all processes in the windows of some counts."""
    if not counts:
        return []
    first = min(one.first_slot(now) for one in counts)
    parameters = {"names": tuple(one.name for one in counts), "first": first}
    return summed(counts, await connection.rows(statement("calls_since"), parameters), now)


async def delete_old(connection: MysqlConnection, now: int) -> None:
    """Delete calls that no window covers any more, and breakers that nothing uses."""
    await connection.run(statement("delete_old_calls"), {"before": now - 2 * span_to_micros(LONGEST_WINDOW)})
    await connection.run(statement("delete_old_breakers"), {"before": now - span_to_micros(KEEP_UNDEFINED)})
