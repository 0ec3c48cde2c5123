from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import NOW, job, moments, unhurried
from rota.core.errors import IllegalTransition
from rota.core.ids import JobId
from rota.core.job import AGING, first_state, turn
from rota.core.lifecycle import Event, State
from rota.core.submission import HIGHEST_PRIORITY, LOWEST_PRIORITY
from rota.core.time import MICROSECOND

priorities = st.integers(LOWEST_PRIORITY, HIGHEST_PRIORITY)
#: What a 64-bit column holds.
COLUMN = range(-(2**63), 2**63)


@unhurried
@given(moments, priorities, priorities)
def test_of_jobs_due_together_the_most_urgent_goes_first(due: datetime, one: int, other: int) -> None:
    assert (turn(due, one) < turn(due, other)) == (one > other)


@unhurried
@given(moments, moments, priorities)
def test_of_jobs_equally_urgent_the_oldest_goes_first(one: datetime, other: datetime, priority: int) -> None:
    assert (turn(one, priority) < turn(other, priority)) == (one < other)


@unhurried
@given(moments, st.timedeltas(timedelta(0), timedelta(days=30)), priorities, priorities)
def test_nobody_is_passed_over_by_what_came_due_nine_levels_of_aging_later(
    due: datetime, later: timedelta, mine: int, theirs: int
) -> None:
    """The documented bound: the lowest priority waits for nothing that became due 9 hours after it."""
    is_passed_over = turn(due + later, theirs) < turn(due, mine)
    assert is_passed_over == (later < (theirs - mine) * AGING)
    assert not (is_passed_over and later >= 9 * AGING)


def test_the_bound_is_sharp() -> None:
    bound = (HIGHEST_PRIORITY - LOWEST_PRIORITY) * AGING
    assert bound == timedelta(hours=9)
    lowest = turn(NOW, LOWEST_PRIORITY)
    assert turn(NOW + bound - MICROSECOND, HIGHEST_PRIORITY) < lowest
    assert turn(NOW + bound, HIGHEST_PRIORITY) == lowest
    assert turn(NOW + bound + MICROSECOND, HIGHEST_PRIORITY) > lowest


@unhurried
@given(st.datetimes(timezones=st.timezones()), priorities)
def test_a_turn_fits_into_a_column(due: datetime, priority: int) -> None:
    assert turn(due, priority) in COLUMN


FIRST_STATES = [
    (timedelta(0), False, State.PENDING),
    (-MICROSECOND, False, State.PENDING),
    (timedelta(days=-9999), False, State.PENDING),
    (MICROSECOND, False, State.SCHEDULED),
    (timedelta(days=9999), False, State.SCHEDULED),
    (timedelta(0), True, State.BLOCKED),
    (-MICROSECOND, True, State.BLOCKED),
    (MICROSECOND, True, State.BLOCKED),
]


@pytest.mark.parametrize(("ahead", "blocked", "state"), FIRST_STATES)
def test_a_new_job_begins_where_its_time_and_its_parents_put_it(ahead: timedelta, blocked: bool, state: State) -> None:  # noqa: FBT001 - a table's column
    assert first_state(NOW + ahead, NOW, blocked=blocked) is state


def test_a_job_calls_itself_by_the_id_that_people_see() -> None:
    assert job(id=JobId(77)).name == "job 000000000002d"


SPENT = [(0, 3, False), (2, 3, False), (3, 3, True), (4, 3, True), (1, 1, True)]


@pytest.mark.parametrize(("attempts", "max_attempts", "is_spent"), SPENT)
def test_a_job_is_spent_when_its_attempts_are(attempts: int, max_attempts: int, is_spent: bool) -> None:  # noqa: FBT001 - a table's column
    assert job(attempts=attempts, max_attempts=max_attempts).is_spent is is_spent


def test_a_job_may_have_started_once_an_attempt_was_not_handed_back() -> None:
    assert not job(attempts=0).may_have_started
    assert job(attempts=1).may_have_started


def test_a_settlement_holds_for_the_job_as_it_was_seen() -> None:
    settlement = job(State.PENDING, fence=7).settled(Event.CANCEL)
    assert (settlement.job_id, settlement.fence, settlement.source) == (77, 7, State.PENDING)
    assert (settlement.event, settlement.target) == (Event.CANCEL, State.CANCELLED)


def test_a_settlement_of_an_illegal_move_names_the_job() -> None:
    with pytest.raises(IllegalTransition, match=r"^job 000000000002d: cannot succeed a pending job; "):
        job(State.PENDING).settled(Event.SUCCEED)
