"""Circuit breakers, the limits under which their jobs wait while they are open, and counted calls."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rota.core.breaker import KEEP_UNDEFINED, LONGEST_WINDOW, CallCount, CircuitBreaker
from rota.core.limit import breaker_limit
from rota.core.time import span_to_micros
from rota.stores.breaker_rows import breaker_of, breaker_row, count_rows, open_limit_row, summed, task_limits
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def breakers(connection: SqliteConnection, names: Sequence[str] | None, after: str, limit: int) -> list[CircuitBreaker]:
    """Return breakers by name, or a page of all."""
    if names is not None:
        rows = connection.rows(statement("breakers_by_name"), (json.dumps(names),))
    else:
        rows = connection.rows(statement("breakers_after"), (after, limit))
    return list(map(breaker_of, rows))


def put_breaker(connection: SqliteConnection, breaker: CircuitBreaker, now: int) -> bool:
    """Store a breaker that has still the version that was read, and the limits of its jobs while it is open."""
    verb = "update_breaker" if breaker.version else "insert_breaker"
    if not connection.run(statement(verb), breaker_row(breaker)):
        return False
    name = breaker_limit(breaker.name)
    if breaker.is_open:
        connection.run(statement("save_breaker_limit"), {**open_limit_row(breaker), "now": now})
    else:
        connection.run(statement("delete_limit"), (name,))
    connection.run(statement("delete_calls"), (name,))
    _mark_tasks(connection, breaker, now)
    connection.has_made_work = True
    return True


def _mark_tasks(connection: SqliteConnection, breaker: CircuitBreaker, now: int) -> None:
    limits = task_limits(breaker)
    for (name,) in connection.rows(statement("limits_of_breaker"), (breaker.name,)):
        if name not in limits:
            connection.run(statement("remove_breaker"), (name,))
            connection.run(statement("delete_empty_limit"), (name,))
    for name in limits:
        connection.run(statement("add_breaker"), {"name": name, "now": now, "breaker": breaker.name})


def count_calls(connection: SqliteConnection, source: str, counts: Sequence[CallCount], now: int) -> list[CallCount]:
    """Add to the calls that a process has counted, and return those of all processes."""
    connection.many(statement("add_calls"), count_rows(source, counts, now))
    return calls(connection, counts, now)


def calls(connection: SqliteConnection, counts: Sequence[CallCount], now: int) -> list[CallCount]:
    """Return the calls of all processes in the windows of some counts."""
    names = json.dumps([one.name for one in counts])
    first = min((one.first_slot(now) for one in counts), default=now)
    return summed(counts, connection.rows(statement("calls_since"), (names, first)), now)


def delete_old(connection: SqliteConnection, now: int) -> None:
    """Delete calls that no window covers any more, and breakers that nothing uses."""
    connection.run(statement("delete_old_calls"), (now - 2 * span_to_micros(LONGEST_WINDOW),))
    connection.run(statement("delete_old_breakers"), (now - span_to_micros(KEEP_UNDEFINED),))
