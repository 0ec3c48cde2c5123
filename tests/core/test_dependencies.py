from __future__ import annotations

from itertools import product

import pytest

from rota.core.dependencies import DependencyStatus, dependency_status
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Reason
from rota.core.submission import Need

MET, FAILED = DependencyStatus.MET, DependencyStatus.FAILED
#: What each end of a parent means to a job that needs its success, its end, or its failure.
ENDS = {
    State.COMPLETED: {Need.SUCCESS: MET, Need.END: MET, Need.FAILURE: DependencyStatus.NOT_NEEDED},
    State.DEAD: {Need.SUCCESS: FAILED, Need.END: MET, Need.FAILURE: MET},
    State.CANCELLED: {Need.SUCCESS: FAILED, Need.END: MET, Need.FAILURE: MET},
    None: {Need.SUCCESS: FAILED, Need.END: MET, Need.FAILURE: FAILED},
}


@pytest.mark.parametrize(("parent", "need"), list(product([*State, None], Need)))
def test_the_end_of_a_parent_meets_or_fails_a_wait_and_nothing_else_does(parent: State | None, need: Need) -> None:
    assert dependency_status(need, parent) is (ENDS[parent][need] if parent in ENDS else DependencyStatus.WAIT)


def test_the_table_names_every_end() -> None:
    assert set(ENDS) == FINISHED | {None}


@pytest.mark.parametrize(
    ("need", "status"),
    [(Need.SUCCESS, DependencyStatus.NOT_NEEDED), (Need.FAILURE, DependencyStatus.NOT_NEEDED), (Need.END, MET)],
)
def test_a_parent_that_was_not_needed_neither_succeeded_nor_failed(need: Need, status: DependencyStatus) -> None:
    assert dependency_status(need, State.CANCELLED, reason=Reason.NOT_NEEDED) is status


@pytest.mark.parametrize(
    ("need", "status"), [(Need.SUCCESS, MET), (Need.FAILURE, DependencyStatus.NOT_NEEDED), (Need.END, MET)]
)
def test_a_parent_that_was_skipped_counts_as_one_that_succeeded(need: Need, status: DependencyStatus) -> None:
    assert dependency_status(need, State.CANCELLED, reason=Reason.SKIPPED) is status
