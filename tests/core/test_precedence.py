"""Who goes first: as many as should, all in their turn; who knows nothing goes at once, and nobody waits for long."""

from __future__ import annotations

import pytest

from rota.core.precedence import HEAD_START_SECONDS, LONGEST_SECONDS, Draw, Rank, seconds_behind


@pytest.mark.parametrize("of", [1, 2, 3, 50])
@pytest.mark.parametrize("first", [0, 7, -3, 2**63])
def test_of_those_who_agree_on_their_ranks_each_goes_first_in_its_turn(of: int, first: int) -> None:
    at_once = [
        [place for place in range(of) if not seconds_behind(Rank(place, of), Draw(number))]
        for number in range(first, first + of)
    ]
    assert sorted(at_once) == [[place] for place in range(of)]


@pytest.mark.parametrize("of", [2, 3, 50])
def test_the_others_come_a_little_later_one_after_the_other(of: int) -> None:
    behind = sorted(seconds_behind(Rank(place, of), Draw(5)) for place in range(of))[1:]
    assert behind[0] == HEAD_START_SECONDS
    assert behind[-1] <= LONGEST_SECONDS
    assert len(set(behind)) >= min(of - 1, 17)


def test_who_has_no_rank_goes_at_once_and_so_do_all_where_nobody_knows_how_much_there_is() -> None:
    assert seconds_behind(None, Draw(5)) == 0
    assert seconds_behind(Rank(0, 50), None) == 0
    assert seconds_behind(Rank(49, 50), None) == 0


@pytest.mark.parametrize(("of", "first"), [(1, 2), (2, 2), (3, 2), (50, 2), (50, 7)])
def test_as_many_go_first_as_should_and_everyone_as_often(of: int, first: int) -> None:
    at_once = [
        [place for place in range(of) if not seconds_behind(Rank(place, of), Draw(number, first))]
        for number in range(of)
    ]
    assert {len(places) for places in at_once} == {min(of, first)}
    assert {sum(place in places for places in at_once) for place in range(of)} == {min(of, first)}
