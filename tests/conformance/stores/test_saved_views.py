from __future__ import annotations

from dataclasses import replace

from builders import BASE, at, entry
from rota.core.saved_view import SHARED, SavedView
from rota.ports.store import Store

OURS = SavedView("ann", "late \U0001f41f", "q=late%3A%3E30s&columns=queue", "ann")
SHARED_VIEW = SavedView(SHARED, "late", "status=dead", "bob")


async def test_views_are_given_to_their_owners_only_by_name(store: Store) -> None:
    assert await store.put_view(OURS, now=BASE)
    assert await store.put_view(replace(OURS, name="a"), now=at(1))
    assert await store.put_view(SHARED_VIEW, now=BASE)
    assert await store.put_view(replace(OURS, owner="eve"), now=BASE)
    assert list(await store.views(["ann", SHARED])) == [
        replace(SHARED_VIEW, saved_at=BASE),
        replace(OURS, name="a", saved_at=at(1)),
        replace(OURS, saved_at=BASE),
    ]
    assert list(await store.views(["nobody"])) == []


async def test_the_last_view_of_a_name_counts(store: Store) -> None:
    await store.put_view(OURS, entry=entry("save"), now=BASE)
    await store.put_view(replace(OURS, query="type=mail"), entry=entry("save"), now=at(5))
    assert [(one.query, one.saved_at) for one in await store.views(["ann"])] == [("type=mail", at(5))]
    assert [one.action for one in await store.ledger()] == ["save", "save"]


async def test_a_view_is_removed_once_and_from_its_owner_only(store: Store) -> None:
    await store.put_view(OURS)
    assert not await store.put_view(SavedView("eve", OURS.name), entry=entry("other"))
    assert not await store.put_view(SavedView(SHARED, OURS.name), entry=entry("other"))
    assert await store.put_view(SavedView("ann", OURS.name), entry=entry("remove"))
    assert not await store.put_view(SavedView("ann", OURS.name), entry=entry("again"))
    assert list(await store.views(["ann", "eve", SHARED])) == []
    assert [one.action for one in await store.ledger()] == ["remove"]
