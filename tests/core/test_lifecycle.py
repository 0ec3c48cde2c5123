from __future__ import annotations

from itertools import product
from types import MappingProxyType

import pytest

from core.builders import NOW, utc
from rota.core.errors import IllegalTransition
from rota.core.job import first_state
from rota.core.lifecycle import FINISHED, MOVES, TIMED, WAITING, Event, State, move

BIRTHS = {
    first_state(NOW, NOW, blocked=False),
    first_state(utc("2030-01-01"), NOW, blocked=False),
    first_state(NOW, NOW, blocked=True),
}
LEGAL = [(state, event, target) for state, moves in MOVES.items() for event, target in moves.items()]
REFUSED = [(state, event) for state, event in product(State, Event) if event not in MOVES[state]]

#: Where each event leads, wherever it happens.
LEADS_TO = {
    Event.UNBLOCK: State.PENDING,
    Event.POSTPONE: State.SCHEDULED,
    Event.DUE: State.PENDING,
    Event.CLAIM: State.RUNNING,
    Event.DISPATCH: State.QUEUED,
    Event.RECALL: State.PENDING,
    Event.SUCCEED: State.COMPLETED,
    Event.FAIL: State.RETRYING,
    Event.EXHAUST: State.DEAD,
    Event.LAPSE: State.PENDING,
    Event.SNOOZE: State.SCHEDULED,
    Event.SUSPEND: State.BLOCKED,
    Event.RELEASE: State.PENDING,
    Event.RETRY: State.PENDING,
    Event.CANCEL: State.CANCELLED,
}


def reachable_from(*starts: State, without: frozenset[Event] = frozenset()) -> set[State]:
    """Walk the table."""
    seen: set[State] = set()
    ahead = list(starts)
    while ahead:
        state = ahead.pop()
        if state not in seen:
            seen.add(state)
            ahead += [target for event, target in MOVES[state].items() if event not in without]
    return seen


def test_every_state_has_its_row() -> None:
    assert set(MOVES) == set(State)


def test_every_state_is_waiting_running_or_finished_and_only_one_of_them() -> None:
    assert WAITING | FINISHED | {State.RUNNING} == set(State)
    assert not WAITING & FINISHED
    assert State.RUNNING not in WAITING | FINISHED
    assert TIMED < WAITING


def test_every_state_can_be_reached_from_a_birth() -> None:
    assert reachable_from(*BIRTHS) == set(State)


def test_every_event_is_used_and_leads_to_one_state_wherever_it_happens() -> None:
    assert {(event, target) for _, event, target in LEGAL} == set(LEADS_TO.items())
    assert set(LEADS_TO) == set(Event)


@pytest.mark.parametrize("state", [state for state in State if state not in FINISHED])
def test_every_living_state_can_end(state: State) -> None:
    assert reachable_from(state) & FINISHED


@pytest.mark.parametrize("state", [state for state in State if state not in FINISHED])
def test_every_living_state_can_complete_and_can_be_cancelled(state: State) -> None:
    assert State.COMPLETED in reachable_from(state, without=frozenset({Event.RETRY}))
    assert MOVES[state][Event.CANCEL] is State.CANCELLED


@pytest.mark.parametrize("end", [State.COMPLETED, State.DEAD])
def test_only_running_completes_or_dies(end: State) -> None:
    assert {state for state, _, target in LEGAL if target is end} == {State.RUNNING}


def test_only_a_claim_starts_a_job() -> None:
    assert {(state, event) for state, event, target in LEGAL if target is State.RUNNING} == {
        (State.PENDING, Event.CLAIM),
        (State.QUEUED, Event.CLAIM),
        # Ahead of its time, by a worker that holds it until then.
        (State.SCHEDULED, Event.CLAIM),
        (State.RETRYING, Event.CLAIM),
    }


def test_finished_states_are_left_by_retry_alone_and_completed_by_nothing() -> None:
    assert set(MOVES[State.DEAD]) == set(MOVES[State.CANCELLED]) == {Event.RETRY}
    assert not MOVES[State.COMPLETED]


def test_a_job_that_waits_for_its_time_is_freed_by_time_and_by_an_operator() -> None:
    for state in State:
        assert (Event.DUE in MOVES[state]) == (state in TIMED)
        assert (Event.RETRY in MOVES[state]) == (state in TIMED | {State.DEAD, State.CANCELLED})


@pytest.mark.parametrize(("state", "event", "target"), LEGAL)
def test_move_follows_the_table(state: State, event: Event, target: State) -> None:
    assert move(state, event) is target


@pytest.mark.parametrize(("state", "event"), REFUSED)
def test_every_refusal_names_the_job_and_a_remedy(state: State, event: Event) -> None:
    with pytest.raises(IllegalTransition) as refusal:
        move(state, event, subject="job 000000000002d")
    complaint, _, remedy = str(refusal.value).partition("; ")
    assert complaint == f"job 000000000002d: cannot {event} a {state} job"
    assert remedy


def test_nobody_can_write_into_the_table() -> None:
    assert all(isinstance(table, MappingProxyType) for table in (MOVES, *MOVES.values()))
