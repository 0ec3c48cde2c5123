from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from builders import BASE, at, entry
from rota.core.ledger import GENESIS, LedgerEntry
from rota.core.queue import Queue
from rota.ports.store import Store


def breaks(entries: Sequence[LedgerEntry], previous: str = GENESIS) -> list[int]:
    """Walk the chain, oldest first, and name the entries that do not fit the one before them."""
    found = []
    for each in entries:
        assert each.at is not None
        if each.chained(each.number, each.at, previous).digest != each.digest:
            found.append(each.number)
        previous = each.digest
    return found


async def oldest_first(store: Store) -> list[LedgerEntry]:
    return list(await store.ledger(limit=1_000))[::-1]


async def test_an_entry_is_kept_as_it_was_told_with_its_moment(store: Store) -> None:
    await store.record([entry("retry", "job 1")], now=at(3))
    (written,) = await store.ledger()
    assert replace(written, number=0, digest="") == replace(entry("retry", "job 1"), at=at(3))


async def test_entries_are_numbered_without_gaps(store: Store) -> None:
    for second in range(4):
        await store.record([entry(), entry()], now=at(second))
    numbers = [written.number for written in await oldest_first(store)]
    assert numbers == list(range(numbers[0], numbers[0] + 8))


async def test_each_entry_is_bound_to_the_one_before_it(store: Store) -> None:
    for second in range(4):
        await store.record([entry(f"act {second}"), entry("other")], now=at(second))
    assert breaks(await oldest_first(store)) == []


async def test_entries_written_with_other_verbs_are_links_of_the_same_chain(store: Store) -> None:
    await store.record([entry("first")], now=BASE)
    await store.put_queue(Queue("q"), entry=entry("second"), now=at(1))
    await store.record([entry("third")], now=at(2))
    chain = await oldest_first(store)
    assert [written.action for written in chain] == ["first", "second", "third"]
    assert breaks(chain) == []


async def test_concurrent_entries_make_one_chain(store: Store) -> None:
    await asyncio.gather(*(store.record([entry(f"act {number}")], now=BASE) for number in range(30)))
    chain = await oldest_first(store)
    assert len(chain) == 30
    assert breaks(chain) == []


@pytest.mark.parametrize("field", ["actor", "action", "target", "origin", "detail"])
async def test_a_changed_entry_breaks_the_chain(store: Store, field: str) -> None:
    forged: dict[str, Any] = {field: "forged"}
    await store.record([entry(f"act {number}") for number in range(5)], now=BASE)
    chain = await oldest_first(store)
    chain[2] = replace(chain[2], **forged)
    assert breaks(chain) == [chain[2].number]


async def test_a_removed_entry_breaks_the_chain(store: Store) -> None:
    await store.record([entry(f"act {number}") for number in range(5)], now=BASE)
    chain = await oldest_first(store)
    del chain[2]
    assert breaks(chain) == [chain[2].number]


async def test_entries_come_newest_first(store: Store) -> None:
    await store.record([entry(f"act {number}") for number in range(5)], now=BASE)
    assert [written.action for written in await store.ledger(limit=2)] == ["act 4", "act 3"]


async def test_the_ledger_can_be_read_page_by_page(store: Store) -> None:
    await store.record([entry(f"act {number}") for number in range(5)], now=BASE)
    read: list[LedgerEntry] = []
    while page := await store.ledger(before=read[-1].number if read else None, limit=2):
        read.extend(page)
        await store.record([entry("meanwhile")], now=BASE)
    assert [written.action for written in read] == ["act 4", "act 3", "act 2", "act 1", "act 0"]


async def test_words_of_any_kind_are_kept_and_bound(store: Store) -> None:
    odd = LedgerEntry("ol\u00f6ga", "'; DROP TABLE rota_ledger --", "\u4e2d\u6587 \U0001f600", "nul\0nul", "\n" * 1_000)
    await store.record([odd], now=BASE)
    (written,) = await store.ledger()
    assert (written.actor, written.action, written.target) == (odd.actor, odd.action, odd.target)
    assert (written.origin, written.detail) == (odd.origin, odd.detail)
    assert breaks([written]) == []


async def test_an_empty_list_of_entries_writes_nothing(store: Store) -> None:
    await store.record([], now=BASE)
    assert await store.ledger() == []
