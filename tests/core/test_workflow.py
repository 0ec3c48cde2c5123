from __future__ import annotations

from itertools import product

import pytest

from rota.core.lifecycle import FINISHED, State
from rota.core.submission import Need
from rota.core.workflow import Verdict, judge

#: What each end of a parent means to a job that needs its success, and to one that needs its end.
ENDS = {
    State.COMPLETED: {Need.SUCCESS: Verdict.MET, Need.END: Verdict.MET},
    State.DEAD: {Need.SUCCESS: Verdict.FAILED, Need.END: Verdict.MET},
    State.CANCELLED: {Need.SUCCESS: Verdict.FAILED, Need.END: Verdict.MET},
    None: {Need.SUCCESS: Verdict.FAILED, Need.END: Verdict.MET},
}


@pytest.mark.parametrize(("parent", "need"), list(product([*State, None], Need)))
def test_the_end_of_a_parent_meets_or_fails_a_wait_and_nothing_else_does(parent: State | None, need: Need) -> None:
    assert judge(need, parent) is (ENDS[parent][need] if parent in ENDS else Verdict.WAIT)


def test_the_table_names_every_end() -> None:
    assert set(ENDS) == FINISHED | {None}
