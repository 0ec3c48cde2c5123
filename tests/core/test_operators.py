"""Actions of operators and expiry: every verb in every state."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.builders import NOW, claimed, job, lived
from rota.core.decision import DecisionInputs, cancel, decide, expire, retry, run_now
from rota.core.errors import IllegalTransition
from rota.core.lifecycle import FINISHED, TIMED, WAITING, Event, State
from rota.core.outcome import Released
from rota.core.settlement import Reason
from rota.core.submission import Delivery

LATER = NOW + timedelta(hours=1)
RETRIED = TIMED | {State.DEAD, State.CANCELLED}


@pytest.mark.parametrize("state", sorted(WAITING))
def test_a_waiting_job_is_cancelled_at_once(state: State) -> None:
    settlement = cancel(job(state, fence=4))
    assert settlement is not None
    assert (settlement.source, settlement.target, settlement.fence) == (state, State.CANCELLED, 4)
    assert settlement.reason is Reason.CANCEL_REQUESTED
    assert settlement.follow_up is None


def test_a_running_job_can_only_be_asked_to_stop() -> None:
    assert cancel(job(State.RUNNING)) is None


@pytest.mark.parametrize("state", sorted(FINISHED))
def test_a_finished_job_cannot_be_cancelled(state: State) -> None:
    with pytest.raises(IllegalTransition, match=f"cannot cancel a {state} job; it has already"):
        cancel(job(state))


@pytest.mark.parametrize("state", sorted(WAITING))
def test_a_waiting_job_whose_time_has_passed_ends(state: State) -> None:
    settlement = expire(job(state))
    assert (settlement.target, settlement.reason) == (State.CANCELLED, Reason.EXPIRED)


@pytest.mark.parametrize("state", sorted(set(State) - WAITING))
def test_a_job_that_has_started_or_ended_does_not_expire(state: State) -> None:
    """The table lets a running job be cancelled, so without a check of its own expiry took it from its worker."""
    with pytest.raises(IllegalTransition, match=r"^job 000000000002d: "):
        expire(job(state))


@pytest.mark.parametrize("state", sorted(RETRIED))
def test_a_retried_job_runs_now(state: State) -> None:
    settlement = retry(job(state), LATER)
    assert (settlement.event, settlement.target, settlement.run_at) == (Event.RETRY, State.PENDING, LATER)
    assert (settlement.result, settlement.error, settlement.reason) == (None, None, None)


@pytest.mark.parametrize("state", sorted(RETRIED))
def test_a_finished_job_gets_a_fresh_budget_and_one_in_backoff_keeps_counting(state: State) -> None:
    spent = job(state, attempts=3, crashes=2)
    again = lived(spent, retry(spent, LATER))
    assert (again.attempts, again.crashes) == ((0, 0) if state in FINISHED else (3, 2))


@pytest.mark.parametrize("state", sorted(set(State) - RETRIED))
def test_a_job_that_need_not_or_cannot_be_retried_says_why(state: State) -> None:
    with pytest.raises(IllegalTransition, match=rf"^job 000000000002d: cannot retry a {state} job; .+"):
        retry(job(state), LATER)


def test_a_completed_job_is_not_run_again_but_submitted_anew() -> None:
    with pytest.raises(IllegalTransition, match="submit a new one"):
        retry(job(State.COMPLETED), LATER)


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
def test_a_job_that_must_run_at_most_once_and_may_have_run_is_not_retried(state: State) -> None:
    with pytest.raises(IllegalTransition, match=r"^job 000000000002d: .*at most once; submit a new one"):
        retry(job(state, delivery=Delivery.AT_MOST_ONCE, attempts=1), LATER)


def test_a_job_that_must_run_at_most_once_and_never_began_may_be_retried() -> None:
    never = job(State.CANCELLED, delivery=Delivery.AT_MOST_ONCE, attempts=0)
    assert retry(never, LATER).target is State.PENDING


def test_a_job_handed_back_unstarted_and_then_cancelled_never_began() -> None:
    """It was counted as started: an operator who had cancelled it in time could not have it run after all."""
    asked = job(delivery=Delivery.AT_MOST_ONCE, cancel_requested_at=NOW)
    cancelled = lived(asked, decide(asked, Released(started=False), DecisionInputs(now=NOW)))
    assert (cancelled.state, cancelled.may_have_started) == (State.CANCELLED, False)
    assert retry(cancelled, LATER).target is State.PENDING


def test_a_cancel_is_forgotten_when_an_operator_retries() -> None:
    asked = job(cancel_requested_at=NOW)
    cancelled = lived(asked, decide(asked, Released(started=True), DecisionInputs(now=NOW)))
    again = claimed(lived(cancelled, retry(cancelled, LATER)))
    assert decide(again, Released(started=True), DecisionInputs(now=LATER)).target is State.PENDING


@pytest.mark.parametrize("state", sorted(TIMED))
def test_a_job_that_waits_for_its_time_can_be_run_now(state: State) -> None:
    settlement = run_now(job(state), LATER)
    assert (settlement.event, settlement.target, settlement.run_at) == (Event.RETRY, State.PENDING, LATER)
    assert not settlement.renew


@pytest.mark.parametrize("state", sorted(set(State) - TIMED))
def test_no_other_job_can_be_run_now(state: State) -> None:
    with pytest.raises(IllegalTransition, match=rf"^job 000000000002d: .* this one is {state}$"):
        run_now(job(state), LATER)
