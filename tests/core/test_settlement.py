from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import job, unhurried
from rota.core.lifecycle import FINISHED, MOVES, Event, State
from rota.core.settlement import JobError

SAME_CAUSE = [
    ("order 9 not found", "order 10 not found"),
    ("order 9 not found", "order 123456789 not found"),
    ("connect to 10.0.0.1:80 timed out after 3 s", "connect to 192.168.17.4:8080 timed out after 30 s"),
    ("no row 550e8400-e29b-41d4-a716-446655440000", "no row 018f63c1-aaaa-7bbb-8ccc-ddddeeeeffff"),
    ("<Session object at 0x7f3a2c0b1d90> is closed", "<Session object at 0x104e> is closed"),
    ("٣ items", "٤٥ items"),
    ("x" * 500 + " one end", "x" * 500 + " another end"),
    ("row 7: " + "x" * 600, "row 7777777: " + "x" * 600),
]
OTHER_CAUSE = [
    (JobError("OSError", "refused"), JobError("ValueError", "refused")),
    (JobError("OSError", "refused"), JobError("OSError", "timed out")),
    (JobError("OSError", ""), JobError("OSError", "1")),
]


@pytest.mark.parametrize(("one", "other"), SAME_CAUSE)
def test_errors_of_one_cause_have_one_name(one: str, other: str) -> None:
    assert JobError("E", one, "here").fingerprint("mail") == JobError("E", other, "there").fingerprint("mail")


@pytest.mark.parametrize(("one", "other"), OTHER_CAUSE)
def test_errors_of_other_causes_have_other_names(one: JobError, other: JobError) -> None:
    assert one.fingerprint("mail") != other.fingerprint("mail")


def test_the_same_error_in_another_type_is_another_cause() -> None:
    assert JobError("E", "refused").fingerprint("mail") != JobError("E", "refused").fingerprint("report")


@unhurried
@given(st.text(), st.text(), st.text(st.characters(categories=["Cs", "Lu", "Nd"])))
def test_every_error_has_a_short_name_lone_surrogates_included(job_type: str, kind: str, message: str) -> None:
    name = JobError(kind, message).fingerprint(job_type)
    assert len(name) == 16
    assert name == JobError(kind, message, "another traceback").fingerprint(job_type)


@pytest.mark.timeout(20)
def test_a_message_of_any_length_costs_little() -> None:
    for shape in ("7", "0x", "a-", "ab12-", "\ud800"):
        assert JobError("E", shape * 2_000_000).fingerprint("mail")


@pytest.mark.parametrize(("state", "event"), [(state, event) for state in State for event in MOVES[state]], ids=str)
def test_a_settlement_is_final_when_the_life_ends_with_it(state: State, event: Event) -> None:
    settlement = job(state).settled(event)
    assert settlement.is_final is (MOVES[state][event] in FINISHED)
