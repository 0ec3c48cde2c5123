"""Stagger: one worker claims first, in rotation; a worker without a rank claims at once, and none waits for long."""

from __future__ import annotations

from collections import Counter

import pytest

from rota.core.cluster import Rank
from rota.stagger import HEAD_START_SECONDS, stagger_seconds


@pytest.mark.parametrize("of", [1, 2, 3, 50])
@pytest.mark.parametrize("first", [0, 7, -3, 2**63])
def test_workers_that_agree_on_their_ranks_go_first_in_turn(of: int, first: int) -> None:
    at_once = [
        [place for place in range(of) if not stagger_seconds(Rank(place, of), number)]
        for number in range(first, first + of)
    ]
    assert sorted(at_once) == [[place] for place in range(of)]


def test_the_others_come_a_little_later_twice_as_many_each_time() -> None:
    behind = Counter(round(1000 * stagger_seconds(Rank(place, 20), 5), 6) for place in range(20))
    start = 1000 * HEAD_START_SECONDS
    assert behind == {0: 1, start: 1, start + 1: 2, start + 2: 4, start + 3: 8, start + 4: 4}


@pytest.mark.parametrize("of", [2, 50, 1000])
def test_the_last_of_many_does_not_wait_for_long(of: int) -> None:
    """The others may have no free slot, and a job that no other worker can take is waiting."""
    assert max(stagger_seconds(Rank(place, of), 5) for place in range(of)) <= 4 * HEAD_START_SECONDS


def test_a_worker_without_a_rank_goes_at_once_and_so_do_all_if_the_number_of_jobs_is_unknown() -> None:
    assert stagger_seconds(None, 5) == 0
    assert stagger_seconds(Rank(0, 50), None) == 0
    assert stagger_seconds(Rank(49, 50), None) == 0
