"""Edits of jobs: changes to a job that waits, and new jobs made from old ones with changes.

Pure. A waiting job is changed in place, by compare-and-set on its state, fence and last change. A job that has run, or
may run at this moment, is never changed: what ran stays on record as it ran, and a changed copy becomes a new job.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from typing import Final

from rota.core.envelope import is_encrypted
from rota.core.errors import IllegalTransition, InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, TIMED, State
from rota.core.submission import TAKES, IdempotencyKey, NewJob, attempts_of, check
from rota.core.trace import TRACEPARENT
from rota.core.value import value

#: The key in a job's meta that names the job from which it was made. Keys that begin with `rota.` are Rota's own.
RETRIED_FROM: Final = "rota.retried_from"
#: States in which a job can be changed in place.
EDITABLE: Final = frozenset({State.BLOCKED, State.SCHEDULED, State.PENDING, State.RETRYING})


@value
class JobEdit:
    """The fields of a job to change; None leaves a field as it is."""

    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    tags: tuple[str, ...] | None = None
    payload: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that change."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) is not None)


@value
class JobChange:
    """A waiting job as it shall be. It is applied only while the job is as it was read: state, fence, last change."""

    job_id: JobId
    fence: int
    source: State
    updated_at: datetime
    target: State
    queue: str
    priority: int
    run_at: datetime
    max_attempts: int
    tags: tuple[str, ...]
    payload: str


def change_of(job: Job, edit: JobEdit, now: datetime) -> JobChange:
    """Decide how a waiting job changes; refuse a job that is not waiting, and values that no job can have."""
    if job.state not in EDITABLE:
        raise IllegalTransition(f"{job.name}: {_REMEDIES.get(job.state, _FINISHED)}")
    _check_payload(job, edit, needs_own=False)
    edited = replace(
        _copied(job),
        queue=job.queue if edit.queue is None else edit.queue,
        priority=job.priority if edit.priority is None else edit.priority,
        max_attempts=attempts_of(job.delivery, edit.max_attempts, job.max_attempts),
        tags=job.tags if edit.tags is None else edit.tags,
        payload=job.payload if edit.payload is None else edit.payload,
    )
    check(edited)
    if edited.max_attempts <= job.attempts:
        message = f"max_attempts: {edited.max_attempts} are used up: {job.attempts} were made; give more, or cancel it"
        raise InvalidRequest(message, field="max_attempts")
    if edit.run_at is not None and job.expires_at is not None and edit.run_at >= job.expires_at:
        message = f"run_at: {edit.run_at.isoformat()} is not before expires_at, {job.expires_at.isoformat()}"
        raise InvalidRequest(message, field="run_at")
    return JobChange(
        job_id=job.id,
        fence=job.fence,
        source=job.state,
        updated_at=job.updated_at,
        target=_target(job, edit, now),
        queue=edited.queue,
        priority=edited.priority,
        run_at=job.run_at if edit.run_at is None else edit.run_at,
        max_attempts=edited.max_attempts,
        tags=edited.tags,
        payload=edited.payload,
    )


def _check_payload(job: Job, edit: JobEdit, *, needs_own: bool) -> None:
    """Refuse what cannot be read later: an encrypted payload is bound to its job and its program's keys."""
    if is_encrypted(job.payload) and (needs_own or edit.payload is not None):
        message = f"{job.name}: its payload is encrypted and belongs to this job; submit a new one from your program"
        raise IllegalTransition(message)


def _target(job: Job, edit: JobEdit, now: datetime) -> State:
    """Return the state after an edit: a changed time decides whether the job is due."""
    if edit.run_at is None or job.state is State.BLOCKED:
        return job.state
    if edit.run_at <= now:
        return State.PENDING
    return job.state if job.state in TIMED else State.SCHEDULED


def copy_of(
    job: Job, edit: JobEdit, job_id: JobId, *, key: IdempotencyKey | None = None, needs_end: bool = True
) -> NewJob:
    """Make a new job from one, with changes, that names it as its origin. With `needs_end` only from a finished one."""
    if needs_end and job.state not in FINISHED:
        message = (
            f"{job.name}: it is {job.state} and has not ended; change it (PATCH), cancel it first, or duplicate it"
        )
        raise IllegalTransition(message)
    if TAKES in job.meta:
        message = f"{job.name}: it takes its input from the jobs before it; submit a new one with its own payload"
        raise IllegalTransition(message)
    _check_payload(job, edit, needs_own=True)
    changes = {name: getattr(edit, name) for name in edit.names}
    return replace(_copied(job), id=job_id, idempotency=key, **changes)


def _copied(job: Job) -> NewJob:
    """Return a new job with the fields of one that a submitter chooses. Its place in time, and its key, are its own."""
    meta = {name: text for name, text in job.meta.items() if name != TRACEPARENT}
    return NewJob(
        id=job.id,
        type=job.type,
        payload=job.payload,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        backoff=job.backoff,
        delivery=job.delivery,
        timeout=job.timeout,
        concurrency_key=job.concurrency_key,
        tags=job.tags,
        meta={**meta, RETRIED_FROM: to_text(job.id)},
        on_success=job.on_success,
        on_failure=job.on_failure,
    )


_FINISHED: Final = "it has ended and stays as it ran; retry it with changes, which makes a new job"
_REMEDIES: Final = {
    State.RUNNING: "it runs and cannot be changed; cancel it first, or duplicate it with changes",
    State.QUEUED: "it was handed to the broker and cannot be changed; cancel it and duplicate it with changes",
}
