"""The board: claims stand there at places of their own, and what is torn, old, another's or for others is not seen."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.stores.sqlite import board
from rota.stores.sqlite.board import PLACE_BYTES, PLACES, Board, Brought, OpenClaim, board_of, steady_micros


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def put(found: Board, name: str = "claim", since: int = 0, until: int = 60_000_000, **fields: Any) -> int | None:  # noqa: ANN401
    """Put a claim up that waits since and until so many microseconds from now, and say at which place."""
    now = steady_micros()
    made = OpenClaim(name, "w", "b", 1, "\0nobody", found.file, ("default",), ("mail",))
    notice = found.put_up(msgspec.structs.replace(made, **fields), now + since, now + until)
    return None if notice is None else notice.place


@pytest.fixture
def empty_board(path: Path) -> Iterator[Board]:
    path.touch(0o640)
    found = Board.open(str(path))
    assert found is not None
    yield found
    found.close()


def names(found: Board) -> list[str]:
    return [notice.claim.claim_id for notice in found.waiting("default", "mail")]


def test_a_board_has_room_for_so_many(empty_board: Board) -> None:
    places = [put(empty_board, str(number)) for number in range(PLACES)]
    assert places == list(range(PLACES))
    assert put(empty_board, "one too many") is None
    assert names(empty_board) == [str(number) for number in range(PLACES)]
    empty_board.take_off_named("5")
    assert put(empty_board, "another") == 5


def test_who_has_waited_longest_is_first_wherever_it_stands(empty_board: Board) -> None:
    for age in (200, 300, 100):
        put(empty_board, f"{age}", since=-age * 1000)
    assert names(empty_board) == ["300", "200", "100"]


def test_what_is_too_long_for_a_place_is_not_put_up(empty_board: Board) -> None:
    assert put(empty_board, "n" * PLACE_BYTES) is None
    assert put(empty_board, "n" * (PLACE_BYTES - 200)) == 0
    assert names(empty_board) == ["n" * (PLACE_BYTES - 200)]


@pytest.mark.parametrize("off", [{"until": 0}, {"since": 3_600_000_000}], ids=["past", "restarted"])
def test_what_is_past_its_time_or_of_another_life_of_the_host_makes_room(
    empty_board: Board, off: dict[str, int]
) -> None:
    put(empty_board, "old", **off)
    assert not names(empty_board)
    assert put(empty_board, "new") == 0


def test_what_is_for_another_database_is_not_seen(empty_board: Board) -> None:
    """A board that was copied along, or left behind by a database that was replaced."""
    put(empty_board, file=(1, 2, 3))
    assert not names(empty_board)


def test_what_was_taken_off_or_replaced_meanwhile_is_left_alone(empty_board: Board) -> None:
    put(empty_board, "first")
    (first,) = empty_board.waiting("default", "mail")
    empty_board.take_off(first.place, first.mark)
    put(empty_board, "second")
    empty_board.take_off(first.place, first.mark)
    assert not empty_board.put_answer(first, Brought("first", 0, None))
    assert names(empty_board) == ["second"]


def test_an_answer_is_for_its_claim_and_once(empty_board: Board) -> None:
    put(empty_board)
    (notice,) = empty_board.waiting("default", "mail")
    assert empty_board.answer_to(notice) is None
    assert empty_board.put_answer(notice, Brought("claim", 7, None))
    assert not names(empty_board)
    another = notice._replace(claim=msgspec.structs.replace(notice.claim, claim_id="another"), mark=1)
    assert empty_board.answer_to(another) is None
    empty_board.clear(another)
    assert empty_board.answer_to(notice) == Brought("claim", 7, None)
    empty_board.clear(notice)
    assert empty_board.answer_to(notice) is None
    assert not empty_board.marks()


@pytest.mark.parametrize("at", [4096, 4116, 4130])
def test_what_is_torn_is_no_claim(empty_board: Board, at: int) -> None:
    put(empty_board)
    os.pwrite(empty_board._descriptor, b"\xff\xff", at)
    assert not names(empty_board)


def test_what_was_cut_off_is_no_claim(empty_board: Board) -> None:
    put(empty_board)
    for length in (4097, 300, 100, 0):
        os.ftruncate(empty_board._descriptor, length)
        assert not names(empty_board)
    assert put(empty_board) == 0
    assert names(empty_board) == ["claim"]


@pytest.mark.parametrize(("mode", "expected"), [(0o644, 0o600), (0o664, 0o660), (0o666, 0o666), (0o600, 0o600)])
def test_only_who_may_write_to_the_database_may_know_what_is_on_its_board(path: Path, mode: int, expected: int) -> None:
    path.touch()
    path.chmod(mode)
    for _ in range(2):
        found = Board.open(str(path))
        assert found is not None
        found.close()
        assert stat.S_IMODE(Path(board_of(str(path))).stat().st_mode) == expected


def stat_of(mode: int, user: int, group: int) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, user, group, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("of_board", "of_file", "expected"),
    [
        (stat_of(0o600, 7, 7), stat_of(0o600, 7, 7), True),
        (stat_of(0o660, 7, 8), stat_of(0o660, 7, 8), True),
        (stat_of(0o600, 7, 9), stat_of(0o660, 7, 8), True),
        (stat_of(0o660, 0, 8), stat_of(0o660, 7, 8), True),
        (stat_of(0o660, 7, 9), stat_of(0o660, 7, 8), False),
        (stat_of(0o600, 9, 7), stat_of(0o666, 7, 7), False),
        (stat_of(0o660, 7, 7), stat_of(0o640, 7, 7), False),
        (stat_of(0o604, 7, 7), stat_of(0o604, 7, 7), False),
    ],
)
def test_a_board_that_is_anothers_or_lets_others_in_is_not_used(
    of_board: os.stat_result, of_file: os.stat_result, *, expected: bool
) -> None:
    assert board._is_for_writers(of_board, of_file) is expected
