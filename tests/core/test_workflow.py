from __future__ import annotations

from itertools import product

import pytest

from rota.core.lifecycle import FINISHED, State
from rota.core.submission import Need
from rota.core.workflow import DependencyStatus, dependency_status

#: What each end of a parent means to a job that needs its success, and to one that needs its end.
ENDS = {
    State.COMPLETED: {Need.SUCCESS: DependencyStatus.MET, Need.END: DependencyStatus.MET},
    State.DEAD: {Need.SUCCESS: DependencyStatus.FAILED, Need.END: DependencyStatus.MET},
    State.CANCELLED: {Need.SUCCESS: DependencyStatus.FAILED, Need.END: DependencyStatus.MET},
    None: {Need.SUCCESS: DependencyStatus.FAILED, Need.END: DependencyStatus.MET},
}


@pytest.mark.parametrize(("parent", "need"), list(product([*State, None], Need)))
def test_the_end_of_a_parent_meets_or_fails_a_wait_and_nothing_else_does(parent: State | None, need: Need) -> None:
    assert dependency_status(need, parent) is (ENDS[parent][need] if parent in ENDS else DependencyStatus.WAIT)


def test_the_table_names_every_end() -> None:
    assert set(ENDS) == FINISHED | {None}
