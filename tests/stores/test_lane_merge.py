"""Merging lanes: the same as reading all of them, without reading all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from rota.stores.lane_merge import LaneKey, Place, most_urgent

LINES = st.lists(st.lists(st.integers(0, 50), max_size=12).map(sorted), min_size=1, max_size=12)


def merged(lines: Mapping[LaneKey, Sequence[Place]], limit: int, few: int) -> tuple[list[tuple[Place, LaneKey]], int]:
    """Return what is found, and how many places were read for it."""
    read = 0
    asking = most_urgent(list(lines), limit, few)
    try:
        reading = next(asking)
        while True:
            answer = {
                lane: [place for place in lines[lane] if place[0] <= reading.last_turn][: reading.count]
                for lane in reading.lanes
            }
            read += sum(map(len, answer.values()))
            reading = asking.send(answer)
    except StopIteration as ended:
        return ended.value, read


@given(LINES, st.integers(1, 20), st.integers(1, 5))
def test_the_most_urgent_of_all_lanes_are_found(turns: list[list[int]], limit: int, few: int) -> None:
    lines = {
        ("q", str(number)): [(turn, place) for place, turn in enumerate(line)] for number, line in enumerate(turns)
    }
    everything = sorted((place, lane) for lane, places in lines.items() for place in places)
    found = merged(lines, limit, few)[0]
    assert found == everything[: len(found)]
    assert len(found) >= min(limit, len(everything))


def test_what_is_read_hardly_depends_on_the_number_of_lanes() -> None:
    """A hundred lanes with jobs by turns: a claim of a hundred read ten thousand places."""
    lines = {("q", str(lane)): [(turn * 100 + lane, turn) for turn in range(100)] for lane in range(100)}
    assert merged(lines, 100, 2)[1] <= 300
