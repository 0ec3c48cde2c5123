"""Named advisory locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rota.core.cluster import Lock
from rota.core.time import span_to_micros
from rota.stores.rows import lock_of
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def lock(connection: SqliteConnection, name: str, holder: str, lasting: timedelta, now: int) -> Lock | None:
    """Take or keep a lock if no other holder has it."""
    parameters = {"name": name, "holder": holder, "until": now + span_to_micros(lasting), "now": now}
    if not connection.run(statement("keep_lock"), parameters):
        if _held(connection, name, now) is not None:
            return None
        connection.run(statement("delete_lapsed_locks"), parameters)
        connection.run(statement("count_lock"))
        connection.run(statement("take_lock"), parameters)
    return _held(connection, name, now)


def unlock(connection: SqliteConnection, name: str, holder: str | None, now: int) -> Lock | None:
    """Release a lock of a holder, or of any (None), and return it as it was."""
    was = _held(connection, name, now)
    is_released = connection.run(statement("delete_lock"), {"name": name, "holder": holder})
    return was if is_released else None


def locks(connection: SqliteConnection, now: int) -> Sequence[Lock]:
    """Return the locks that are held, by name."""
    return [lock_of(row) for row in connection.rows(statement("held_locks"), {"now": now})]


def _held(connection: SqliteConnection, name: str, now: int) -> Lock | None:
    """Read a lock that some holder has."""
    rows = connection.rows(statement("lock_by_name"), {"name": name})
    return lock_of(rows[0]) if rows and rows[0][-1] > now else None
