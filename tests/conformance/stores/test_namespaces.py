from __future__ import annotations

from dataclasses import replace

from builders import BASE, DAY, HOUR, entry
from rota.core.namespace import Namespace, NamespaceLimits
from rota.ports.store import Store

FULL = Namespace("acme", BASE, NamespaceLimits(5, 6, 7), BASE + HOUR, BASE + DAY)
PLAIN = Namespace("zeta-2", BASE)


async def test_namespaces_are_kept_as_they_were_given(store: Store) -> None:
    assert await store.put_namespace(PLAIN)
    assert await store.put_namespace(FULL)
    assert list(await store.namespaces()) == [replace(FULL, version=1), replace(PLAIN, version=1)]


async def test_of_two_changes_of_a_namespace_the_first_counts(store: Store) -> None:
    assert await store.put_namespace(PLAIN, entry=entry("create"))
    assert not await store.put_namespace(replace(PLAIN, deleted_at=BASE))
    (known,) = await store.namespaces()
    assert await store.put_namespace(replace(known, limits=NamespaceLimits(1)), entry=entry("change"))
    assert not await store.put_namespace(replace(known, limits=NamespaceLimits(2)), entry=entry("lost"))
    assert [one.limits.jobs_waiting for one in await store.namespaces()] == [1]
    assert [one.action for one in await store.ledger()] == ["change", "create"]
