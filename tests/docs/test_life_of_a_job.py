"""The page on the life of a job says what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from docs.lifecycle_diagram import PAGE, drawn
from rota.core.lifecycle import MOVES, Event, State
from rota.core.settlement import Reason


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def rows_of(heading: str) -> list[str]:
    """Return the first column of the table under a heading."""
    _, _, section = page().partition(f"\n## {heading}\n")
    section, _, _ = section.partition("\n## ")
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


def without(state: State, event: Event) -> dict[State, dict[Event, State]]:
    """Return the table with one move struck out."""
    return {
        each: {move: target for move, target in moves.items() if (each, move) != (state, event)}
        for each, moves in MOVES.items()
    }


def test_the_drawings_on_the_page_are_those_of_the_code() -> None:
    assert page() == drawn(page()), "bring it up to date: python tests/docs/lifecycle_diagram.py"


@pytest.mark.parametrize(("state", "event"), [(state, event) for state in State for event in MOVES[state]], ids=str)
def test_a_move_that_is_struck_out_of_the_table_shows_on_the_page(state: State, event: Event) -> None:
    assert drawn(page(), without(state, event)) != page()


def test_a_move_that_is_added_or_leads_elsewhere_shows_on_the_page() -> None:
    added = {**MOVES, State.COMPLETED: {Event.RETRY: State.PENDING}}
    elsewhere = {**MOVES, State.QUEUED: {**MOVES[State.QUEUED], Event.RECALL: State.SCHEDULED}}
    assert drawn(page(), added) != page()
    assert drawn(page(), elsewhere) != page()


@pytest.mark.parametrize(
    ("heading", "words"),
    [("States", State), ("Moves", MOVES), ("Why a job ended", Reason)],
    ids=["states", "moves", "reasons"],
)
def test_every_state_and_every_reason_is_explained_and_no_other(heading: str, words: Iterable[str]) -> None:
    assert rows_of(heading) == list(words)


def test_every_event_is_explained_and_no_other() -> None:
    heads = re.findall(r"^- \*\*(\w+)\*\*(?: and \*\*(\w+)\*\*)?: ", page(), flags=re.MULTILINE)
    assert [event for pair in heads for event in pair if event] == list(Event)
