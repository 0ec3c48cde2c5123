"""Named advisory locks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from rota.core.cluster import Lock
from rota.core.time import span_to_micros
from rota.stores.mysql.driver import ConstraintViolated, MysqlConnection
from rota.stores.mysql.statements import statement
from rota.stores.rows import lock_of


async def lock(connection: MysqlConnection, name: str, holder: str, lasting: timedelta, now: int) -> Lock | None:
    """Take or keep a lock if no other holder has it."""
    parameters = {"name": name, "holder": holder, "until": now + span_to_micros(lasting), "now": now}
    if not await connection.run(statement("keep_lock"), parameters):
        if await _held(connection, name, now) is not None:
            return None
        await connection.run(statement("count_lock"))
        await connection.run(statement("delete_lapsed_locks"), parameters)
        # A duplicate means that another process took it at this moment.
        with suppress(ConstraintViolated):
            await connection.run(statement("take_lock"), parameters)
    held = await _held(connection, name, now)
    return held if held is not None and held.holder == holder else None


async def unlock(connection: MysqlConnection, name: str, holder: str | None, now: int) -> Lock | None:
    """Release a lock of a holder, or of any (None), and return it as it was."""
    was = await _held(connection, name, now)
    is_released = await connection.run(statement("delete_lock"), {"name": name, "holder": holder})
    return was if is_released else None


async def locks(connection: MysqlConnection, now: int) -> Sequence[Lock]:
    """Return the locks that are held, by name."""
    return [lock_of(row) for row in await connection.rows(statement("held_locks"), {"now": now})]


async def _held(connection: MysqlConnection, name: str, now: int) -> Lock | None:
    """Read a lock that some holder has."""
    rows = await connection.rows(statement("lock_by_name"), {"name": name})
    return lock_of(rows[0]) if rows and rows[0][-1] > now else None
