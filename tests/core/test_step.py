from __future__ import annotations

from datetime import datetime

import pytest

from core.builders import NOW
from rota.core.ids import JobId
from rota.core.step import DoubtPolicy, Step, StepAction, advise

ADVICE = [
    # new, ended, in doubt, advice
    (True, None, DoubtPolicy.RETRY, StepAction.PERFORM),
    (True, None, DoubtPolicy.VERIFY, StepAction.PERFORM),
    (True, None, DoubtPolicy.PARK, StepAction.PERFORM),
    (False, NOW, DoubtPolicy.RETRY, StepAction.REUSE),
    (False, NOW, DoubtPolicy.VERIFY, StepAction.REUSE),
    (False, NOW, DoubtPolicy.PARK, StepAction.REUSE),
    (False, None, DoubtPolicy.RETRY, StepAction.PERFORM),
    (False, None, DoubtPolicy.VERIFY, StepAction.VERIFY),
    (False, None, DoubtPolicy.PARK, StepAction.PARK),
]


@pytest.mark.parametrize(("is_new", "ended_at", "doubt", "advice"), ADVICE)
def test_what_to_do_about_a_step(
    is_new: bool,  # noqa: FBT001 - a table's column
    ended_at: datetime | None,
    doubt: DoubtPolicy,
    advice: StepAction,
) -> None:
    step = Step(JobId(1), "charge", began_under=3, began_at=NOW, ended_at=ended_at, outcome=None)
    assert step.is_done is (ended_at is not None)
    assert advise(step, is_new=is_new, doubt=doubt) is advice


def test_every_policy_and_every_advice_is_in_the_table() -> None:
    assert {doubt for _, _, doubt, _ in ADVICE} == set(DoubtPolicy)
    assert {advice for _, _, _, advice in ADVICE} == set(StepAction)


def test_an_effect_without_a_result_is_done_all_the_same() -> None:
    step = Step(JobId(1), "charge", began_under=3, began_at=NOW, ended_at=NOW, outcome=None)
    assert advise(step, is_new=False, doubt=DoubtPolicy.PARK) is StepAction.REUSE
