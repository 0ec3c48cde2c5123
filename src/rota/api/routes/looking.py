"""Looking at jobs: one, many, its attempts, why it is where it is, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Meta, Struct

from rota.api.calls import Answer, Call, Stream, shown
from rota.api.errors import invalid
from rota.api.filtering import KIND, JobListing, query_of
from rota.api.headers import LAST_STATE, PREFER, preferred_wait
from rota.api.job_pages import HEAVY, brief, chosen, fields_of, page_of
from rota.api.live import SILENCE_SECONDS, event_text
from rota.api.settings import Scope
from rota.api.table import EVENT_STREAM, Route
from rota.api.waiting import ended
from rota.core.errors import JobNotFound, ScheduleNotFound
from rota.core.identity import JobId, ScheduleId, to_text
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, State
from rota.ports.places import TIMETABLE
from rota.wire.jobs import (
    AttemptList,
    JobForm,
    JobPage,
    ResultForm,
    TaskForm,
    attempt_form,
    form_of,
    result_form,
    task_form,
)
from rota.wire.scalars import id_within, job_id_of, schedule_id_of
from rota.wire.schedules import RecurringForm, recurring_form
from rota.wire.system import ExplanationForm, ReasonForm

#: How often to look at a running job's progress while someone follows it.
LOOK_SECONDS: Final = 1.0


class Waiting(Struct, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for something, in seconds."""

    wait: Annotated[float, Meta(ge=0, le=3_600)] = 0.0


async def get(call: Call) -> Answer:
    """Show one job, or the schedule that has this id."""
    return shown(await found(call, job_id_of(call.path_names["id"])))


async def found(call: Call, job_id: JobId) -> JobForm | RecurringForm:
    """Find the job or the schedule of an id."""
    jobs = await call.engine.get([job_id])
    if jobs:
        return (await forms(call, jobs))[0]
    try:
        return recurring_form(await call.engine.schedules.one(ScheduleId(job_id)))
    except ScheduleNotFound:
        pass
    return form_of(await call.engine.jobs.one(job_id))


async def forms(call: Call, jobs: Sequence[Job]) -> Sequence[JobForm]:
    """Show jobs as the path they were asked under does."""
    return await as_tasks(call, [form_of(job) for job in jobs])


async def as_tasks(call: Call, jobs: Sequence[JobForm]) -> Sequence[JobForm]:
    """Add the older names where the path is an older one."""
    if call.path.startswith("/v1/"):
        return jobs
    ids = {schedule_id_of(job.schedule_id) for job in jobs if job.schedule_id is not None}
    rules = {to_text(one.id): one.rule for one in await call.engine.store.schedules(tuple(ids))} if ids else {}
    return [task_form(job, rules.get(job.schedule_id) if job.schedule_id else None) for job in jobs]


async def list_jobs(call: Call) -> Answer:
    """List jobs, newest first; of finished ones alone the last finished first."""
    items, cursor = await _listed(call)
    return shown(JobPage(items=list(items), next_cursor=cursor))


async def list_plainly(call: Call) -> Answer:
    """List jobs as older systems did: a bare array, with the next page in a header."""
    items, cursor = await _listed(call)
    answer = shown(items)
    if cursor is not None:
        kept = [pair for pair in parse_qsl(call.scope["query_string"].decode()) if pair[0] != "cursor"]
        address = f"{call.path}?{urlencode([*kept, ('cursor', cursor)])}"
        answer.headers.append((b"link", f'<{address}>; rel="next"'.encode()))
    return answer


async def _listed(call: Call) -> tuple[Sequence[JobForm], str | None]:
    listing = call.query(JobListing)
    # The older lists always had them.
    fields = fields_of(listing.fields) if call.path.startswith("/v1/") else frozenset(HEAVY)
    if listing.ids is not None:
        ids = [id_within(text, "ids") for text in listing.ids.split(",") if text]
        if len(ids) > call.context.limits.page:
            raise invalid([("ids", f"{len(ids)} ids; at most {call.context.limits.page} at once")])
        jobs = await chosen(call.engine, ids, fields)
        return await as_tasks(call, [brief(form_of(job), fields) for job in jobs]), None
    found, cursor = await page_of(call.engine, query_of(listing, call.engine.clock()), KIND, fields)
    return await as_tasks(call, found), cursor


async def attempts(call: Call) -> Answer:
    """List a job's attempts, oldest first."""
    job = await call.engine.jobs.one(job_id_of(call.path_names["id"]))
    return shown(AttemptList(items=[attempt_form(one) for one in await call.engine.store.attempts(job.id)]))


async def explain(call: Call) -> Answer:
    """Say why a job is where it is."""
    explanation = await call.engine.explain(job_id_of(call.path_names["id"]))
    reasons = [ReasonForm(**asdict(reason)) for reason in explanation.reasons]
    return shown(ExplanationForm(id=to_text(explanation.job.id), state=explanation.job.state, reasons=reasons))


async def result(call: Call) -> Answer:
    """Say how a job ended; wait for that if asked to. 202 when it has not yet."""
    job_id = job_id_of(call.path_names["id"])
    await call.body()
    job = await ended(call, job_id, timedelta(seconds=_wait_seconds(call)))
    if job.state in FINISHED:
        return shown(result_form(job))
    return shown(result_form(job), 202, retry_after="1")


def _wait_seconds(call: Call) -> float:
    """Read how long to wait: `?wait=30`, or `Prefer: wait=30` (RFC 7240)."""
    asked = call.query(Waiting).wait
    prefer = call.header(b"prefer")
    return asked or (preferred_wait(prefer) if prefer else None) or 0.0


async def follow(call: Call) -> Stream:
    """Tell everything that happens to a job until it has ended."""
    job = await call.engine.jobs.one(job_id_of(call.path_names["id"]))
    await call.body()
    return Stream(_story(call, job), EVENT_STREAM)


async def _story(call: Call, job: Job) -> AsyncGenerator[bytes, None]:
    last_seen = call.header(b"last-event-id")
    told: tuple[str, str | None] | None = None
    loop = asyncio.get_running_loop()
    spoken = loop.time()
    with call.engine.broker.attend((TIMETABLE, job.queue)) as attendance:
        while True:
            progress = await _progress(call, job)
            number = f"{job.fence}-{job.state}-{int(job.updated_at.timestamp() * 1_000_000)}"
            if number != last_seen and (told is None or told[0] != number):
                yield event_text("job", msgspec.json.encode(form_of(job)), number)
                spoken = loop.time()
            if progress is not None and (told is None or told[1] != progress):
                yield event_text("progress", msgspec.json.encode({"progress": progress}))
                spoken = loop.time()
            told = (number, progress)
            if job.state in FINISHED:
                return
            if loop.time() - spoken > SILENCE_SECONDS:
                yield b": still here\n\n"
                spoken = loop.time()
            await attendance.wait(timedelta(seconds=LOOK_SECONDS))
            try:
                job = await call.engine.jobs.one(job.id)
            except JobNotFound:
                return


async def _progress(call: Call, job: Job) -> str | None:
    if job.state is not State.RUNNING:
        return None
    known = await call.engine.store.attempts(job.id)
    return known[-1].progress if known else None


_OLDER: Final = "older paths"
_GET = Route(
    method="GET",
    path="/v1/jobs/{id}",
    scope=Scope.READ,
    handler=get,
    summary="Show one job, or the schedule that has this id",
    family="jobs",
    gives={200: JobForm | RecurringForm},
)
_LIST = Route(
    method="GET",
    path="/v1/jobs",
    scope=Scope.READ,
    handler=list_jobs,
    summary="List jobs, newest first",
    family="jobs",
    query=JobListing,
    gives={200: JobPage},
)
ROUTES = (
    _GET,
    _GET.under("/jobs/{id}", gives={200: TaskForm | RecurringForm}, family=_OLDER),
    _GET.under("/tasks/{id}", gives={200: TaskForm | RecurringForm}, family=_OLDER),
    _LIST,
    _LIST.under("/jobs", handler=list_plainly, gives={200: list[TaskForm]}, family=_OLDER),
    _LIST.under("/tasks", handler=list_plainly, gives={200: list[TaskForm]}, family=_OLDER),
    Route(
        method="GET",
        path="/v1/jobs/{id}/attempts",
        scope=Scope.READ,
        handler=attempts,
        summary="List a job's attempts, oldest first",
        family="jobs",
        gives={200: AttemptList},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/explain",
        scope=Scope.READ,
        handler=explain,
        summary="Say why a job is where it is",
        family="jobs",
        gives={200: ExplanationForm},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/result",
        scope=Scope.READ,
        handler=result,
        summary="Say how a job ended; 202 when it has not yet",
        family="jobs",
        query=Waiting,
        headers=(PREFER,),
        gives={200: ResultForm, 202: ResultForm},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/events",
        scope=Scope.READ,
        handler=follow,
        summary="Follow a job until it has ended, as server-sent events",
        family="jobs",
        headers=(LAST_STATE,),
        gives={200: EVENT_STREAM},
    ),
)
