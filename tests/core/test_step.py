from __future__ import annotations

from datetime import datetime

import pytest

from core.making import NOW
from rota.core.identity import JobId
from rota.core.step import Advice, Doubt, Step, advise

ADVICE = [
    # new, ended, in doubt, advice
    (True, None, Doubt.RETRY, Advice.PERFORM),
    (True, None, Doubt.VERIFY, Advice.PERFORM),
    (True, None, Doubt.PARK, Advice.PERFORM),
    (False, NOW, Doubt.RETRY, Advice.REUSE),
    (False, NOW, Doubt.VERIFY, Advice.REUSE),
    (False, NOW, Doubt.PARK, Advice.REUSE),
    (False, None, Doubt.RETRY, Advice.PERFORM),
    (False, None, Doubt.VERIFY, Advice.VERIFY),
    (False, None, Doubt.PARK, Advice.PARK),
]


@pytest.mark.parametrize(("is_new", "ended_at", "doubt", "advice"), ADVICE)
def test_what_to_do_about_a_step(is_new: bool, ended_at: datetime | None, doubt: Doubt, advice: Advice) -> None:  # noqa: FBT001 - a table's column
    step = Step(JobId(1), "charge", began_under=3, began_at=NOW, ended_at=ended_at, outcome=None)
    assert step.is_done is (ended_at is not None)
    assert advise(step, is_new=is_new, doubt=doubt) is advice


def test_every_policy_and_every_advice_is_in_the_table() -> None:
    assert {doubt for _, _, doubt, _ in ADVICE} == set(Doubt)
    assert {advice for _, _, _, advice in ADVICE} == set(Advice)


def test_an_effect_without_a_result_is_done_all_the_same() -> None:
    step = Step(JobId(1), "charge", began_under=3, began_at=NOW, ended_at=NOW, outcome=None)
    assert advise(step, is_new=False, doubt=Doubt.PARK) is Advice.REUSE
