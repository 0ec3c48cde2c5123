"""Read routes of jobs: one job, lists, attempts, explanations, results and event streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Meta, Struct

from rota.api.errors import invalid
from rota.api.headers import LAST_STATE, PREFER, preferred_wait
from rota.api.http import Request, Response, StreamResponse, json_response
from rota.api.job_filter import KIND, JobListQuery, query_of
from rota.api.job_pages import HEAVY_FIELDS, fields_of, job_page, jobs_by_id, strip_heavy_fields
from rota.api.live import SILENCE_SECONDS, sse_event
from rota.api.long_poll import wait_for_end
from rota.api.permissions import require, within_queues
from rota.api.redaction import visible, visible_progress
from rota.api.router import EVENT_STREAM, QueueCheck, Route
from rota.core.access import Action, covers_queue
from rota.core.cluster import ELECTION
from rota.core.errors import JobNotFound, ScheduleNotFound
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.job import Attempt, Job
from rota.core.lifecycle import FINISHED
from rota.core.time import to_micros
from rota.engine.explain import ExplainContext
from rota.ports.wakeup import TIMETABLE
from rota.wire.jobs import (
    AttemptList,
    JobForm,
    JobPage,
    ResultForm,
    TaskForm,
    attempt_form,
    job_form,
    result_form,
    task_form,
)
from rota.wire.logs import LogForm, log_form, progress_form
from rota.wire.scalars import id_in_field, job_id_of, schedule_id_of
from rota.wire.schedules import RecurringForm, recurring_form
from rota.wire.system import ExplanationForm, ReasonForm

_json = msgspec.json.encode
#: How often a followed job is read, with its progress and its log.
LOOK_SECONDS: Final = 0.4


class WaitQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """How long to wait, in seconds."""

    wait: Annotated[float, Meta(ge=0, le=3_600)] = 0.0


class LogQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which attempt, counted from 1; 0 for the last. Lines up to the number `after` are left out."""

    attempt: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0


async def get(request: Request) -> Response:
    """Show one job, or the schedule that has this id."""
    form = await job_or_schedule(request, job_id_of(request.path_params["id"]))
    if isinstance(form, JobForm):
        return json_response(form, etag=job_tag(form.fence, form.updated_at))
    return json_response(form)


def job_tag(fence: int, updated_at: datetime) -> str:
    """Return the ETag of a job: it changes with every change of its row."""
    return f'"{fence}-{to_micros(updated_at)}"'


async def job_or_schedule(request: Request, job_id: JobId) -> JobForm | RecurringForm:
    """Return the job or the schedule with an id."""
    jobs = await request.engine.get([job_id])
    if jobs:
        return (await job_forms(request, jobs))[0]
    try:
        schedule = await request.engine.schedules.one(ScheduleId(job_id))
    except ScheduleNotFound:
        pass
    else:
        require(request.key, Action.SCHEDULES_READ)
        return recurring_form(schedule)
    return job_form(await request.engine.jobs.one(job_id))


async def job_forms(request: Request, jobs: Sequence[Job]) -> Sequence[JobForm]:
    """Convert jobs to the form of the requested path."""
    return await with_legacy_fields(request, [job_form(job) for job in jobs])


async def with_legacy_fields(request: Request, jobs: Sequence[JobForm]) -> Sequence[JobForm]:
    """Add the fields that only the paths without `/v1` have."""
    if request.path.startswith("/v1/"):
        return jobs
    ids = {schedule_id_of(job.schedule_id) for job in jobs if job.schedule_id is not None}
    rules = {to_text(one.id): one.rule for one in await request.engine.store.schedules(tuple(ids))} if ids else {}
    return [task_form(job, rules.get(job.schedule_id) if job.schedule_id else None) for job in jobs]


async def list_jobs(request: Request) -> Response:
    """List jobs, newest first; of finished ones alone the last finished first."""
    items, cursor = await _page(request)
    is_partial = cursor is not None and len(items) < request.query(JobListQuery).limit
    return json_response(JobPage(items=list(items), next_cursor=cursor, partial=is_partial))


async def list_as_array(request: Request) -> Response:
    """List jobs as a bare array, with the next page in a `Link` header, as on the legacy paths."""
    items, cursor = await _page(request)
    response = json_response(items)
    if cursor is not None:
        kept = [pair for pair in parse_qsl(request.scope["query_string"].decode()) if pair[0] != "cursor"]
        address = f"{request.path}?{urlencode([*kept, ('cursor', cursor)])}"
        response.headers.append((b"link", f'<{address}>; rel="next"'.encode()))
    return response


async def _page(request: Request) -> tuple[Sequence[JobForm], str | None]:
    listing = request.query(JobListQuery)
    # Legacy lists always include the heavy fields.
    fields = fields_of(listing.fields) if request.path.startswith("/v1/") else frozenset(HEAVY_FIELDS)
    if listing.ids is not None:
        ids = [id_in_field(text, "ids") for text in listing.ids.split(",") if text]
        if len(ids) > request.context.limits.page:
            raise invalid([("ids", f"{len(ids)} ids; at most {request.context.limits.page} at once")])
        jobs = await jobs_by_id(request.context, ids, fields)
        jobs = [job for job in jobs if covers_queue(request.key.queues, job.queue)]
        return await with_legacy_fields(request, [strip_heavy_fields(job_form(job), fields) for job in jobs]), None
    query = within_queues(request.key, await query_of(listing, request))
    items, cursor = await job_page(request.context, query, KIND, fields)
    return await with_legacy_fields(request, items), cursor


async def attempts(request: Request) -> Response:
    """List a job's attempts, oldest first."""
    job = await request.engine.jobs.one(job_id_of(request.path_params["id"]))
    found = await request.engine.store.attempts(job.id)
    return json_response(AttemptList(items=[attempt_form(one, number) for number, one in enumerate(found, 1)]))


async def logs(request: Request) -> Response:
    """Show the log of one attempt of a job: its last lines."""
    query = request.query(LogQuery)
    job = await request.engine.jobs.one(job_id_of(request.path_params["id"]))
    found = await request.engine.store.attempts(job.id)
    if query.attempt > len(found):
        raise invalid([("attempt", f"{query.attempt} is not known; the job has {len(found)} attempts")])
    return json_response(log_form(found, query.attempt, query.after))


async def explain(request: Request) -> Response:
    """Explain why a job is in its state."""
    settings = request.context.settings
    # A process that has just started does not know the leader yet.
    is_starting = request.engine.clock() - request.context.started_at < ELECTION
    has_leader = None if settings.current_leader is None else is_starting or settings.current_leader() is not None
    context = ExplainContext(settings.store_is_writable(), has_leader, request.context.counts.census)
    explanation = await request.engine.explain(job_id_of(request.path_params["id"]), context)
    reasons = [ReasonForm(**asdict(reason)) for reason in explanation.reasons]
    return json_response(ExplanationForm(id=to_text(explanation.job.id), state=explanation.job.state, reasons=reasons))


async def result(request: Request) -> Response:
    """Return the result of a job; wait for it on request. 202 while it has none."""
    job_id = job_id_of(request.path_params["id"])
    await request.body()
    job = await wait_for_end(request, job_id, timedelta(seconds=_wait_seconds(request)))
    if job.state in FINISHED:
        return json_response(result_form(job))
    return json_response(result_form(job), 202, retry_after="1")


def _wait_seconds(request: Request) -> float:
    """Return how long to wait: `?wait=30`, or `Prefer: wait=30` (RFC 7240)."""
    seconds = request.query(WaitQuery).wait
    prefer = request.header(b"prefer")
    return seconds or (preferred_wait(prefer) if prefer else None) or 0.0


async def follow(request: Request) -> StreamResponse:
    """Stream the states, the progress and the log of a job until it has ended."""
    job = await request.engine.jobs.one(job_id_of(request.path_params["id"]))
    await request.body()
    return StreamResponse(_job_events(request, job), EVENT_STREAM)


async def _job_events(request: Request, job: Job) -> AsyncGenerator[bytes, None]:
    last_seen = request.header(b"last-event-id")
    sent = _SentUpdates(request)
    last: str | None = None
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    with request.engine.broker.subscribe((TIMETABLE, job.queue)) as subscription:
        while True:
            is_over = job.state in FINISHED
            number = f"{job.fence}-{job.state}-{int(job.updated_at.timestamp() * 1_000_000)}"
            if is_over and number == last_seen:
                return
            changes = (
                []
                if number in {last_seen, last}
                else [sse_event("job", _json(visible(request, job_form(job))), number)]
            )
            updates = sent.updates(await request.engine.store.attempts(job.id)) if job.fence else []
            # The end comes last: a client need not read on after it.
            for event in (*updates, *changes) if is_over else (*changes, *updates):
                yield event
                sent_at = loop.time()
            if is_over:
                return
            last = number
            if loop.time() - sent_at > SILENCE_SECONDS:
                yield b": still here\n\n"
                sent_at = loop.time()
            await subscription.wait(timedelta(seconds=LOOK_SECONDS))
            try:
                job = await request.engine.jobs.one(job.id)
            except JobNotFound:
                return


class _SentUpdates:
    """What a stream has sent of the last attempt: its progress, and its log up to a line."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._attempt = 0
        self._progress: str | None = None
        self._line = 0
        self._encrypted: str | None = None

    def updates(self, attempts: Sequence[Attempt]) -> list[bytes]:
        """Return the events for what is new."""
        if not attempts:
            return []
        if len(attempts) != self._attempt:
            self._attempt, self._progress, self._line, self._encrypted = len(attempts), None, 0, None
        events = []
        progress = attempts[-1].progress
        if progress is not None and progress != self._progress:
            self._progress = progress
            shown = visible_progress(self._request, progress_form(progress))
            events.append(sse_event("progress", _json({"progress": shown})))
        log = log_form(attempts, 0, self._line)
        if log.items or (log.encrypted is not None and log.encrypted != self._encrypted):
            self._line = log.items[-1].number if log.items else 0
            self._encrypted = log.encrypted
            events.append(sse_event("log", _json(visible(self._request, log))))
        return events


_OLDER: Final = "older paths"
_GET = Route(
    method="GET",
    path="/v1/jobs/{id}",
    action=Action.JOBS_READ,
    queue_check=QueueCheck.JOB,
    handler=get,
    summary="Show one job, or the schedule that has this id",
    tag="jobs",
    responses={200: JobForm | RecurringForm},
)
_LIST = Route(
    method="GET",
    path="/v1/jobs",
    action=Action.JOBS_READ,
    queue_check=QueueCheck.HANDLER,
    handler=list_jobs,
    summary="List jobs, newest first",
    tag="jobs",
    query=JobListQuery,
    responses={200: JobPage},
)
ROUTES = (
    _GET,
    _GET.at("/jobs/{id}", responses={200: TaskForm | RecurringForm}, tag=_OLDER),
    _GET.at("/tasks/{id}", responses={200: TaskForm | RecurringForm}, tag=_OLDER),
    _LIST,
    _LIST.at("/jobs", handler=list_as_array, responses={200: list[TaskForm]}, tag=_OLDER),
    _LIST.at("/tasks", handler=list_as_array, responses={200: list[TaskForm]}, tag=_OLDER),
    Route(
        method="GET",
        path="/v1/jobs/{id}/attempts",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.JOB,
        handler=attempts,
        summary="List a job's attempts, oldest first",
        tag="jobs",
        responses={200: AttemptList},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/logs",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.JOB,
        handler=logs,
        summary="Show the log of an attempt: its last lines",
        tag="jobs",
        query=LogQuery,
        responses={200: LogForm},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/explain",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.JOB,
        handler=explain,
        summary="Explain why a job is in its state",
        tag="jobs",
        responses={200: ExplanationForm},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/result",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.JOB,
        handler=result,
        summary="Give the result of a job; 202 while it has not ended",
        tag="jobs",
        query=WaitQuery,
        headers=(PREFER,),
        responses={200: ResultForm, 202: ResultForm},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/events",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.JOB,
        handler=follow,
        summary="Follow a job until it has ended, as server-sent events",
        tag="jobs",
        headers=(LAST_STATE,),
        responses={200: EVENT_STREAM},
    ),
)
