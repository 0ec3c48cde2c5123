"""Handing in jobs: one, many, or a schedule that makes them."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from difflib import get_close_matches

import msgspec
from msgspec import ValidationError, structs

from rota.api.aliases import bare_key
from rota.api.calls import Answer, Call, shown
from rota.api.errors import invalid, refusal_of
from rota.api.headers import IDEMPOTENCY_KEY, TRACEPARENT
from rota.api.large_bodies import LARGE_BYTES, read_large
from rota.api.reading import read, take
from rota.api.settings import ApiSettings, Scope
from rota.api.table import Route
from rota.core.errors import IllegalTransition, InvalidRequest, KeyReused, RotaError
from rota.core.identity import to_text
from rota.core.lifecycle import State
from rota.core.schedule import Draft, Schedule, rule_of
from rota.core.submission import NewJob, Template, unknown_parent
from rota.core.trace import is_traceparent, traced
from rota.engine.jobs import full
from rota.ports.store import Inserted, Receipt
from rota.wire.jobs import BatchItem, BatchReply, BatchRequest, JobForm, TaskForm, form_of, fresh_form, task_form
from rota.wire.scalars import Name
from rota.wire.schedules import RecurringForm, recurring_form
from rota.wire.submission import Submission, folded, new_job_of, template_of, text_of

#: Compared by identity: to look up a member of an enumeration costs a call.
_CREATED, _PENDING = Receipt.CREATED, State.PENDING
_KEY_REUSED = "this idempotency key came before with another request; take a new key, or send the same request"


async def submit(call: Call) -> Answer:
    """Take one job; it is on stable storage when this answers."""
    context, headers = call.context, call.headers
    engine = context.engine
    body = await call.json()
    if len(body) > LARGE_BYTES:
        submission = await read_large(body, Submission, context.settings.limits)
    else:
        submission = read(body, Submission, context.settings.limits)
    kind = None
    if b"idempotency-key" not in headers and b"traceparent" not in headers:
        kind = context.kinds.find(submission)
    if kind is not None:
        now = engine.clock()
        job = kind.job(engine.fresh_id.at(now), text_of(submission.payload))
    else:
        submission = folded(submission, header_key(call))
        if submission.cron is not None:
            return await _recurring(call, submission)
        now = await engine.store.time() if _counts_from_now(call, submission) else engine.clock()
        job = checked(call, submission, now)
    (inserted,) = await engine.jobs.submit([job])
    path = call.path
    is_ours = path.startswith("/v1/")
    if inserted.receipt is _CREATED:
        id_text, warned = to_text(inserted.job_id), warnings(job.type, context.settings)
        place = f"{path}/{id_text}"
        if kind is not None and is_ours and inserted.state is _PENDING and not warned:
            assert inserted.at is not None
            return Answer(kind.shown(id_text, job.payload, inserted.at), 201, [(b"location", place.encode())])
        if job.after:
            # How many of these have ended meanwhile, and how, is the store's to say.
            form = structs.replace(form_of(await engine.jobs.one(inserted.job_id)), warnings=warned)
        else:
            form = fresh_form(job, inserted, warned)
        return shown(form if is_ours else task_form(form), 201, location=place)
    if inserted.receipt is Receipt.KEY_REUSED:
        raise KeyReused(_KEY_REUSED, field="idempotency_key")
    if inserted.receipt is Receipt.QUEUE_FULL:
        raise full(job.queue)
    form = form_of(await engine.jobs.one(inserted.job_id))
    place = f"{path}/{form.id}"
    return shown(form if is_ours else task_form(form), location=place, idempotent_replayed="true")


async def submit_many(call: Call) -> Answer:
    """Take many jobs in one transaction; each is answered by itself."""
    limits = call.context.limits
    request = await call.read(BatchRequest)
    if len(request.jobs) > limits.batch:
        raise invalid([("jobs", f"{len(request.jobs)} jobs; at most {limits.batch} at once")])
    items: list[BatchItem | None] = [None] * len(request.jobs)
    wanted: list[tuple[int, Submission]] = []
    for place, raw in enumerate(request.jobs):
        try:
            submission = folded(take(raw, Submission))
            if submission.cron is not None:
                raise invalid([("cron", "schedules are made one by one: POST /v1/schedules")])
            wanted.append((place, submission))
        except RotaError as error:
            items[place] = _refused_item(error)
    counts_from_now = any(_counts_from_now(call, submission) for _, submission in wanted)
    now = await call.engine.store.time() if counts_from_now else call.engine.clock()
    made: dict[int, NewJob] = {}
    for place, submission in wanted:
        try:
            made[place] = checked(call, submission, now)
        except RotaError as error:
            items[place] = _refused_item(error)
    missing = await call.engine.jobs.unknown_parents(list(made.values()))
    for place, job in tuple(made.items()):
        if unknown := [parent.on for parent in job.after if parent.on in missing]:
            items[place] = _refused_item(unknown_parent(unknown[0]))
            del made[place]
    jobs = list(made.values())
    answers = zip(jobs, await call.engine.submit(jobs) if jobs else (), strict=True)
    answered = [item or _batch_item(*next(answers)) for item in items]
    counts = [item.receipt for item in answered]
    created, replayed = counts.count(Receipt.CREATED), counts.count(Receipt.REPLAYED)
    refused = len(answered) - created - replayed
    return shown(BatchReply(items=answered, created=created, replayed=replayed, refused=refused))


def _counts_from_now(call: Call, submission: Submission) -> bool:
    """Say whether it matters what time it is: then the store is asked, since its clock will be the judge."""
    own = call.context.settings.defaults.of(submission.type)
    delay = own.delay if submission.delay is None else submission.delay
    return bool(delay) or submission.expires is not None or own.expires is not None


def _refused_item(error: RotaError) -> BatchItem:
    refusal = refusal_of(error)
    return BatchItem(status=refusal.status, error=refusal.problem())


def _batch_item(job: NewJob, inserted: Inserted) -> BatchItem:
    if inserted.receipt is Receipt.CREATED or inserted.receipt is Receipt.REPLAYED:
        status = 201 if inserted.receipt is Receipt.CREATED else 200
        return BatchItem(status=status, id=to_text(inserted.job_id), state=inserted.state, receipt=inserted.receipt)
    # No job was made, so there is no id or state to show.
    refusal = refusal_of(full(job.queue) if inserted.receipt is Receipt.QUEUE_FULL else KeyReused(_KEY_REUSED))
    return BatchItem(status=refusal.status, receipt=inserted.receipt, error=refusal.problem())


def header_key(call: Call) -> str | None:
    """Read the idempotency key that stands in the header."""
    if b"idempotency-key" not in call.headers:
        return None
    key = bare_key(call.header(b"idempotency-key"))
    try:
        return msgspec.convert(key, Name)
    except ValidationError as error:
        raise invalid([("Idempotency-Key", str(error))]) from None


def checked(call: Call, submission: Submission, now: datetime) -> NewJob:
    """Make the core's value of a submission, its payload checked where its type is built in."""
    context = call.context
    settings, fresh_id = context.settings, context.engine.fresh_id()
    kind = context.kinds.find(submission)
    if kind is not None:
        job = kind.job(fresh_id, text_of(submission.payload))
    else:
        job = new_job_of(submission, fresh_id, now, defaults=settings.defaults, key_scope=call.key.key_scope)
        check_payloads(job, settings, "")
        # Where a payload is checked, it is one by one.
        if job.type not in settings.payload_checks:
            context.kinds.learn(submission, job)
    traceparent = _traceparent(call)
    return job if traceparent is None else replace(job, meta=traced(job.meta, traceparent))


def _traceparent(call: Call) -> str | None:
    """Give the trace that the request belongs to; a word that is none is ignored, as its inventors want it."""
    text = call.header(b"traceparent")
    return text if text is not None and is_traceparent(text) else None


def check_payloads(job: NewJob | Template, settings: ApiSettings, path: str) -> None:
    """Refuse payloads that a built-in type could only fail on, in what follows a job too."""
    check = settings.payload_checks.get(job.type)
    if check is not None:
        try:
            check(msgspec.json.decode(job.payload))
        except InvalidRequest as error:
            field = error.field or "payload"
            raise invalid(
                [(f"{path}{field if field.startswith('payload') else f'payload.{field}'}", str(error))]
            ) from None
    if job.on_success is not None:
        check_payloads(job.on_success, settings, f"{path}on_success.")
    if job.on_failure is not None:
        check_payloads(job.on_failure, settings, f"{path}on_failure.")


def warnings(job_type: str, settings: ApiSettings) -> list[str]:
    """Warn of a type that no worker here knows: it may be a slip, or a worker elsewhere knows it."""
    if settings.known_types is None or job_type in (known := settings.known_types()):
        return []
    close = get_close_matches(job_type, known, n=1)
    meant = f"; did you mean '{close[0]}'?" if close else ""
    return [f"no worker here knows the type '{job_type}'{meant}"]


async def _recurring(call: Call, submission: Submission) -> Answer:
    """Make a schedule of a submission with a rule."""
    draft = _draft(call, submission)
    check_payloads(draft.template, call.context.settings, "")
    try:
        schedule = await call.engine.schedules.create(draft, call.actor)
    except IllegalTransition:
        if submission.idempotency_key is None:
            raise
        schedule = await call.engine.schedules.named(draft.name)
        if not _is_same(draft, schedule):
            raise KeyReused(_KEY_REUSED, field="idempotency_key") from None
        return shown(recurring_form(schedule), location=_place(schedule), idempotent_replayed="true")
    return shown(recurring_form(schedule), 201, location=_place(schedule))


def _draft(call: Call, submission: Submission) -> Draft:
    for field in ("delay", "after"):
        if getattr(submission, field):
            raise invalid([(field, "a recurring job has its rule instead; leave this out")])
    suffix = submission.idempotency_key or to_text(call.engine.fresh_id())
    return Draft(
        name=submission.name or f"{submission.type}:{suffix}"[:200],
        rule=str(rule_of(submission.cron or "")),
        # Its jobs start at its fire times: a delay of the task is for submissions.
        template=replace(template_of(submission, call.context.settings.defaults), delay=None),
        zone=submission.zone or "UTC",
        start_at=submission.run_at,
    )


def _is_same(draft: Draft, schedule: Schedule) -> bool:
    names = {field.name for field in fields(Draft)} - {"paused_at", "pause_reason"}
    return all(getattr(draft, name) == getattr(schedule, name) for name in names)


def _place(schedule: Schedule) -> str:
    return f"/v1/schedules/{to_text(schedule.id)}"


_SUBMIT = Route(
    method="POST",
    path="/v1/jobs",
    scope=Scope.SUBMIT,
    handler=submit,
    summary="Submit a job, or with 'cron' a schedule",
    family="jobs",
    takes=Submission,
    gives={201: JobForm | RecurringForm, 200: JobForm | RecurringForm},
    headers=(IDEMPOTENCY_KEY, TRACEPARENT),
    refuses=(409,),
)
_OLDER = {201: TaskForm | RecurringForm, 200: TaskForm | RecurringForm}
ROUTES = (
    _SUBMIT,
    _SUBMIT.under("/jobs", gives=_OLDER, family="older paths"),
    _SUBMIT.under("/tasks", gives=_OLDER, family="older paths"),
    Route(
        method="POST",
        path="/v1/jobs:batch",
        scope=Scope.SUBMIT,
        handler=submit_many,
        summary="Submit up to 1,000 jobs; each is answered by itself",
        family="jobs",
        takes=BatchRequest,
        headers=(TRACEPARENT,),
        gives={200: BatchReply},
    ),
)
