"""Named advisory locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rota.core.cluster import Lock
from rota.core.time import span_to_micros
from rota.stores.base.session import StoreSession
from rota.stores.rows import lock_of


async def lock(session: StoreSession, name: str, holder: str, lasting: timedelta, now: int) -> Lock | None:
    """Take or keep a lock if no other holder has it."""
    until = now + span_to_micros(lasting)
    if not await session.change("keep_lock", name=name, holder=holder, until=until):
        if await _held(session, name, now) is not None:
            return None
        await session.change("count_lock")
        await session.change("delete_lapsed_locks", now=now)
        # Another process may take it at this moment.
        await session.put("take_lock", name=name, holder=holder, until=until, now=now)
    held = await _held(session, name, now)
    return held if held is not None and held.holder == holder else None


async def unlock(session: StoreSession, name: str, holder: str | None, now: int) -> Lock | None:
    """Release a lock of a holder, or of any (None), and return it as it was."""
    rows = await session.select("lock_to_release", name=name, holder=holder)
    if not rows:
        return None
    await session.change("delete_lock", name=name)
    return lock_of(rows[0]) if rows[0][-1] > now else None


async def locks(session: StoreSession, now: int) -> Sequence[Lock]:
    """Return the locks that are held, by name."""
    return [lock_of(row) for row in await session.select("held_locks", now=now)]


async def _held(session: StoreSession, name: str, now: int) -> Lock | None:
    """Read a lock that some holder has."""
    rows = await session.select("lock_by_name", name=name)
    return lock_of(rows[0]) if rows and rows[0][-1] > now else None
