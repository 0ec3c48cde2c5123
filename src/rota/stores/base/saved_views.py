"""Saved views of the list of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.saved_view import SavedView
from rota.core.time import from_micros
from rota.stores.base.session import StoreSession


async def put_view(session: StoreSession, view: SavedView, now: int) -> bool:
    """Set or remove a view."""
    key = {"owner": view.owner, "name": view.name}
    if view.query is None:
        return await session.change("delete_view", **key) > 0
    await session.change("set_view", **key, query=view.query, saved_by=view.saved_by, saved_at=now)
    return True


async def views(session: StoreSession, owners: Sequence[str]) -> list[SavedView]:
    """Return the views of some owners, by owner and name."""
    return [
        SavedView(owner, name, query, saved_by, from_micros(saved_at))
        for one in sorted(set(owners))
        for owner, name, query, saved_by, saved_at in await session.select("views_of", owner=one)
    ]
