"""Decisions: the settlement of a job after an attempt, or by an operator's action.

Every state change is decided here and nowhere else. The result is a `Settlement`, which the store applies if the job is
still as it was when it was read.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from rota.core.errors import IllegalTransition
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, TIMED, Event, State
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Stopped, Succeeded, Suspended, Unknown
from rota.core.retry import MAX_CRASHES
from rota.core.settlement import JobError, Reason, Settlement
from rota.core.step import Step, StepKind
from rota.core.submission import Delivery, NewJob, Template
from rota.core.trace import TRACEPARENT
from rota.core.value import value

#: Looking a member up in its enumeration costs as much as a call, and this is done for every job.
_RUNNING: Final = State.RUNNING
_SUCCEED: Final = Event.SUCCEED


@value
class DecisionInputs:
    """What a decision needs and the core has not: the time, a random number in [0, 1), an id for a follow-up job.

    For a job that waits, also the step it waits for, as it is stored; None if there is none. For one that failed,
    whether its circuit breaker is open, and how much later it is tried again because its retry budget is used up.
    """

    now: datetime
    rng: float = 0.5
    follow_up_id: JobId | None = None
    step: Step | None = None
    is_breaker_open: bool = False
    budget_delay: timedelta = timedelta(0)


def decide(job: Job, outcome: Outcome, means: DecisionInputs) -> Settlement:
    """Return the settlement of a running job after one attempt."""
    if job.state is not _RUNNING:
        raise IllegalTransition(f"{job.name}: only a running job has an outcome; this one is {job.state}")
    match outcome:
        case Succeeded(result):
            return job.settled(_SUCCEED, result=result, follow_up=_follow_up(job, job.on_success, means))
        case Unknown(error):
            return _die(job, Reason.OUTCOME_UNKNOWN, error, means)
        case Stopped():
            return job.settled(Event.CANCEL, reason=Reason.CANCEL_REQUESTED)
        # The outcomes below would run the job again; a cancel request that was accepted forbids that.
        case _ if job.cancel_requested_at is not None:
            return _cancelled(job, outcome)
        case Snoozed() | Suspended() | Released():
            return _handed_back(job, outcome, means)
        case Lost(error):
            return _lost(job, error, means)
        case Failed():
            return _failed(job, outcome, means)
        case _:
            assert_never(outcome)


def _handed_back(job: Job, outcome: Snoozed | Suspended | Released, means: DecisionInputs) -> Settlement:
    """Return the settlement of a job that neither ended nor failed."""
    match outcome:
        case Snoozed(delay, started):
            run_at = means.now + delay
            # A job that may start only once has not, if its handler was not started.
            snooze = _again(job, Event.SNOOZE, means, run_at=run_at) if started else None
            return snooze or job.settled(Event.SNOOZE, run_at=run_at, refund=True)
        case Suspended():
            return _suspended(job, means)
        case Released(started):
            return _again(job, Event.RELEASE, means) if started else _untouched(job, means)
        case _:
            assert_never(outcome)


def _cancelled(job: Job, outcome: Outcome) -> Settlement:
    """Cancel a job that was asked to stop, and keep the error of its attempt."""
    return job.settled(
        Event.CANCEL,
        reason=Reason.CANCEL_REQUESTED,
        error=outcome.error if isinstance(outcome, Failed | Lost) else None,
        crash=isinstance(outcome, Lost),
        refund=outcome == Released(started=False),
    )


def _again(job: Job, event: Event, means: DecisionInputs, *, run_at: datetime | None = None) -> Settlement:
    """Return a job whose handler had started to the queue, unless it may start only once."""
    if job.delivery is Delivery.AT_MOST_ONCE:
        return _die(job, Reason.OUTCOME_UNKNOWN, None, means)
    return job.settled(event, run_at=run_at, refund=True)


def _suspended(job: Job, means: DecisionInputs) -> Settlement:
    """Suspend a job until its wait is over; one whose wait is over already, or is not known, runs again at once."""
    step = means.step
    if step is None or step.is_done or step.kind is StepKind.EFFECT:
        return _again(job, Event.RELEASE, means)
    if step.kind is StepKind.SLEEP:
        return _again(job, Event.SNOOZE, means, run_at=step.until)
    settlement = _again(job, Event.SUSPEND, means)
    return replace(settlement, wait=step) if settlement.target is State.BLOCKED else settlement


def _untouched(job: Job, means: DecisionInputs) -> Settlement:
    """Return a job whose handler had not started: to the queue, or to wait for its time."""
    return job.settled(Event.POSTPONE if job.is_held(means.now) else Event.RELEASE, refund=True)


def _lost(job: Job, error: JobError | None, means: DecisionInputs) -> Settlement:
    if job.delivery is Delivery.AT_MOST_ONCE:
        # Even if it was claimed ahead of its time: the clock may have been set back since, after the handler started.
        return _die(job, Reason.OUTCOME_UNKNOWN, error, means, crash=True)
    # If the clock was set back after the claim, it does not prove that the time has not come.
    if job.is_held(means.now) and job.updated_at <= means.now:
        return _untouched(job, means)
    if job.crashes + 1 >= MAX_CRASHES:
        return _die(job, Reason.POISON, error, means, crash=True)
    if job.is_spent:
        return _die(job, Reason.EXHAUSTED, error, means, crash=True)
    return job.settled(Event.LAPSE, error=error, crash=True)


def _failed(job: Job, outcome: Failed, means: DecisionInputs) -> Settlement:
    error = outcome.error
    if outcome.permanent:
        return _die(job, Reason.PERMANENT, error, means)
    # The attempt of a job that met an open breaker, or opened it, is given back: other jobs of it use none meanwhile.
    is_given_back = means.is_breaker_open and outcome.dependency
    if (job.is_spent and not is_given_back) or job.delivery is Delivery.AT_MOST_ONCE:
        return _die(job, Reason.EXHAUSTED, error, means)
    run_at = means.now + job.backoff.delay(job.attempts, means.rng) + means.budget_delay
    if job.backoff.max_elapsed is not None and run_at > job.created_at + job.backoff.max_elapsed:
        return _die(job, Reason.TOO_LATE, error, means)
    return job.settled(Event.FAIL, error=error, run_at=run_at, refund=is_given_back)


def _die(job: Job, reason: Reason, error: JobError | None, means: DecisionInputs, *, crash: bool = False) -> Settlement:
    follow_up = _follow_up(job, job.on_failure, means)
    return job.settled(Event.EXHAUST, reason=reason, error=error, crash=crash, follow_up=follow_up)


def _follow_up(job: Job, template: Template | None, means: DecisionInputs) -> NewJob | None:
    if template is None:
        return None
    if means.follow_up_id is None:
        raise TypeError(f"{job.name} has a follow-up job: pass an id for it")
    return template.make(means.follow_up_id, means.now, parent_id=job.id, traceparent=job.meta.get(TRACEPARENT))


def cancel(job: Job) -> Settlement | None:
    """Cancel a job that is not running. A running job can only be asked to stop: the result is None."""
    if job.state is State.RUNNING:
        return None
    return job.settled(Event.CANCEL, reason=Reason.CANCEL_REQUESTED)


def expire(job: Job, means: DecisionInputs | None = None) -> Settlement:
    """Cancel a waiting job whose `expires_at` has passed; that is a failure, and has its follow-up."""
    if job.state is State.RUNNING:
        raise IllegalTransition(f"{job.name}: it has started and no longer expires; cancel it to stop it")
    follow_up = None if means is None else _follow_up(job, job.on_failure, means)
    return job.settled(Event.CANCEL, reason=Reason.EXPIRED, follow_up=follow_up)


def skip(job: Job) -> Settlement:
    """Cancel a waiting job in such a way that the jobs after it go on as if it had succeeded."""
    if job.state in FINISHED or job.state is State.RUNNING:
        remedy = "cancel it first" if job.state is State.RUNNING else "it has ended"
        raise IllegalTransition(f"{job.name}: only a job that waits can be skipped; this one is {job.state}; {remedy}")
    return job.settled(Event.CANCEL, reason=Reason.SKIPPED)


def retry(job: Job, now: datetime) -> Settlement:
    """Run a finished job again, or make a scheduled or retrying one due at once.

    A finished job gets a new budget of attempts; a retrying one keeps its count.
    """
    if job.state in FINISHED and job.delivery is Delivery.AT_MOST_ONCE and job.may_have_started:
        raise IllegalTransition(f"{job.name}: may have run already and must run at most once; submit a new one")
    return job.settled(Event.RETRY, run_at=now, renew=job.state in FINISHED)


def run_now(job: Job, now: datetime) -> Settlement:
    """Make a scheduled or retrying job due at once."""
    if job.state not in TIMED:
        raise IllegalTransition(
            f"{job.name}: only a job that waits for its time can be run now; this one is {job.state}"
        )
    return job.settled(Event.RETRY, run_at=now)
