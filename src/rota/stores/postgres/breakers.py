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
from rota.stores.postgres.session import Session, numbers


async def breakers(session: Session, names: Sequence[str] | None, after: str, limit: int) -> list[CircuitBreaker]:
    """Return breakers by name, or a page of all."""
    if names is not None:
        return [breaker_of(row) for row in await session.rows("breakers_by_name", list(names))]
    return [breaker_of(row) for row in await session.rows("breakers_after", after, limit)]


async def put_breaker(session: Session, breaker: CircuitBreaker, now: int) -> bool:
    """Store a breaker that still has the version it was read with, and the limits of its jobs while it is open."""
    verb = "update_breaker" if breaker.version else "insert_breaker"
    if not await session.run(verb, *breaker_row(breaker).values()):
        return False
    name = breaker_limit(breaker.name)
    if breaker.is_open:
        await session.run("save_breaker_limit", *open_limit_row(breaker).values(), now)
    else:
        await session.run("delete_limit", name)
    await session.run("delete_calls", name)
    await _mark_tasks(session, breaker, now)
    return True


async def _mark_tasks(session: Session, breaker: CircuitBreaker, now: int) -> None:
    limits = task_limits(breaker)
    marked = [name for (name,) in await session.rows("limits_of_breaker", breaker.name)]
    for name in sorted({*limits, *marked}):
        if name in limits:
            await session.run("add_breaker", name, now, breaker.name)
        else:
            await session.run("remove_breaker", name)
            await session.run("delete_empty_limit", name)


async def count_calls(session: Session, source: str, counts: Sequence[CallCount], now: int) -> list[CallCount]:
    """Add to the calls that a process has counted, and return those of all processes."""
    rows = count_rows(source, counts, now)
    if rows:
        names, slots, sources, calls_, failures = zip(*rows, strict=True)
        await session.run("add_calls", list(names), numbers(slots), list(sources), numbers(calls_), numbers(failures))
    return await calls(session, counts, now)


async def calls(session: Session, counts: Sequence[CallCount], now: int) -> list[CallCount]:
    """Return the calls of all processes in the windows of some counts."""
    first = min((one.first_slot(now) for one in counts), default=now)
    return summed(counts, await session.rows("calls_since", [one.name for one in counts], first), now)


async def delete_old(session: Session, now: int) -> None:
    """Delete calls that no window covers any more, and breakers that nothing uses."""
    await session.run("delete_old_calls", now - 2 * span_to_micros(LONGEST_WINDOW))
    await session.run("delete_old_breakers", now - span_to_micros(KEEP_UNDEFINED))
