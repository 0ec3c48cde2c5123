"""Jobs, attempts, results and bulk requests: the canonical forms, and the form of the legacy paths."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType, structs

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.job import Attempt, Job
from rota.core.job_edit import RETRIED_FROM
from rota.core.lifecycle import FINISHED, Event, State
from rota.core.retry import DEFAULT_BACKOFF, Backoff
from rota.core.settlement import JobError, Reason
from rota.core.submission import NO_META, Delivery, NewJob
from rota.ports.client import Deed
from rota.ports.store import Inserted, Receipt
from rota.wire.logs import ProgressForm, log_text, progress_form
from rota.wire.problem import Problem
from rota.wire.retry_rules import RetryRule, backoff_of, retry_rule_of
from rota.wire.scalars import (
    NULL,
    Count,
    Fence,
    Identifier,
    Moment,
    Priority,
    Seconds,
    Text,
    duration_of,
    job_id_of,
    raw,
    schedule_id_of,
)
from rota.wire.submission import FollowUp, follow_up_of, template_of, text_of


class ErrorForm(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The error of an attempt, as plain text."""

    kind: Text = "Error"
    message: Text = ""
    traceback: Text = ""


class ConflictForm(Struct, kw_only=True):
    """Why a submission was answered with an earlier job, and by which, such as `unique_conflict`."""

    code: Receipt
    id: Identifier
    detail: str
    fix: str


class JobForm(Struct, kw_only=True, omit_defaults=True):
    """One job. `state` and `status` are the same; `completed_at` is when it ended, in any final state.

    Lists leave `payload` and `result` out unless requested (`?fields=payload,result`).
    """

    id: Identifier
    type: str
    status: State
    state: State
    payload: Raw | UnsetType = UNSET
    queue: str
    priority: Priority
    attempts: Count
    max_attempts: Count
    worker_id: str | None
    fence: Fence
    run_at: Moment
    created_at: Moment
    updated_at: Moment
    started_at: Moment | None
    completed_at: Moment | None
    result: Raw | UnsetType = UNSET
    error: ErrorForm | None
    reason: Reason | None = None
    crashes: Count = 0
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    retry: RetryRule | None = None
    timeout: Seconds | None = None
    expires_at: Moment | None = None
    boot_id: str | None = None
    lease_until: Moment | None = None
    cancel_requested_at: Moment | None = None
    idempotency_key: str | None = None
    concurrency_key: str | None = None
    tags: list[str] = []
    meta: dict[str, str] = {}
    blockers: Count = 0
    on_success: FollowUp | None = None
    on_failure: FollowUp | None = None
    parent_id: Identifier | None = None
    #: The job that this one was made from by a retry with changes, or as a duplicate.
    retried_from: Identifier | None = None
    schedule_id: Identifier | None = None
    fire_time: Moment | None = None
    warnings: list[str] = []
    #: In the answer to a submission that made no job: why this one is the answer.
    conflict: ConflictForm | None = None


class TaskForm(JobForm, kw_only=True, omit_defaults=True):
    """One job on the legacy paths: the same, with legacy names for its time and its schedule."""

    due_at: Moment
    schedule_at: Moment
    next_run_at: Moment
    schedule: str | None


class JobPage(Struct, kw_only=True):
    """A page of jobs, newest first; with filters for final states only, the last finished first.

    `next_cursor` requests the next page; null on the last one. A filter that matches few jobs is evaluated in slices,
    so a page may be short or empty and still have a `next_cursor`: then it is `partial`; continue until it is null.
    """

    items: list[JobForm]
    next_cursor: str | None
    partial: bool = False


class AttemptForm(Struct, kw_only=True):
    """One run of a job under one fence. `event` says how it ended, `outcome` in words; `event` is null while it runs.

    `number` counts the runs from 1, also those that did not count as attempts. `duration` is in seconds.
    `progress` is text if the worker sent another form of it, or encrypted it. `log_tail` is the end of the log as text;
    its lines are in `GET /v1/jobs/{id}/logs`.
    """

    number: Count
    fence: Fence
    worker_id: str
    boot_id: str
    started_at: Moment
    ended_at: Moment | None
    event: Event | None
    outcome: str
    duration: float | None
    error: ErrorForm | None
    progress: ProgressForm | str | None
    log_tail: str | None


class AttemptList(Struct, kw_only=True):
    """A job's attempts, oldest first."""

    items: list[AttemptForm]


class ResultForm(Struct, kw_only=True):
    """The result of a job, or that it has none yet."""

    id: Identifier
    status: State
    state: State
    is_finished: bool
    result: Raw
    error: ErrorForm | None
    reason: Reason | None


class BatchRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Many submissions. Each has its own result; one that is refused does not affect the others."""

    jobs: list[Raw]


class BatchItem(Struct, kw_only=True, omit_defaults=True):
    """The result of one submission of a batch: 201 created, 200 created before, or an error."""

    status: int
    id: Identifier | None = None
    state: State | None = None
    receipt: Receipt | None = None
    #: Why an earlier job is the answer.
    conflict: ConflictForm | None = None
    error: Problem | None = None


class BatchReply(Struct, kw_only=True):
    """The results, in the order of the submissions."""

    items: list[BatchItem]
    created: Count
    replayed: Count
    refused: Count


class ActionResultForm(Struct, kw_only=True, omit_defaults=True):
    """The result of an action on one job: what was done, or an error."""

    id: Identifier
    status: int
    deed: Deed | None = None
    error: Problem | None = None


class BulkActionRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The ids of the jobs of a bulk action."""

    ids: list[Identifier]


class BulkActionReply(Struct, kw_only=True):
    """The results, in the order of the ids."""

    items: list[ActionResultForm]


def job_form(job: Job) -> JobForm:
    state = job.state
    form = JobForm(
        id=to_text(job.id),
        type=job.type,
        status=state,
        state=state,
        payload=Raw(job.payload),
        queue=job.queue,
        priority=job.priority,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        worker_id=job.worker,
        fence=job.fence,
        run_at=job.run_at,
        created_at=job.created_at,
        updated_at=job.updated_at,
        started_at=job.started_at,
        completed_at=job.finished_at,
        result=raw(job.result),
        error=None if job.error is None else error_form(job.error),
        reason=job.reason,
        crashes=job.crashes,
        delivery=job.delivery,
        expires_at=job.expires_at,
        boot_id=job.boot,
        lease_until=job.lease_until,
        cancel_requested_at=job.cancel_requested_at,
        idempotency_key=job.idempotency_key,
        blockers=job.blockers,
        fire_time=job.fire_time,
    )
    _set_optional_fields(form, job)
    if job.parent_id is not None:
        form.parent_id = to_text(job.parent_id)
    if job.schedule_id is not None:
        form.schedule_id = to_text(job.schedule_id)
    return form


def _retry_rule(backoff: Backoff) -> RetryRule | None:
    """Return the retry rule, or None for the default."""
    return None if backoff is DEFAULT_BACKOFF or backoff == DEFAULT_BACKOFF else retry_rule_of(backoff)


def task_form(form: JobForm, schedule: str | None = None) -> TaskForm:
    """Add the legacy names."""
    return TaskForm(
        **structs.asdict(form), due_at=form.run_at, schedule_at=form.run_at, next_run_at=form.run_at, schedule=schedule
    )


def job_of(form: JobForm) -> Job:
    """Convert a job; fields that were left out are null."""
    payload, result = form.payload, form.result
    if payload is UNSET:
        payload = NULL
    if result is UNSET:
        result = NULL
    has_result = form.state is State.COMPLETED or bytes(result) != b"null"
    # By position, in the order of the fields: three dozen keywords would double the cost.
    return Job(
        job_id_of(form.id),
        form.type,
        text_of(payload),
        form.queue,
        form.priority,
        form.state,
        form.run_at,
        form.created_at,
        form.updated_at,
        form.fence,
        form.attempts,
        form.crashes,
        form.max_attempts,
        DEFAULT_BACKOFF if form.retry is None else backoff_of(form.retry),
        form.delivery,
        None if form.timeout is None else duration_of(form.timeout, "timeout"),
        form.expires_at,
        form.worker_id,
        form.boot_id,
        form.lease_until,
        form.started_at,
        form.completed_at,
        form.cancel_requested_at,
        text_of(result) if has_result else None,
        None if form.error is None else error_of(form.error),
        form.reason,
        form.idempotency_key,
        form.concurrency_key,
        tuple(form.tags),
        form.meta or NO_META,
        form.blockers,
        None if form.on_success is None else template_of(form.on_success),
        None if form.on_failure is None else template_of(form.on_failure),
        None if form.parent_id is None else job_id_of(form.parent_id),
        None if form.schedule_id is None else schedule_id_of(form.schedule_id),
        form.fire_time,
    )


def new_job_form(job: NewJob, inserted: Inserted, warnings: list[str]) -> JobForm:
    """Convert a job that the store has just created, without reading it back. It must not wait for other jobs."""
    state, now = inserted.state, inserted.at
    assert now is not None
    form = JobForm(
        id=to_text(inserted.job_id),
        type=job.type,
        status=state,
        state=state,
        payload=Raw(job.payload),
        queue=job.queue,
        priority=job.priority,
        attempts=0,
        max_attempts=job.max_attempts,
        worker_id=None,
        fence=0,
        run_at=job.run_at or now,
        created_at=now,
        updated_at=now,
        started_at=None,
        completed_at=None,
        result=NULL,
        error=None,
        delivery=job.delivery,
        expires_at=job.expires_at,
        warnings=warnings,
    )
    if job.idempotency is not None:
        form.idempotency_key = job.idempotency.key
    _set_optional_fields(form, job)
    return form


def _set_optional_fields(form: JobForm, job: Job | NewJob) -> None:
    """Set the fields that most jobs do not have."""
    if job.backoff is not DEFAULT_BACKOFF:
        form.retry = _retry_rule(job.backoff)
    if job.timeout is not None:
        form.timeout = job.timeout.total_seconds()
    if job.concurrency_key is not None:
        form.concurrency_key = job.concurrency_key
    if job.tags:
        form.tags = list(job.tags)
    if job.meta:
        form.meta = dict(job.meta)
        form.retried_from = job.meta.get(RETRIED_FROM)
    if job.on_success is not None:
        form.on_success = follow_up_of(job.on_success)
    if job.on_failure is not None:
        form.on_failure = follow_up_of(job.on_failure)


#: The longest text of an error in requests and responses.
_LONGEST_TEXT: Final = 65_536


def error_form(error: JobError) -> ErrorForm:
    """Convert an error, cut to the longest text that is accepted."""
    return ErrorForm(
        kind=error.kind[:_LONGEST_TEXT],
        message=error.message[:_LONGEST_TEXT],
        traceback=error.traceback[-_LONGEST_TEXT:],
    )


def error_of(form: ErrorForm) -> JobError:
    return JobError(form.kind, form.message, form.traceback)


#: How an attempt ended, in words.
_OUTCOMES: Final = {
    None: "running",
    Event.SUCCEED: "succeeded",
    Event.FAIL: "failed, to be retried",
    Event.EXHAUST: "failed, last attempt",
    Event.LAPSE: "lost: its worker stopped renewing the lease",
    Event.SNOOZE: "snoozed: to be run again later",
    Event.POSTPONE: "put back to wait for its time",
    Event.RELEASE: "released by its worker",
    Event.CANCEL: "cancelled",
}


def attempt_form(attempt: Attempt, number: int) -> AttemptForm:
    ended_at = attempt.ended_at
    return AttemptForm(
        number=number,
        outcome=_OUTCOMES.get(attempt.event, str(attempt.event)),
        duration=None if ended_at is None else max((ended_at - attempt.started_at).total_seconds(), 0.0),
        fence=attempt.fence,
        worker_id=attempt.worker,
        boot_id=attempt.boot,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        event=attempt.event,
        error=None if attempt.error is None else error_form(attempt.error),
        progress=progress_form(attempt.progress),
        log_tail=log_text(attempt.log_tail),
    )


def result_form(job: Job) -> ResultForm:
    return ResultForm(
        id=to_text(job.id),
        status=job.state,
        state=job.state,
        is_finished=job.state in FINISHED,
        result=raw(job.result),
        error=None if job.error is None else error_form(job.error),
        reason=job.reason,
    )


_CONFLICTS: Final = {
    Receipt.UNIQUE_CONFLICT: (
        "no job was made: job {id} has the same unique key",
        "wait for its result, or change an argument or unique_key",
    ),
    Receipt.THROTTLED: (
        "no job was made: job {id} was made within the period of this throttle",
        "wait for its result, or submit again when the period is over",
    ),
    Receipt.DEBOUNCED: (
        "no job was made: job {id} waits for further submissions, and got this payload",
        "to start it at once: rota jobs run-now {id}",
    ),
    Receipt.DROPPED: (
        "no job was made: job {id} and others hold all places of this concurrency key, and its limit drops new jobs",
        "submit it again when they have ended, or let it wait: rota limits set key:… --on-full wait",
    ),
}


def conflict_form(inserted: Inserted) -> ConflictForm | None:
    """Return why a submission was answered with an earlier job; None if it was not."""
    if inserted.receipt not in _CONFLICTS:
        return None
    detail, fix = _CONFLICTS[inserted.receipt]
    name = to_text(inserted.job_id)
    return ConflictForm(code=inserted.receipt, id=name, detail=detail.format(id=name), fix=fix.format(id=name))


_NOT_CREATED: Final = frozenset({Receipt.KEY_REUSED, Receipt.ID_TAKEN, Receipt.QUEUE_FULL})


def inserted_of(item: BatchItem, own_id: JobId) -> Inserted:
    """Convert the result of one submission; raise the error if the server refused it."""
    if item.receipt in _NOT_CREATED:
        return Inserted(own_id, item.receipt, State.PENDING)
    if item.id is None or item.receipt is None or item.state is None:
        detail = "the server refused it" if item.error is None else item.error.detail
        field = item.error.errors[0].field if item.error is not None and item.error.errors else None
        raise InvalidRequest(detail, field=field)
    return Inserted(job_id_of(item.id), item.receipt, item.state)
