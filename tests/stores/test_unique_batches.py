from __future__ import annotations

from rota.stores.unique_batches import unique_batches


def test_a_batch_without_doubles_is_one_round() -> None:
    assert list(unique_batches("abc", key=str)) == [[0, 1, 2]]


def test_what_comes_again_waits_for_the_next_round_in_its_order() -> None:
    assert list(unique_batches("abacaab", key=str)) == [[0, 1, 3], [2, 6], [4], [5]]


def test_nothing_needs_no_round() -> None:
    assert list(unique_batches("", key=str)) == []
