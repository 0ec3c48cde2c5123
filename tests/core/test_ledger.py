from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import NOW, unhurried
from rota.core.ledger import GENESIS, LedgerEntry

#: Text as it may arrive: with NUL, and with halves of characters that no encoding holds.
texts = st.text(st.characters(categories=["L", "Nd", "Cc", "Cs"]), max_size=8)
acts = st.builds(LedgerEntry, actor=texts, action=texts, target=texts, origin=texts, detail=texts)


def chain(entries: list[LedgerEntry]) -> list[LedgerEntry]:
    """Write entries down one after the other."""
    digest, written = GENESIS, []
    for number, entry in enumerate(entries, 1):
        written.append(entry.chained(number, NOW + timedelta(seconds=number), digest))
        digest = written[-1].digest
    return written


def is_whole(written: list[LedgerEntry]) -> bool:
    """Check a chain as an auditor does: what an entry says must give its digest, each bound to the one before."""
    follows = all(later.number == earlier.number + 1 for earlier, later in pairwise(written))
    digests = [GENESIS, *(entry.digest for entry in written)]
    return follows and all(
        entry.at is not None and entry.chained(entry.number, entry.at, before) == entry
        for entry, before in zip(written, digests, strict=False)
    )


@pytest.fixture
def written() -> list[LedgerEntry]:
    return chain([LedgerEntry("olga", f"act-{number}", "job 1", "10.0.0.1", "why") for number in range(6)])


def test_an_entry_keeps_what_it_says_and_gets_its_place() -> None:
    entry = LedgerEntry("olga", "cancel", "job 1", "10.0.0.1", "too slow").chained(7, NOW, GENESIS)
    assert (entry.actor, entry.action, entry.target, entry.origin, entry.detail) == (
        "olga", "cancel", "job 1", "10.0.0.1", "too slow",
    )  # fmt: skip
    assert (entry.number, entry.at) == (7, NOW)
    assert len(bytes.fromhex(entry.digest)) == 32


def test_an_untouched_chain_is_whole(written: list[LedgerEntry]) -> None:
    assert is_whole(written)
    assert len({entry.digest for entry in written}) == len(written)


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("field", ["actor", "action", "target", "origin", "detail", "digest"])
def test_a_changed_word_shows(written: list[LedgerEntry], place: int, field: str) -> None:
    change: dict[str, Any] = {field: "eve"}
    written[place] = replace(written[place], **change)
    assert not is_whole(written)


@pytest.mark.parametrize("place", range(6))
def test_a_changed_time_or_number_shows(written: list[LedgerEntry], place: int) -> None:
    moved = replace(written[place], at=NOW)
    renumbered = replace(written[place], number=written[place].number + 1)
    assert not is_whole([*written[:place], moved, *written[place + 1 :]])
    assert not is_whole([*written[:place], renumbered, *written[place + 1 :]])


@pytest.mark.parametrize("place", range(5))
def test_a_removed_an_inserted_and_an_exchanged_entry_show(written: list[LedgerEntry], place: int) -> None:
    assert not is_whole(written[:place] + written[place + 1 :])
    assert not is_whole([*written[: place + 1], written[place], *written[place + 1 :]])
    exchanged = [*written[:place], written[place + 1], written[place], *written[place + 2 :]]
    assert not is_whole(exchanged)


def test_a_rewritten_entry_with_a_fresh_digest_shows_in_the_next(written: list[LedgerEntry]) -> None:
    forged = replace(written[2], actor="eve").chained(3, written[2].at or NOW, written[1].digest)
    assert not is_whole([*written[:2], forged, *written[3:]])


@unhurried
@given(acts, acts)
def test_two_entries_have_one_digest_only_if_they_say_the_same(one: LedgerEntry, other: LedgerEntry) -> None:
    """Joined by NUL, 'a' + 'b, NUL, c' said the same as 'a, NUL, b' + 'c', and could be exchanged unseen."""
    assert (one.chained(1, NOW, "x").digest == other.chained(1, NOW, "x").digest) == (one == other)


AMBIGUOUS = [
    (LedgerEntry("a", "b\0c", "d"), LedgerEntry("a\0b", "c", "d")),
    (LedgerEntry("a", "b", "c\0"), LedgerEntry("a", "b", "c", "\0")),
    (LedgerEntry("\ud800", "b", "c"), LedgerEntry("?", "b", "c")),
    (LedgerEntry("\ud800", "b", "c"), LedgerEntry("\udfff", "b", "c")),
]


@pytest.mark.parametrize(("one", "other"), AMBIGUOUS)
def test_no_byte_can_be_moved_from_one_word_to_the_next(one: LedgerEntry, other: LedgerEntry) -> None:
    assert one.chained(1, NOW, GENESIS).digest != other.chained(1, NOW, GENESIS).digest


@unhurried
@given(st.lists(acts, min_size=1, max_size=5))
def test_any_chain_of_any_text_is_whole(entries: list[LedgerEntry]) -> None:
    assert is_whole(chain(entries))
