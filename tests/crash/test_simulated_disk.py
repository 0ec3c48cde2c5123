"""The simulated disk: which files may, must and cannot be left after a power cut."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from crash.simulated_disk import SECTOR, TEMPERS, Folder, Platter, Temper, Truncate, Write

DRAWS = 2000


def _page(mark: bytes, sectors: int = 8) -> bytes:
    return mark * (SECTOR * sectors)


def _drawn(platter: Platter, temper: Temper | None = None) -> Iterator[bytes]:
    rng = random.Random(1)
    for _ in range(DRAWS):
        yield platter.surviving(rng, temper)


def _sectors(content: bytes) -> list[bytes]:
    return [content[start : start + SECTOR] for start in range(0, len(content), SECTOR)]


def test_what_was_synced_is_always_there() -> None:
    platter = Platter(changes=[Write(0, _page(b"a")), Write(100, b"xyz"), Truncate(3000), Write(3000, b"end")])
    expected = platter.current()
    platter.sync()
    assert {*_drawn(platter)} == {expected}


@pytest.mark.parametrize("temper", TEMPERS)
def test_synced_sectors_that_nobody_touched_since_never_change(temper: Temper) -> None:
    platter = Platter(bytearray(_page(b"a", 20)), [Write(SECTOR * 4, _page(b"b")), Write(SECTOR * 6, _page(b"c"))])
    for content in _drawn(platter, temper):
        assert content[: SECTOR * 4] == _page(b"a", 4)
        assert content[SECTOR * 14 :] == _page(b"a", 6)


def test_an_unsynced_write_may_be_kept_lost_or_torn_between_sectors_but_not_within() -> None:
    platter = Platter(bytearray(_page(b"a")), [Write(0, _page(b"b"))])
    seen = set()
    for content in _drawn(platter):
        assert len(content) == SECTOR * 8
        assert all(sector in {_page(b"a", 1), _page(b"b", 1)} for sector in _sectors(content))
        seen.add(content.count(b"b") // SECTOR)
    assert seen == set(range(9))


def test_a_sector_is_as_it_was_after_some_of_its_writes_never_with_a_later_one_alone() -> None:
    platter = Platter(bytearray(b"." * SECTOR), [Write(0, b"a"), Write(1, b"b"), Write(2, b"c")])
    assert {content[:3] for content in _drawn(platter)} == {b"...", b"a..", b"ab.", b"abc"}


def test_a_later_write_may_survive_an_earlier_one_elsewhere() -> None:
    platter = Platter(bytearray(_page(b".", 2)), [Write(0, _page(b"a", 1)), Write(SECTOR, _page(b"b", 1))])
    seen = {(content[0:1], content[SECTOR : SECTOR + 1]) for content in _drawn(platter)}
    assert seen == {(b".", b"."), (b"a", b"."), (b".", b"b"), (b"a", b"b")}


def test_a_file_that_grew_may_have_any_of_its_lengths_and_anything_where_data_did_not_come_along() -> None:
    platter = Platter(bytearray(), [Write(0, _page(b"a", 2)), Write(SECTOR * 2, _page(b"b", 2))])
    lengths: set[int] = set()
    fresh: set[bytes] = set()
    for content in _drawn(platter):
        lengths.add(len(content))
        fresh.update(sector for sector in _sectors(content) if sector not in {_page(b"a", 1), _page(b"b", 1)})
    assert lengths == {0, SECTOR * 2, SECTOR * 4}
    assert bytes(SECTOR) in fresh
    assert len(fresh) > 10


def test_a_truncation_may_or_may_not_have_happened() -> None:
    platter = Platter(bytearray(_page(b"a", 4)), [Truncate(SECTOR)])
    assert {*_drawn(platter)} == {_page(b"a", 4), _page(b"a", 1)}


def test_what_a_truncation_cut_off_does_not_come_back_when_the_file_grows_again() -> None:
    platter = Platter(bytearray(_page(b"a", 4)), [Truncate(SECTOR), Write(SECTOR * 3, _page(b"b", 1))])
    seen = set()
    for content in _drawn(platter):
        second, last = content[SECTOR : SECTOR * 2], content[SECTOR * 3 :]
        if last.startswith(b"b"):
            assert second == bytes(SECTOR)
        if second.startswith(b"a"):
            assert last == _page(b"a", 1)
        seen.add((len(content), second[:1], last[:1]))
    assert {(SECTOR, b"", b""), (SECTOR * 4, b"a", b"a"), (SECTOR * 4, b"\0", b"b"), (SECTOR * 4, b"\0", b"\0")} <= seen


def test_the_tempers_are_what_they_are_called() -> None:
    platter = Platter(bytearray(_page(b"a", 1)), [Write(0, _page(b"b", 1)), Write(SECTOR, _page(b"c", 1))])
    assert {*_drawn(platter, Temper.LOSES_ALL)} == {_page(b"a", 1)}
    assert {*_drawn(platter, Temper.LOSES_NOTHING)} == {_page(b"b", 1) + _page(b"c", 1)}
    for content in _drawn(platter, Temper.LOSES_THE_END):
        assert content.startswith(b"b") or not content[SECTOR:].startswith(b"c")


def test_a_name_is_safe_only_when_its_folder_was_synced() -> None:
    folder, rng = Folder(), random.Random(1)
    platter = folder.create("a")
    platter.changes.append(Write(0, b"x"))
    platter.sync()
    assert {tuple(folder.surviving(rng)) for _ in range(100)} == {(), ("a",)}
    folder.sync()
    assert {tuple(folder.surviving(rng)) for _ in range(100)} == {("a",)}


def test_a_deleted_file_may_be_there_again_until_the_folder_is_synced() -> None:
    folder, rng = Folder.of({"a": b"old"}), random.Random(1)
    folder.delete("a")
    assert {folder.surviving(rng).get("a") for _ in range(100)} == {None, b"old"}
    folder.sync()
    assert {folder.surviving(rng).get("a") for _ in range(100)} == {None}


def test_a_name_that_was_used_again_stands_for_one_of_its_files() -> None:
    folder, rng = Folder.of({"a": b"old", "b": b"other"}), random.Random(1)
    folder.delete("a")
    fresh = folder.create("a")
    fresh.changes.append(Write(0, b"new"))
    fresh.sync()
    folder.delete("b")
    seen = {(left.get("a"), left.get("b")) for left in (folder.surviving(rng) for _ in range(500))}
    assert seen == {(a, b) for a in (b"old", None, b"new") for b in (b"other", None)}
