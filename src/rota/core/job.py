"""The job, the stored unit of work, and its attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from rota.core.errors import RotaError
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.lifecycle import MOVES, Event, State, move
from rota.core.retry import DEFAULT_BACKOFF, DEFAULT_MAX_ATTEMPTS, MAX_CRASHES, Backoff
from rota.core.settlement import JobError, Reason, Settlement
from rota.core.submission import Delivery, NewJob, Template, no_meta
from rota.core.time import span_to_micros, to_micros
from rota.core.value import value

#: One level of priority is worth this much waiting. It bounds how long the lowest priority can be passed over: a job
#: of priority 1 yields to one of priority 10 only if that one became due less than nine times this span later.
AGING: Final = timedelta(hours=1)
AGING_MICROS: Final = span_to_micros(AGING)


@value
class Job:
    """A job as it is stored.

    `fence` counts the claims and never shrinks; `attempts` counts those that were not released; `crashes` those that
    ended in a lapsed lease. Worker, start and error of the current or last attempt are part of the job, so that a job
    which succeeds at once costs one row.
    """

    id: JobId
    type: str
    payload: str
    queue: str
    priority: int
    state: State
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    fence: int = 0
    attempts: int = 0
    crashes: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff = DEFAULT_BACKOFF
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    worker: str | None = None
    boot: str | None = None
    lease_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    result: str | None = None
    error: JobError | None = None
    reason: Reason | None = None
    idempotency_key: str | None = None
    concurrency_key: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=no_meta)
    blockers: int = 0
    on_success: Template | None = None
    on_failure: Template | None = None
    parent_id: JobId | None = None
    schedule_id: ScheduleId | None = None
    fire_time: datetime | None = None

    def __repr__(self) -> str:
        # Without payload and result, which may be confidential.
        return f"<Job {to_text(self.id)} {self.type} {self.state}>"

    @property
    def name(self) -> str:
        """The job as messages name it."""
        return f"job {to_text(self.id)}"

    @property
    def is_spent(self) -> bool:
        """Whether no further attempt is allowed."""
        return self.attempts >= self.max_attempts

    @property
    def is_suspect(self) -> bool:
        """Whether one more crash of its worker would make it dead."""
        return self.crashes > 0 and (self.is_spent or self.crashes + 1 >= MAX_CRASHES)

    @property
    def may_have_started(self) -> bool:
        """Whether a handler may have run: an attempt was made and not released."""
        return self.attempts > 0

    @property
    def is_ahead(self) -> bool:
        """Whether it was claimed ahead of its time; valid for a job as a claim returned it."""
        return self.run_at > self.updated_at

    @property
    def starts_on_time(self) -> bool:
        """Whether it starts exactly at its `run_at`, which means that it was claimed ahead of its time."""
        return self.started_at == self.run_at != self.created_at

    def is_held(self, now: datetime) -> bool:
        """Whether it was claimed ahead of its time, which has not come yet: no handler has run."""
        return self.starts_on_time and now < self.run_at

    def settled(
        self,
        event: Event,
        *,
        run_at: datetime | None = None,
        result: str | None = None,
        error: JobError | None = None,
        reason: Reason | None = None,
        refund: bool = False,
        crash: bool = False,
        renew: bool = False,
        follow_up: NewJob | None = None,
    ) -> Settlement:
        """Make the settlement of an event; refuse what the lifecycle does not allow."""
        # The name is made for a refusal only: for every settlement it would cost more than the decision.
        target = MOVES[self.state].get(event) or move(self.state, event, subject=self.name)
        return Settlement(
            self.id,
            self.fence,
            self.state,
            target,
            event,
            run_at,
            result,
            error,
            reason,
            refund,
            crash,
            renew,
            follow_up=follow_up,
        )


class JobFailed(RotaError):
    """The job ended without a result; `job` has its error and why it ended."""

    def __init__(self, job: Job) -> None:
        cause = f": {job.error.kind}: {job.error.message}" if job.error is not None else ""
        super().__init__(f"{job.name} is {job.state}{f' ({job.reason})' if job.reason else ''}{cause}")
        self.job = job


@value
class Attempt:
    """One run of a job under one lease, identified by its fence. `event` is how it ended; None while it runs."""

    job_id: JobId
    fence: int
    worker: str
    boot: str
    started_at: datetime
    ended_at: datetime | None = None
    event: Event | None = None
    error: JobError | None = None
    progress: str | None = None
    log_tail: str | None = None


def turn(due_at: datetime, priority: int) -> int:
    """Return a due job's position in claim order: the lowest is claimed first.

    It is the moment the job became due, moved ahead by its priority. One number gives most urgent first, oldest first
    among equals, and no starvation. A job submitted with a time in the past becomes due when it is submitted.
    """
    return turn_at(to_micros(due_at), priority)


def turn_at(due_micros: int, priority: int) -> int:
    """Return the position of `turn` for a due time in microseconds."""
    return due_micros - priority * AGING_MICROS


def first_state(run_at: datetime, now: datetime, *, blocked: bool) -> State:
    if blocked:
        return State.BLOCKED
    return State.SCHEDULED if run_at > now else State.PENDING
