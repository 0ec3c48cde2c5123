"""Saved-view verbs: list, save and remove views of the list of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.errors import IllegalTransition
from rota.core.ledger import LedgerEntry
from rota.core.saved_view import MOST_VIEWS, SHARED, SavedView
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.telemetry.events import Acted


class SavedViews:
    """List, save, remove. Changes of shared views are in the ledger; changes of private ones are not."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def visible_to(self, owner: str) -> Sequence[SavedView]:
        """Return the shared views, and then those of an owner, each by name."""
        return await self._deps.store.views((SHARED, owner))

    async def save(self, view: SavedView, by: Actor) -> SavedView:
        """Save a view under its name, in place of one that its owner has under this name."""
        names = {one.name for one in await self._deps.store.views((view.owner,))} - {view.name}
        if len(names) >= MOST_VIEWS:
            raise IllegalTransition(f"view {view.name!r}: there are {MOST_VIEWS} already; remove one first")
        await self._put(view, "views.save", by)
        return next(one for one in await self._deps.store.views((view.owner,)) if one.name == view.name)

    async def remove(self, owner: str, name: str, by: Actor) -> bool:
        """Remove a view; return whether there was one."""
        return await self._put(SavedView(owner, name), "views.remove", by)

    async def _put(self, view: SavedView, action: str, by: Actor) -> bool:
        if view.owner != SHARED:
            return await self._deps.store.put_view(view)
        entry = LedgerEntry(by.name, action, view.name, by.origin, view.query or "", surface=by.surface)
        is_changed = await self._deps.store.put_view(view, entry=entry)
        if is_changed:
            self._deps.telemetry.emit(Acted(entry))
        return is_changed
