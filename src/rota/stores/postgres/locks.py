"""Named advisory locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rota.core.cluster import Lock
from rota.core.time import span_to_micros
from rota.stores.postgres.session import Session
from rota.stores.rows import lock_of


async def lock(session: Session, name: str, holder: str, lasting: timedelta, now: int) -> Lock | None:
    """Take or keep a lock if no other holder has it."""
    until = now + span_to_micros(lasting)
    if not await session.run("keep_lock", name, holder, until):
        if await _held(session, name, now) is not None:
            return None
        await session.run("count_lock")
        await session.run("delete_lapsed_locks", now)
        await session.run("take_lock", name, holder, until, now)
    held = await _held(session, name, now)
    return held if held is not None and held.holder == holder else None


async def unlock(session: Session, name: str, holder: str | None, now: int) -> Lock | None:
    """Release a lock of a holder, or of any (None), and return it as it was."""
    rows = await session.rows("delete_lock", name, holder)
    return lock_of(rows[0]) if rows and rows[0][-1] > now else None


async def locks(session: Session, now: int) -> Sequence[Lock]:
    """Return the locks that are held, by name."""
    return [lock_of(row) for row in await session.rows("held_locks", now)]


async def _held(session: Session, name: str, now: int) -> Lock | None:
    """Read a lock that some holder has."""
    rows = await session.rows("lock_by_name", name)
    return lock_of(rows[0]) if rows and rows[0][-1] > now else None
