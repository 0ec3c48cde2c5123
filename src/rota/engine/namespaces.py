"""Namespace verbs over the default store's list: create, read, set limits, delete. The tables are made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from rota.core.errors import IllegalTransition, NamespaceNotFound
from rota.core.ledger import LedgerEntry
from rota.core.namespace import MOST_NAMESPACES, Namespace, NamespaceLimits, check_name
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor

_MOST_TRIES: Final = 5


class Namespaces:
    """Create, read, set limits, delete."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def all(self) -> Sequence[Namespace]:
        """Return all namespaces that are not deleted, by name."""
        return [one for one in await self._deps.store.namespaces() if one.is_live]

    async def one(self, name: str) -> Namespace:
        for namespace in await self.all():
            if namespace.name == name:
                return namespace
        raise unknown_namespace(name)

    async def create(self, name: str, limits: NamespaceLimits, by: Actor) -> Namespace:
        """List a new namespace. A name can be used again once the tables of the former namespace are dropped."""
        check_name(name)
        known = {one.name: one for one in await self._deps.store.namespaces()}
        former = known.get(name)
        if former is not None and former.is_live:
            raise IllegalTransition(f"namespace {name!r}: it exists already; choose another name")
        if former is not None and former.dropped_at is None:
            raise IllegalTransition(f"namespace {name!r}: it is being deleted; try again in a minute")
        if sum(one.dropped_at is None for one in known.values()) >= MOST_NAMESPACES:
            raise IllegalTransition(f"namespace {name!r}: there are {MOST_NAMESPACES} already; delete one first")
        version = 0 if former is None else former.version
        namespace = Namespace(name, await self._deps.store.time(), limits, version=version)
        if not await self._put(namespace, "create", by):
            raise IllegalTransition(f"namespace {name!r}: it was created at the same moment")
        return replace(namespace, version=version + 1)

    async def set_limits(self, name: str, limits: NamespaceLimits, by: Actor) -> Namespace:
        """Replace all limits of a namespace."""
        return await self._change(name, "set_limits", lambda one: replace(one, limits=limits), by)

    async def delete(self, name: str, by: Actor) -> Namespace:
        """Mark a namespace as deleted, so that it is not found; a scheduler drops its tables some seconds later."""
        now = await self._deps.store.time()
        return await self._change(name, "delete", lambda one: replace(one, deleted_at=now), by)

    async def take_back(self, namespace: Namespace) -> None:
        """Remove a namespace whose tables could not be made from the list again."""
        now = await self._deps.store.time()
        await self._deps.store.put_namespace(replace(namespace, deleted_at=now, dropped_at=now))

    async def note_dropped(self, namespace: Namespace) -> bool:
        """Note that the tables of a deleted namespace are gone; False if another process did."""
        return await self._deps.store.put_namespace(replace(namespace, dropped_at=await self._deps.store.time()))

    async def _change(self, name: str, action: str, change: Callable[[Namespace], Namespace], by: Actor) -> Namespace:
        for _ in range(_MOST_TRIES):
            namespace = change(await self.one(name))
            if await self._put(namespace, action, by):
                return namespace
        raise IllegalTransition(f"namespace {name[:60]!r}: keeps changing; try again")

    async def _put(self, namespace: Namespace, action: str, by: Actor) -> bool:
        limits = ", ".join(f"{name} {limit}" for name, limit in namespace.limits.given.items())
        entry = LedgerEntry(by.name, f"namespaces.{action}", namespace.name, by.origin, limits, surface=by.surface)
        return await self._deps.store.put_namespace(namespace, entry=entry)


def unknown_namespace(name: str) -> NamespaceNotFound:
    return NamespaceNotFound(f"namespace {name[:60]!r}: unknown", field="namespace")
