from __future__ import annotations

from rota.stores.rounds import rounds


def test_a_batch_without_doubles_is_one_round() -> None:
    assert list(rounds("abc", key=str)) == [[0, 1, 2]]


def test_what_comes_again_waits_for_the_next_round_in_its_order() -> None:
    assert list(rounds("abacaab", key=str)) == [[0, 1, 3], [2, 6], [4], [5]]


def test_nothing_needs_no_round() -> None:
    assert list(rounds("", key=str)) == []
