from __future__ import annotations

from dataclasses import replace

from builders import BASE, HOUR, at, entry
from rota.core.queue import Queue
from rota.ports.store import Store

FULL = Queue("q", BASE, "deploy", BASE + HOUR, max_depth=100, max_running=4, rate_limit="10/s")


async def test_a_queue_nobody_set_anything_for_has_no_settings(store: Store) -> None:
    assert await store.queues() == []


async def test_settings_are_kept_as_they_were_given_one_version_later(store: Store) -> None:
    assert await store.put_queue(FULL, now=BASE)
    assert await store.queues() == [replace(FULL, version=1)]


async def test_settings_are_replaced_while_their_version_holds(store: Store) -> None:
    await store.put_queue(FULL, now=BASE)
    assert await store.put_queue(Queue("q", max_depth=5, version=1), now=at(1))
    assert await store.queues() == [Queue("q", max_depth=5, version=2)]


async def test_settings_that_were_changed_meanwhile_are_not_overwritten(store: Store) -> None:
    await store.put_queue(FULL, now=BASE)
    await store.put_queue(replace(FULL, version=1), now=BASE)
    assert not await store.put_queue(Queue("q", version=1), now=BASE)
    assert await store.queues() == [replace(FULL, version=2)]


async def test_settings_cannot_be_made_twice(store: Store) -> None:
    await store.put_queue(FULL, now=BASE)
    assert not await store.put_queue(Queue("q"), now=BASE)


async def test_settings_that_do_not_exist_cannot_be_replaced(store: Store) -> None:
    assert not await store.put_queue(Queue("q", version=3), now=BASE)
    assert await store.queues() == []


async def test_queues_come_by_name(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.put_queue(Queue(name), now=BASE)
    assert [queue.name for queue in await store.queues()] == ["a", "b", "c"]


async def test_an_entry_is_written_with_the_settings(store: Store) -> None:
    await store.put_queue(FULL, entry=entry("pause", "q"), now=BASE)
    assert [(written.action, written.target) for written in await store.ledger()] == [("pause", "q")]


async def test_no_entry_is_written_when_the_settings_were_not(store: Store) -> None:
    await store.put_queue(replace(FULL, version=3), entry=entry("pause"), now=BASE)
    assert await store.ledger() == []
