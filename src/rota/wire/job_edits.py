"""Edits of jobs: the fields that a request changes, and the reply of a check without a submission."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from rota.core.errors import InvalidRequest
from rota.core.job_edit import JobEdit
from rota.wire.scalars import Duration, Moment, Priority, UncheckedQueueName, check_queue_name, duration_of, moment_of
from rota.wire.submission import Attempts, Tags, text_of


class JobEditRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a job to change; those that are left out stay. `delay` counts from now, instead of `run_at`."""

    queue: UncheckedQueueName | None = None
    priority: Priority | None = None
    run_at: Moment | None = None
    delay: Duration | None = None
    max_attempts: Attempts | None = None
    tags: Tags | None = None
    payload: Raw | UnsetType = UNSET


class ValidationForm(Struct, kw_only=True):
    """What a submission that was only checked would make, with warnings. Nothing is stored."""

    type: str
    queue: str
    priority: Priority
    max_attempts: int
    run_at: Moment | None
    warnings: list[str] = []


def edit_of(form: JobEditRequest, now: datetime) -> JobEdit:
    """Read an edit; refuse one that names both a time and a delay."""
    if form.run_at is not None and form.delay is not None:
        raise InvalidRequest("delay: run_at is given too; give one of them", field="delay")
    if form.queue is not None:
        check_queue_name(form.queue, "queue")
    delay = None if form.delay is None else duration_of(form.delay, "delay")
    return JobEdit(
        queue=form.queue,
        priority=form.priority,
        run_at=moment_of(form.run_at if delay is None else now + delay, "run_at"),
        max_attempts=form.max_attempts,
        tags=None if form.tags is None else tuple(form.tags),
        payload=None if form.payload is UNSET else text_of(form.payload),
    )


def request_text(form: JobEditRequest) -> bytes:
    """Return an edit as bytes, by which a repeated request is recognised."""
    return msgspec.json.encode(form)
