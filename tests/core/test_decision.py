"""Decisions after an attempt: the complete table, and properties of every sequence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import ERROR, HEIR, NOW, claimed, job, lived, rng, unhurried
from rota.core.decision import DecisionInputs, decide
from rota.core.errors import IllegalTransition
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, Event, State
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Stopped, Succeeded, Suspended, Unknown
from rota.core.retry import MAX_CRASHES, Backoff, Growth
from rota.core.settlement import Reason
from rota.core.step import Step, StepKind
from rota.core.submission import Delivery, Template

WAIT = Step(JobId(77), "paid", 1, NOW, kind=StepKind.EVENT, subject="paid:7")
MEANS = DecisionInputs(now=NOW, follow_up_id=HEIR, step=WAIT)
HOUR = timedelta(hours=1)
ON_SUCCESS = Template("thank")
ON_FAILURE = Template("apologise")

OUTCOMES: dict[str, Outcome] = {
    "succeeded": Succeeded('"sent"'),
    "failed": Failed(ERROR),
    "permanent": Failed(ERROR, permanent=True),
    "snoozed": Snoozed(HOUR),
    "suspended": Suspended("paid"),
    "unstarted": Released(started=False),
    "released": Released(started=True),
    "lost": Lost(ERROR),
    "stopped": Stopped(),
    "unknown": Unknown(ERROR),
}
#: Which attempts are left, and how many leases were lost before.
CONDITIONS: dict[str, dict[str, Any]] = {
    "fresh": {"attempts": 1, "crashes": 0},
    "spent": {"attempts": 3, "crashes": 0},
    "crashing": {"attempts": 1, "crashes": MAX_CRASHES - 1},
    "both": {"attempts": 3, "crashes": MAX_CRASHES - 1},
}
TABLE = """
outcome    delivery       cancel  fresh                     spent                     crashing                  both

succeeded  at_least_once  -       succeed                   succeed                   succeed                   succeed
failed     at_least_once  -       fail                      exhaust:exhausted         fail                      exhaust:exhausted
permanent  at_least_once  -       exhaust:permanent         exhaust:permanent         exhaust:permanent         exhaust:permanent
snoozed    at_least_once  -       snooze                    snooze                    snooze                    snooze
suspended  at_least_once  -       suspend                   suspend                   suspend                   suspend
unstarted  at_least_once  -       release                   release                   release                   release
released   at_least_once  -       release                   release                   release                   release
lost       at_least_once  -       expire                    exhaust:exhausted         exhaust:poison            exhaust:poison
stopped    at_least_once  -       cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
unknown    at_least_once  -       exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown

succeeded  at_most_once   -       succeed                   succeed                   succeed                   succeed
failed     at_most_once   -       exhaust:exhausted         exhaust:exhausted         exhaust:exhausted         exhaust:exhausted
permanent  at_most_once   -       exhaust:permanent         exhaust:permanent         exhaust:permanent         exhaust:permanent
snoozed    at_most_once   -       exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown
suspended  at_most_once   -       exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown
unstarted  at_most_once   -       release                   release                   release                   release
released   at_most_once   -       exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown
lost       at_most_once   -       exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown
stopped    at_most_once   -       cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
unknown    at_most_once   -       exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown

succeeded  at_least_once  asked   succeed                   succeed                   succeed                   succeed
failed     at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
permanent  at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
snoozed    at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
suspended  at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
unstarted  at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
released   at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
lost       at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
stopped    at_least_once  asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
unknown    at_least_once  asked   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown

succeeded  at_most_once   asked   succeed                   succeed                   succeed                   succeed
failed     at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
permanent  at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
snoozed    at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
suspended  at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
unstarted  at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
released   at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
lost       at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
stopped    at_most_once   asked   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested   cancel:cancel_requested
unknown    at_most_once   asked   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown   exhaust:outcome_unknown
"""  # noqa: E501 - a table is read across


def rows() -> list[tuple[str, Delivery, bool, str, Event, Reason | None]]:
    """Read the table: one row for each cell."""
    heading, *lines = [line.split() for line in TABLE.splitlines() if line]
    found = []
    for outcome, delivery, cancel, *cells in lines:
        for condition, cell in zip(heading[3:], cells, strict=True):
            event, _, reason = cell.partition(":")
            asked = cancel == "asked"
            found.append(
                (outcome, Delivery(delivery), asked, condition, Event(event), Reason(reason) if reason else None)
            )
    return found


def running(delivery: Delivery, condition: str, *, asked: bool) -> Job:
    return job(
        delivery=delivery,
        max_attempts=3,
        cancel_requested_at=NOW if asked else None,
        on_success=ON_SUCCESS,
        on_failure=ON_FAILURE,
        **CONDITIONS[condition],
    )


def test_the_table_is_complete() -> None:
    cells = [(outcome, delivery, asked, condition) for outcome, delivery, asked, condition, _, _ in rows()]
    assert sorted(cells) == sorted(product(OUTCOMES, Delivery, (False, True), CONDITIONS))


def test_every_kind_of_outcome_is_in_the_table() -> None:
    assert {type(outcome) for outcome in OUTCOMES.values()} == set(Outcome.__args__)


@pytest.mark.parametrize(("outcome", "delivery", "asked", "condition", "event", "reason"), rows())
def test_what_becomes_of_a_job(
    outcome: str,
    delivery: Delivery,
    asked: bool,  # noqa: FBT001 - a column
    condition: str,
    event: Event,
    reason: Reason | None,
) -> None:
    before = running(delivery, condition, asked=asked)
    settlement = decide(before, OUTCOMES[outcome], MEANS)
    assert (settlement.event, settlement.reason) == (event, reason)
    assert (settlement.job_id, settlement.fence, settlement.source) == (before.id, before.fence, State.RUNNING)


@pytest.mark.parametrize(("outcome", "delivery", "asked", "condition", "event", "reason"), rows())
def test_an_attempt_that_was_no_fault_of_the_jobs_is_given_back(
    outcome: str,
    delivery: Delivery,
    asked: bool,  # noqa: FBT001 - a column
    condition: str,
    event: Event,
    reason: Reason | None,
) -> None:
    """Given back are what goes on waiting through no failure, and whatever never began, cancelled or not."""
    del reason
    settlement = decide(running(delivery, condition, asked=asked), OUTCOMES[outcome], MEANS)
    assert settlement.refund is (event in {Event.SNOOZE, Event.SUSPEND, Event.RELEASE} or outcome == "unstarted")
    assert settlement.crash is (outcome == "lost")
    assert not settlement.renew


@pytest.mark.parametrize(("outcome", "delivery", "asked", "condition", "event", "reason"), rows())
def test_a_follow_up_is_made_at_an_end_and_from_the_template_of_that_end(
    outcome: str,
    delivery: Delivery,
    asked: bool,  # noqa: FBT001 - a column
    condition: str,
    event: Event,
    reason: Reason | None,
) -> None:
    del reason
    before = running(delivery, condition, asked=asked)
    follow_up = decide(before, OUTCOMES[outcome], MEANS).follow_up
    template = {Event.SUCCEED: ON_SUCCESS, Event.EXHAUST: ON_FAILURE}.get(event)
    assert follow_up == (template.make(HEIR, NOW, parent_id=before.id) if template is not None else None)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_job_that_does_not_run_has_no_outcome(outcome: str, state: State, asked: bool) -> None:  # noqa: FBT001 - a table's column
    """An attempt that was reaped has the same fence as the job it lost, until the next claim. A late `Stopped`, or any
    late outcome after a stop request, cancelled a job that was waiting again.
    """
    late = job(state, cancel_requested_at=NOW if asked else None)
    with pytest.raises(IllegalTransition, match=r"^job 000000000002d: "):
        decide(late, OUTCOMES[outcome], MEANS)


def test_a_result_and_an_error_are_written_back() -> None:
    assert decide(job(), Succeeded('"sent"'), MEANS).result == '"sent"'
    for outcome in (Failed(ERROR), Failed(ERROR, permanent=True), Lost(ERROR), Unknown(ERROR)):
        for asked in (None, NOW):
            settlement = decide(job(cancel_requested_at=asked), outcome, MEANS)
            assert (settlement.error, settlement.result) == (ERROR, None)


def test_a_snoozed_job_runs_when_it_asked_to() -> None:
    assert decide(job(), Snoozed(HOUR), MEANS).run_at == NOW + HOUR


def test_a_job_that_waits_for_an_event_or_a_child_is_blocked_by_that_step() -> None:
    for kind in (StepKind.EVENT, StepKind.CALL):
        step = replace(WAIT, kind=kind)
        settlement = decide(job(), Suspended("paid"), replace(MEANS, step=step))
        assert (settlement.target, settlement.wait, settlement.run_at) == (State.BLOCKED, step, None)


def test_a_sleeping_job_is_due_at_the_end_of_its_sleep() -> None:
    asleep = replace(WAIT, kind=StepKind.SLEEP, until=NOW + HOUR)
    settlement = decide(job(), Suspended("paid"), replace(MEANS, step=asleep))
    assert (settlement.target, settlement.run_at, settlement.wait) == (State.SCHEDULED, NOW + HOUR, None)


@pytest.mark.parametrize(
    "step", [None, replace(WAIT, ended_at=NOW, outcome="null"), replace(WAIT, kind=StepKind.EFFECT)]
)
def test_a_job_whose_wait_is_over_or_unknown_runs_again_at_once(step: Step | None) -> None:
    settlement = decide(job(), Suspended("paid"), replace(MEANS, step=step))
    assert (settlement.event, settlement.target, settlement.refund) == (Event.RELEASE, State.PENDING, True)


def test_a_failed_job_runs_after_its_backoff_placed_by_the_dice() -> None:
    backoff = Backoff(growth=Growth.LINEAR, base=timedelta(seconds=10), jitter=0.5)
    before = job(attempts=2, max_attempts=9, backoff=backoff)
    for throw in (0.0, 0.5, 0.99):
        settlement = decide(before, Failed(ERROR), DecisionInputs(now=NOW, rng=throw))
        assert settlement.run_at == NOW + backoff.delay(2, throw)


@pytest.mark.parametrize("outcome", ["released", "unstarted", "lost"])
def test_a_job_that_was_sent_back_keeps_its_place(outcome: str) -> None:
    assert decide(job(), OUTCOMES[outcome], MEANS).run_at is None


GIVING_UP = [
    (timedelta(seconds=1), Event.FAIL),
    (timedelta(microseconds=999_999), Event.EXHAUST),
    (timedelta(0), Event.EXHAUST),
    (None, Event.FAIL),
]


@pytest.mark.parametrize(("max_elapsed", "event"), GIVING_UP)
def test_a_job_is_given_up_when_its_next_attempt_would_come_too_late(
    max_elapsed: timedelta | None, event: Event
) -> None:
    settlement = decide(job(backoff=Backoff(jitter=0, max_elapsed=max_elapsed)), Failed(ERROR), MEANS)
    assert settlement.event is event
    assert settlement.reason is (Reason.TOO_LATE if event is Event.EXHAUST else None)


def test_a_follow_up_without_an_id_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="pass an id"):
        decide(job(on_success=ON_SUCCESS), Succeeded(), DecisionInputs(now=NOW))
    assert decide(job(on_failure=ON_FAILURE), Succeeded(), DecisionInputs(now=NOW)).follow_up is None


outcomes = st.sampled_from(list(OUTCOMES.values()))


@unhurried
@given(
    st.sampled_from(Delivery),
    st.integers(1, 5),
    st.lists(st.tuples(outcomes, st.booleans(), rng), min_size=1, max_size=20),
)
def test_a_life_keeps_what_was_promised(
    delivery: Delivery, max_attempts: int, attempts: list[tuple[Outcome, bool, float]]
) -> None:
    """Live through any attempts, with a cancel asked for during any of them."""
    alive = job(
        State.PENDING, delivery=delivery, max_attempts=max_attempts, on_success=ON_SUCCESS, on_failure=ON_FAILURE
    )
    starts = follow_ups = 0
    for outcome, asks, throw in attempts:
        if alive.state in FINISHED:
            break
        assert alive.cancel_requested_at is None, "an asked cancel led to another attempt"
        running_now = claimed(replace(alive, state=State.PENDING))
        assert running_now.attempts <= max_attempts
        starts += outcome != Released(started=False)
        running_now = replace(running_now, cancel_requested_at=NOW if asks else None)
        settlement = decide(running_now, outcome, DecisionInputs(now=NOW, rng=throw, follow_up_id=HEIR))
        alive = lived(running_now, settlement)
        follow_ups += settlement.follow_up is not None
        assert alive.fence == running_now.fence
        assert 0 <= alive.attempts <= max_attempts
        assert alive.crashes < MAX_CRASHES or alive.state in FINISHED
    assert starts <= 1 or delivery is Delivery.AT_LEAST_ONCE
    assert follow_ups == (alive.state in {State.COMPLETED, State.DEAD})


@unhurried
@given(st.integers(1, 50), st.lists(st.sampled_from([Failed(ERROR), Lost(ERROR)]), min_size=50, max_size=50))
def test_a_job_that_only_fails_and_crashes_dies_within_its_attempts(max_attempts: int, ends: list[Outcome]) -> None:
    alive, tried = job(State.PENDING, max_attempts=max_attempts), 0
    for outcome in ends[:max_attempts]:
        if alive.state in FINISHED:
            break
        now_running = claimed(replace(alive, state=State.PENDING))
        alive = lived(now_running, decide(now_running, outcome, MEANS))
        tried += 1
    assert alive.state is State.DEAD
    assert tried == alive.attempts <= max_attempts
    assert alive.crashes == MAX_CRASHES or tried == max_attempts


SOON = NOW + timedelta(milliseconds=50)


def held(**fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    """A job that was claimed ahead of its time, which has not come."""
    return replace(claimed(job(**fields)), run_at=SOON, started_at=SOON)


@pytest.mark.parametrize("outcome", [Released(started=False), Lost(ERROR)])
def test_a_job_held_for_its_time_waits_for_it_again_and_nothing_is_counted(outcome: Outcome) -> None:
    settlement = decide(held(max_attempts=1), outcome, MEANS)
    assert (settlement.event, settlement.target) == (Event.POSTPONE, State.SCHEDULED)
    assert (settlement.refund, settlement.crash, settlement.run_at) == (True, False, None)


def test_once_its_time_has_come_a_held_job_is_like_any_other() -> None:
    means = replace(MEANS, now=SOON)
    assert decide(held(), Released(started=False), means).event is Event.RELEASE
    assert decide(held(), Lost(ERROR), means).event is Event.LAPSE


def test_a_clock_that_was_set_back_does_not_make_a_job_that_began_look_held() -> None:
    began = replace(held(), started_at=SOON + timedelta(microseconds=1))
    assert decide(began, Lost(ERROR), MEANS).event is Event.LAPSE
    claimed_later = replace(held(), updated_at=NOW + timedelta(microseconds=1))
    assert decide(claimed_later, Lost(ERROR), MEANS).event is Event.LAPSE


def test_one_that_must_not_start_twice_is_not_given_the_benefit_of_the_doubt() -> None:
    settlement = decide(held(delivery=Delivery.AT_MOST_ONCE), Lost(ERROR), MEANS)
    assert settlement.reason is Reason.OUTCOME_UNKNOWN
    assert decide(held(delivery=Delivery.AT_MOST_ONCE), Released(started=False), MEANS).event is Event.POSTPONE


def test_a_held_job_that_was_asked_to_stop_does_not_wait_again() -> None:
    asked = replace(held(), cancel_requested_at=NOW)
    assert decide(asked, Released(started=False), MEANS).target is State.CANCELLED
