"""Submit routes: one job, many jobs, or a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from difflib import get_close_matches

import msgspec
from msgspec import ValidationError

from rota.api.aliases import unquoted_key
from rota.api.errors import http_error_of, invalid
from rota.api.headers import IDEMPOTENCY_KEY, TRACEPARENT
from rota.api.http import Request, Response, json_response
from rota.api.json_body import decode_checked
from rota.api.permissions import require, require_queues, uncovered_jobs
from rota.api.router import QueueCheck, Route
from rota.api.settings import ApiSettings
from rota.core.access import Action
from rota.core.envelope import is_encrypted
from rota.core.errors import IllegalTransition, InvalidRequest, KeyReused, QueueFull, RotaError
from rota.core.ids import JobId, made_at, to_text
from rota.core.schedule import Draft, Schedule, rule_of
from rota.core.submission import NewJob, Template, unknown_parent
from rota.core.trace import is_traceparent, traced
from rota.core.unique_keys import UniqueKind
from rota.ports.store import ANSWERED, CLOCK_SLACK, Inserted, Receipt
from rota.wire.jobs import (
    BatchItem,
    BatchReply,
    BatchRequest,
    JobForm,
    TaskForm,
    conflict_form,
    job_form,
    new_job_form,
    task_form,
)
from rota.wire.scalars import Name, id_in_field
from rota.wire.schedules import RecurringForm, recurring_form
from rota.wire.submission import Submission, control_fields, new_job_of, normalized, template_of, text_of

_KEY_REUSED = "this idempotency key was used before with another request; use a new key, or send the same request"


async def submit(request: Request) -> Response:
    """Create one job; it is on stable storage when the response is sent."""
    context = request.context
    engine, settings = context.engine, context.settings
    key = header_key(request) if b"idempotency-key" in request.headers else None
    submission = normalized(await request.read(Submission), key)
    if submission.cron is not None:
        return await _create_schedule(request, submission)
    now = await engine.store.time() if _needs_store_time(request, submission) else engine.clock()
    job = new_job(request, submission, now)
    if job.after and (uncovered := await uncovered_jobs(request, [parent.on for parent in job.after])):
        raise unknown_parent(min(uncovered))
    (inserted,) = await engine.jobs.submit([job])
    if inserted.receipt is Receipt.KEY_REUSED:
        raise KeyReused(_KEY_REUSED, field="idempotency_key")
    if inserted.receipt is Receipt.QUEUE_FULL:
        raise await engine.backlogs.full(job.queue)
    if inserted.receipt is Receipt.ID_TAKEN:
        raise _id_taken(job)
    path, is_created = request.path, inserted.receipt is Receipt.CREATED
    if is_created and not job.after:
        form = new_job_form(job, inserted, warnings(job.type, settings))
    else:
        # Only the store knows how many of the jobs that this one waits for have ended.
        form = job_form(await engine.jobs.one(inserted.job_id))
        form.warnings = warnings(job.type, settings) if is_created else []
        form.conflict = conflict_form(inserted)
    shown = form if path.startswith("/v1/") else task_form(form)
    location = f"{path}/{form.id}"
    if is_created:
        return json_response(shown, 201, location=location)
    if form.conflict is not None:
        return json_response(shown, location=location)
    return json_response(shown, location=location, idempotent_replayed="true")


async def submit_many(request: Request) -> Response:
    """Create many jobs in one transaction; each has its own result."""
    limits = request.context.limits
    body = await request.read(BatchRequest)
    if len(body.jobs) > limits.batch:
        raise invalid([("jobs", f"{len(body.jobs)} jobs; at most {limits.batch} at once")])
    items: list[BatchItem | None] = [None] * len(body.jobs)
    submissions: list[tuple[int, Submission]] = []
    for place, raw in enumerate(body.jobs):
        try:
            submission = normalized(decode_checked(raw, Submission))
            if submission.cron is not None:
                raise invalid([("cron", "schedules are created one by one: POST /v1/schedules")])
            submissions.append((place, submission))
        except RotaError as error:
            items[place] = _refused_item(error)
    needs_store_time = any(_needs_store_time(request, submission) for _, submission in submissions)
    now = await request.engine.store.time() if needs_store_time else request.engine.clock()
    made: dict[int, NewJob] = {}
    for place, submission in submissions:
        try:
            made[place] = new_job(request, submission, now)
        except RotaError as error:
            items[place] = _refused_item(error)
    missing = {
        *await request.engine.jobs.unknown_parents(list(made.values())),
        *await uncovered_jobs(request, [parent.on for job in made.values() for parent in job.after]),
    }
    for place, job in tuple(made.items()):
        if unknown := [parent.on for parent in job.after if parent.on in missing]:
            items[place] = _refused_item(unknown_parent(unknown[0]))
            del made[place]
    jobs = list(made.values())
    answers = await request.engine.submit(jobs) if jobs else ()
    refusals = {
        job.queue: await request.engine.backlogs.full(job.queue)
        for job, answer in zip(jobs, answers, strict=True)
        if answer.receipt is Receipt.QUEUE_FULL
    }
    results = zip(jobs, answers, strict=True)
    answered = [item or _batch_item(*next(results), refusals) for item in items]
    counts = [item.receipt for item in answered]
    created = counts.count(Receipt.CREATED)
    replayed = sum(receipt in ANSWERED for receipt in counts)
    refused = len(answered) - created - replayed
    return json_response(BatchReply(items=answered, created=created, replayed=replayed, refused=refused))


def _needs_store_time(request: Request, submission: Submission) -> bool:
    """Return whether times are relative to now: they count by the store's clock, which decides when jobs are due."""
    own = request.context.settings.defaults.of(submission.type)
    delay = own.delay if submission.delay is None else submission.delay
    has_debounce = bool(submission.debounce) or (own.control is not None and own.control.kind is UniqueKind.DEBOUNCE)
    return bool(delay) or has_debounce or submission.expires is not None or own.expires is not None


def _refused_item(error: RotaError) -> BatchItem:
    http_error = http_error_of(error)
    return BatchItem(status=http_error.status, error=http_error.problem())


def _batch_item(job: NewJob, inserted: Inserted, refusals: Mapping[str, QueueFull]) -> BatchItem:
    if inserted.receipt is Receipt.CREATED or inserted.receipt in ANSWERED:
        status = 201 if inserted.receipt is Receipt.CREATED else 200
        return BatchItem(
            status=status,
            id=to_text(inserted.job_id),
            state=inserted.state,
            receipt=inserted.receipt,
            conflict=conflict_form(inserted),
        )
    # No job was created, so there is no id or state.
    match inserted.receipt:
        case Receipt.QUEUE_FULL:
            error: RotaError = refusals[job.queue]
        case Receipt.ID_TAKEN:
            error = _id_taken(job)
        case _:
            error = KeyReused(_KEY_REUSED)
    http_error = http_error_of(error)
    return BatchItem(status=http_error.status, receipt=inserted.receipt, error=http_error.problem())


def header_key(request: Request) -> str | None:
    """Return the idempotency key in the header."""
    if b"idempotency-key" not in request.headers:
        return None
    key = unquoted_key(request.header(b"idempotency-key"))
    try:
        return msgspec.convert(key, Name)
    except ValidationError as error:
        raise invalid([("Idempotency-Key", str(error))]) from None


def new_job(request: Request, submission: Submission, now: datetime) -> NewJob:
    """Make the job of a submission; check its payload if its type is built in."""
    settings = request.context.settings
    fresh_id = request.engine.fresh_id() if submission.id is None else own_id(submission, now)
    job = new_job_of(submission, fresh_id, now, defaults=settings.defaults, key_scope=request.key.key_scope)
    if settings.payload_checks:
        check_payloads(job, settings, "")
    if request.key.queues:
        require_queues(request.key, job)
    # An invalid trace context is ignored, as the standard demands.
    traceparent = request.header(b"traceparent") if b"traceparent" in request.headers else None
    if traceparent is None or not is_traceparent(traceparent):
        return job
    return replace(job, meta=traced(job.meta, traceparent))


def own_id(submission: Submission, now: datetime) -> JobId:
    """Return the id that a submission brings: only one whose payload is encrypted may, and only an id made now."""
    given = id_in_field(submission.id or "", "id")
    if not is_encrypted(text_of(submission.payload)):
        raise invalid([("id", "only a job with an encrypted payload brings its id; leave it out")])
    if abs(made_at(given) - now) > CLOCK_SLACK:
        raise invalid([("id", f"{submission.id} was not made now; set the submitter's clock, or make a new id")])
    return given


def _id_taken(job: NewJob) -> IllegalTransition:
    return IllegalTransition(f"id: another job has the id {to_text(job.id)}; submit again with another id", field="id")


def check_payloads(job: NewJob | Template, settings: ApiSettings, path: str) -> None:
    """Refuse payloads that a built-in type cannot run with, also in follow-up jobs."""
    check_payload(job.type, job.payload, settings, path)
    if job.on_success is not None:
        check_payloads(job.on_success, settings, f"{path}on_success.")
    if job.on_failure is not None:
        check_payloads(job.on_failure, settings, f"{path}on_failure.")


def check_payload(job_type: str, payload: str, settings: ApiSettings, path: str = "") -> None:
    """Refuse a payload that a built-in type cannot run with."""
    check = settings.payload_checks.get(job_type)
    if check is not None and not is_encrypted(payload):
        try:
            check(msgspec.json.decode(payload))
        except InvalidRequest as error:
            field = error.field or "payload"
            raise invalid(
                [(f"{path}{field if field.startswith('payload') else f'payload.{field}'}", str(error))]
            ) from None


def warnings(job_type: str, settings: ApiSettings) -> list[str]:
    """Warn about a type that no worker in this process handles: it may be misspelled, or handled elsewhere."""
    if settings.known_types is None or job_type in (known := settings.known_types()):
        return []
    close = get_close_matches(job_type, known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return [f"no worker here knows the type '{job_type}'{hint}"]


async def _create_schedule(request: Request, submission: Submission) -> Response:
    """Create the schedule of a submission with `cron`."""
    require(request.key, Action.SCHEDULES_EDIT)
    draft = _draft(request, submission)
    require_queues(request.key, draft.template)
    check_payloads(draft.template, request.context.settings, "")
    try:
        schedule = await request.engine.schedules.create(draft, request.actor)
    except IllegalTransition:
        if submission.idempotency_key is None:
            raise
        schedule = await request.engine.schedules.named(draft.name)
        if not _is_same(draft, schedule):
            raise KeyReused(_KEY_REUSED, field="idempotency_key") from None
        return json_response(recurring_form(schedule), location=_location(schedule), idempotent_replayed="true")
    return json_response(recurring_form(schedule), 201, location=_location(schedule))


def _draft(request: Request, submission: Submission) -> Draft:
    for field in ("id", "delay", "after", "takes"):
        if getattr(submission, field):
            raise invalid([(field, "a recurring job has its rule instead; leave this out")])
    for field in control_fields(submission):
        raise invalid([(field, "a schedule makes one job for each fire time; leave this out, or set 'overlap'")])
    suffix = submission.idempotency_key or to_text(request.engine.fresh_id())
    return Draft(
        name=submission.name or f"{submission.type}:{suffix}"[:200],
        rule=str(rule_of(submission.cron or "")),
        # Its jobs start at its fire times; the delay of a task applies to submissions only.
        template=replace(template_of(submission, request.context.settings.defaults), delay=None),
        zone=submission.zone or "UTC",
        start_at=submission.run_at,
    )


def _is_same(draft: Draft, schedule: Schedule) -> bool:
    names = {field.name for field in fields(Draft)} - {"paused_at", "pause_reason"}
    return all(getattr(draft, name) == getattr(schedule, name) for name in names)


def _location(schedule: Schedule) -> str:
    return f"/v1/schedules/{to_text(schedule.id)}"


_SUBMIT = Route(
    method="POST",
    path="/v1/jobs",
    action=Action.JOBS_SUBMIT,
    queue_check=QueueCheck.HANDLER,
    handler=submit,
    summary="Submit a job, or with 'cron' a schedule",
    tag="jobs",
    body=Submission,
    responses={201: JobForm | RecurringForm, 200: JobForm | RecurringForm},
    headers=(IDEMPOTENCY_KEY, TRACEPARENT),
    error_statuses=(409,),
)
_OLDER = {201: TaskForm | RecurringForm, 200: TaskForm | RecurringForm}
ROUTES = (
    _SUBMIT,
    _SUBMIT.at("/jobs", responses=_OLDER, tag="older paths"),
    _SUBMIT.at("/tasks", responses=_OLDER, tag="older paths"),
    Route(
        method="POST",
        path="/v1/jobs:batch",
        action=Action.JOBS_SUBMIT,
        queue_check=QueueCheck.HANDLER,
        handler=submit_many,
        summary="Submit up to 1,000 jobs; each has its own result",
        tag="jobs",
        body=BatchRequest,
        headers=(TRACEPARENT,),
        responses={200: BatchReply},
    ),
)
