"""Edits of jobs: change a waiting job, retry or duplicate one with changes, check a submission without storing it.

The ETag of a job changes with every change of its row; `If-Match` makes an edit conditional on it.
"""

from __future__ import annotations

from rota.api.errors import HttpError, invalid
from rota.api.headers import IDEMPOTENCY_KEY, IF_MATCH, TRACEPARENT
from rota.api.http import Request, Response, json_response
from rota.api.permissions import require, require_queue, require_queues, uncovered_jobs
from rota.api.redaction import refuse_redacted
from rota.api.router import QueueCheck, Route
from rota.api.routes.jobs_read import job_tag
from rota.api.routes.jobs_submit import check_payload, header_key, new_job, warnings
from rota.core.access import Action
from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.job_edit import JobEdit
from rota.core.submission import IdempotencyKey, check, request_hash, unknown_parent
from rota.ports.store import Receipt
from rota.wire.job_edits import JobEditRequest, ValidationForm, edit_of, request_text
from rota.wire.jobs import JobForm, job_form
from rota.wire.scalars import job_id_of
from rota.wire.submission import Submission, normalized


async def edit(request: Request) -> Response:
    """Change a waiting job; with `If-Match` only if it is still as it was read."""
    body = await request.read(JobEditRequest)
    job = await request.engine.jobs.one(job_id_of(request.path_params["id"]))
    match = request.header(b"if-match")
    if match is not None and match.strip() not in {"*", job_tag(job.fence, job.updated_at)}:
        raise HttpError(412, "precondition_failed", f"{job.name} was changed meanwhile; read it again")
    edit = await _edit_of(request, body)
    if not edit.names:
        raise invalid(
            [("", "nothing to change; give one of queue, priority, run_at, delay, max_attempts, tags, payload")]
        )
    if edit.payload is not None:
        refuse_redacted(request.key, edit.payload)
        check_payload(job.type, edit.payload, request.context.settings)
    changed = await request.engine.jobs.edit(job.id, edit, request.actor, read_as=job if match else None)
    return json_response(job_form(changed), etag=job_tag(changed.fence, changed.updated_at))


async def duplicate(request: Request) -> Response:
    """Submit a new job with the fields of this one, and the changes of the body; whatever its state is."""
    body = await request.read_or(JobEditRequest, JobEditRequest())
    return await copy_with_changes(request, body, action="duplicate", needs_end=False)


async def copy_with_changes(request: Request, body: JobEditRequest, *, action: str, needs_end: bool) -> Response:
    """Submit a new job made from the one in the path."""
    require(request.key, Action.JOBS_EDIT)
    job = await request.engine.jobs.one(job_id_of(request.path_params["id"]))
    edit = await _edit_of(request, body)
    if edit.payload is not None:
        refuse_redacted(request.key, edit.payload)
        check_payload(job.type, edit.payload, request.context.settings)
    require_followers(request, job)
    name = header_key(request)
    key = None
    if name is not None:
        canonical = f"{action} {to_text(job.id)} ".encode() + request_text(body)
        key = IdempotencyKey(name, request_hash(canonical), request.key.key_scope)
    inserted = await request.engine.jobs.copy(job, edit, request.actor, action=action, key=key, needs_end=needs_end)
    if inserted.receipt is Receipt.QUEUE_FULL:
        raise await request.engine.backlogs.full(job.queue if edit.queue is None else edit.queue)
    copy = await request.engine.jobs.one(inserted.job_id)
    location = f"/v1/jobs/{to_text(copy.id)}"
    if inserted.receipt is Receipt.REPLAYED:
        return json_response(job_form(copy), location=location, idempotent_replayed="true")
    return json_response(job_form(copy), 201, location=location)


async def validate(request: Request) -> Response:
    """Check a submission as `POST /v1/jobs` does, and store nothing."""
    submission = normalized(await request.read(Submission))
    if submission.cron is not None:
        raise invalid([("cron", "schedules are checked by POST /v1/schedules:preview")])
    job = new_job(request, submission, await request.engine.store.time())
    check(job)
    parents = [parent.on for parent in job.after]
    missing = {*await request.engine.jobs.unknown_parents([job]), *await uncovered_jobs(request, parents)}
    if missing:
        raise unknown_parent(min(missing))
    return json_response(
        ValidationForm(
            type=job.type,
            queue=job.queue,
            priority=job.priority,
            max_attempts=job.max_attempts,
            run_at=job.run_at,
            warnings=warnings(job.type, request.context.settings),
        )
    )


async def _edit_of(request: Request, body: JobEditRequest) -> JobEdit:
    now = await request.engine.store.time() if body.delay is not None else request.engine.clock()
    edit = edit_of(body, now)
    if edit.queue is not None:
        require_queue(request.key, edit.queue)
    return edit


def require_followers(request: Request, job: Job) -> None:
    """Refuse a copy of a job whose follow-up jobs go to queues that the token does not cover."""
    for follower in (job.on_success, job.on_failure):
        if follower is not None:
            require_queues(request.key, follower)


ROUTES = (
    Route(
        method="PATCH",
        path="/v1/jobs/{id}",
        action=Action.JOBS_EDIT,
        queue_check=QueueCheck.JOB,
        handler=edit,
        summary="Change a waiting job; what is left out stays",
        tag="jobs",
        body=JobEditRequest,
        headers=(IF_MATCH,),
        responses={200: JobForm},
        error_statuses=(409, 412),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{id}/duplicate",
        action=Action.JOBS_EDIT,
        queue_check=QueueCheck.JOB,
        handler=duplicate,
        summary="Submit a new job with the fields of this one, and changes",
        tag="jobs",
        body=JobEditRequest,
        body_is_optional=True,
        headers=(IDEMPOTENCY_KEY,),
        responses={201: JobForm, 200: JobForm},
        error_statuses=(409,),
    ),
    Route(
        method="POST",
        path="/v1/jobs:validate",
        action=Action.JOBS_SUBMIT,
        queue_check=QueueCheck.HANDLER,
        handler=validate,
        summary="Check a submission without storing it",
        tag="jobs",
        body=Submission,
        headers=(TRACEPARENT,),
        responses={200: ValidationForm},
    ),
)
