"""Schedules: create, change, pause, run, and list past and future fire times. `{id}` is an id or a name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.api.cursors import cut_page, decode_cursor, encode_cursor
from rota.api.errors import HttpError, invalid
from rota.api.headers import IDEMPOTENCY_KEY, IF_MATCH
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.job_filter import PageQuery
from rota.api.job_pages import PAGE_BYTES, template_bytes
from rota.api.permissions import require_queues
from rota.api.redaction import refuse_redacted
from rota.api.router import Handler, QueueCheck, Route
from rota.api.routes.jobs_submit import check_payloads, header_key
from rota.core.access import Action, covers_queue
from rota.core.cron import clock_changes
from rota.core.errors import JobNotFound
from rota.core.ids import ScheduleId, to_number, to_text
from rota.core.schedule import Schedule, rule_of, zone_of
from rota.core.submission import IdempotencyKey, request_hash
from rota.core.time import from_micros, to_micros
from rota.ports.store import Receipt
from rota.wire.jobs import JobForm, job_form
from rota.wire.scalars import moment_of
from rota.wire.schedules import (
    BackfillReply,
    BackfillRequest,
    Forecast,
    ForecastItem,
    OccurrencePage,
    PauseRequest,
    PreviewReply,
    PreviewRequest,
    RecentRunsPage,
    ScheduleChange,
    ScheduleForm,
    SchedulePage,
    ScheduleRequest,
    apply_change,
    clock_change_form,
    draft_of,
    occurrence_form,
    recent_runs,
    refuse_without_effect,
    schedule_form,
)

KIND: Final = "schedules"
FIRES: Final = "occurrences"
#: The most fire times in a forecast, in total and per schedule.
_LONGEST_FORECAST: Final = 5_000
#: So many schedules, with payloads of up to a megabyte each, are read at once for a page.
_READ_AT_ONCE: Final = 25
_PER_SCHEDULE: Final = 500
#: How many jobs are read in one piece.
_JOBS_AT_ONCE: Final = 500


class NextFireTimesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many of the next fire times to list."""

    count: Annotated[int, Meta(ge=1, le=1_000)] = 10


class RecentRunsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many of the last runs of each schedule, and the page of schedules."""

    count: Annotated[int, Meta(ge=1, le=100)] = 30
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    cursor: Annotated[str, Meta(max_length=500)] | None = None


class ForecastQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """How far ahead the forecast goes."""

    hours: Annotated[float, Meta(gt=0, le=8_784)] = 24.0


async def requested_schedule(request: Request) -> Schedule:
    """Return the schedule in the path, by id or by name."""
    id_or_name = request.path_params["id"]
    try:
        matches = await request.engine.store.schedules([ScheduleId(to_number(id_or_name))])
    except JobNotFound:
        matches = ()
    return matches[0] if matches else await request.engine.schedules.named(id_or_name)


async def create(request: Request) -> Response:
    """Create a schedule; its name must be free."""
    form = await request.read(ScheduleRequest)
    refuse_without_effect(form, form.catch_up)
    draft = draft_of(form, request.context.settings.defaults)
    check_payloads(draft.template, request.context.settings, "job.")
    require_queues(request.key, draft.template)
    schedule = await request.engine.schedules.create(draft, request.actor)
    return _response(schedule, 201)


async def get(request: Request) -> Response:
    return _response(await requested_schedule(request))


async def list_schedules(request: Request) -> Response:
    """List schedules by name."""
    listing = request.query(PageQuery)
    after = decode_cursor(KIND, listing.cursor) or ""
    async with request.context.large_pages:
        items, cursor = await _page(request, after, listing.limit)
        covered = [schedule_form(one) for one in items if covers_queue(request.key.queues, one.template.queue)]
        return json_response(SchedulePage(items=covered, next_cursor=cursor))


async def _page(request: Request, after: str, limit: int) -> tuple[Sequence[Schedule], str | None]:
    """Read a page, cut by its number and its bytes: the payload of a schedule may have a megabyte."""
    page: list[Schedule] = []
    total = 0
    while True:
        found = await request.engine.schedules.all(after=after, limit=_READ_AT_ONCE)
        for one in found:
            total += template_bytes(one.template)
            if page and (len(page) == limit or total > PAGE_BYTES):
                return page, encode_cursor(KIND, page[-1].name)
            page.append(one)
        if len(found) < _READ_AT_ONCE:
            return page, None
        after = page[-1].name


async def edit(request: Request) -> Response:
    """Change a schedule; with `If-Match` only if it is still as it was read."""
    change = await request.read(ScheduleChange)
    schedule = await requested_schedule(request)
    match = request.header(b"if-match")
    if match is not None and match.strip() not in {"*", _tag(schedule)}:
        raise HttpError(412, "precondition_failed", f"schedule {schedule.name!r} was changed meanwhile; read it again")
    edited = apply_change(schedule, change, request.context.settings.defaults)
    refuse_redacted(request.key, edited.template.payload)
    check_payloads(edited.template, request.context.settings, "job.")
    require_queues(request.key, edited.template)
    return _response(await request.engine.schedules.edit(edited, request.actor))


async def drop(request: Request) -> Response:
    """Delete a schedule; jobs it has created stay."""
    await request.engine.schedules.drop((await requested_schedule(request)).id, request.actor)
    return empty_response()


async def pause(request: Request) -> Response:
    """Stop a schedule from firing."""
    body = await request.read_or(PauseRequest, PauseRequest())
    if body.resume_at is not None:
        raise invalid([("resume_at", "a schedule does not resume by itself; a queue does")])
    return _response(
        await request.engine.schedules.pause((await requested_schedule(request)).id, body.reason, request.actor)
    )


async def resume(request: Request) -> Response:
    """Let a schedule fire again, from now on."""
    return _response(await request.engine.schedules.resume((await requested_schedule(request)).id, request.actor))


async def run_now(request: Request) -> Response:
    """Create a job of a schedule at once, beside its fire times; a repeated `Idempotency-Key` creates no second one."""
    schedule, key, name = await requested_schedule(request), None, header_key(request)
    if name is not None:
        key = IdempotencyKey(name, request_hash(f"run_now {schedule.id}".encode()), request.key.key_scope)
    inserted = await request.engine.schedules.run_now(schedule.id, request.actor, key)
    form = job_form(await request.engine.jobs.one(inserted.job_id))
    place = f"/v1/jobs/{form.id}"
    if inserted.receipt is Receipt.REPLAYED:
        return json_response(form, location=place, idempotent_replayed="true")
    return json_response(form, 201, location=place)


async def backfill(request: Request) -> Response:
    """Create the jobs of past fire times that were missed."""
    body = await request.read(BackfillRequest)
    start, end = moment_of(body.start, "from"), moment_of(body.end, "to")
    if start is None or end is None or end < start:
        raise invalid([("to", "must not come before 'from'")])
    schedule = await requested_schedule(request)
    if body.dry_run:
        times = await request.engine.schedules.backfill_times(schedule.id, start, end)
        return json_response(BackfillReply(times=list(times)))
    made = await request.engine.schedules.backfill(schedule.id, start, end, request.actor)
    return json_response(BackfillReply(jobs=[to_text(job_id) for job_id in made]))


async def skip(request: Request) -> Response:
    """Skip the next fire time of a schedule."""
    await request.body()
    return _response(await request.engine.schedules.skip_next((await requested_schedule(request)).id, request.actor))


async def occurrences(request: Request) -> Response:
    """List past fire times of a schedule, newest first."""
    listing = request.query(PageQuery)
    place = decode_cursor(FIRES, listing.cursor)
    before = None if place is None else _time_at(place)
    schedule = await requested_schedule(request)
    fired = await request.engine.schedules.occurrences(schedule.id, before=before, limit=listing.limit + 1)
    items, cursor = cut_page(FIRES, fired, listing.limit, lambda one: str(to_micros(one.fire_time)))
    return json_response(OccurrencePage(items=[occurrence_form(one) for one in items], next_cursor=cursor))


def _time_at(place: str) -> datetime:
    try:
        return from_micros(int(place))
    except (ValueError, OverflowError):
        raise invalid([("cursor", "this is not a cursor of this list; take it from 'next_cursor'")]) from None


async def next_fire_times(request: Request) -> Response:
    schedule = await requested_schedule(request)
    times = schedule.preview(request.engine.clock(), request.query(NextFireTimesQuery).count)
    return json_response(_preview(schedule.rule, schedule.zone, times))


async def preview(request: Request) -> Response:
    """Show the next fire times of a rule, without a schedule."""
    body = await request.read(PreviewRequest)
    after = moment_of(body.after, "after")
    times = request.engine.schedules.preview(body.cron, body.zone, body.count, after)
    reply = _preview(str(rule_of(body.cron)), body.zone, times)
    changes = clock_changes(rule_of(body.cron), zone_of(body.zone), after or request.engine.clock())
    reply.clock_changes = [clock_change_form(one) for one in changes]
    return json_response(reply)


def _preview(rule: str, zone: str, times: list[datetime]) -> PreviewReply:
    local = [one.astimezone(zone_of(zone)).isoformat() for one in times]
    return PreviewReply(cron=rule, zone=zone, times=[one.astimezone(UTC) for one in times], local_times=local)


async def recent(request: Request) -> Response:
    """List the last runs of several schedules, with their jobs."""
    query = request.query(RecentRunsQuery)
    engine, after = request.engine, decode_cursor(KIND, query.cursor) or ""
    found = await engine.schedules.all(after=after, limit=query.limit + 1)
    schedules, cursor = cut_page(KIND, found, query.limit, lambda one: one.name)
    covered = [one for one in schedules if covers_queue(request.key.queues, one.template.queue)]
    past = [await engine.schedules.occurrences(one.id, limit=query.count) for one in covered]
    ids = [run.job_id for runs in past for run in runs if run.job_id is not None]
    jobs = {
        job.id: job
        for start in range(0, len(ids), _JOBS_AT_ONCE)
        for job in await engine.get(ids[start : start + _JOBS_AT_ONCE])
    }
    items = [recent_runs(one, runs, jobs) for one, runs in zip(covered, past, strict=True)]
    return json_response(RecentRunsPage(items=items, next_cursor=cursor))


async def forecast(request: Request) -> Response:
    """List the fire times of all schedules within the next hours."""
    now = request.engine.clock()
    until = now + timedelta(hours=request.query(ForecastQuery).hours)
    items: list[ForecastItem] = []
    is_complete = True
    async for schedule in _all(request):
        times = replace(schedule, end_at=min(schedule.end_at or until, until)).preview(now, _PER_SCHEDULE + 1)
        is_complete = is_complete and len(times) <= _PER_SCHEDULE
        text = to_text(schedule.id)
        items += [ForecastItem(at=at, schedule_id=text, name=schedule.name) for at in times[:_PER_SCHEDULE]]
        # Computing fire times takes CPU time: let other requests run in between.
        await asyncio.sleep(0)
    items.sort(key=lambda item: item.at)
    is_complete = is_complete and len(items) <= _LONGEST_FORECAST
    return json_response(Forecast(until=until, items=items[:_LONGEST_FORECAST], is_complete=is_complete))


async def _all(request: Request) -> AsyncIterator[Schedule]:
    """Return every schedule with a next fire time."""
    after = ""
    while batch := await request.engine.schedules.all(after=after, limit=500):
        for schedule in batch:
            is_covered = covers_queue(request.key.queues, schedule.template.queue)
            if is_covered and schedule.paused_at is None and schedule.next_fire_at is not None:
                yield schedule
        after = batch[-1].name


def _tag(schedule: Schedule) -> str:
    return f'"{schedule.version}"'


def _response(schedule: Schedule, status: int = 200) -> Response:
    place = f"/v1/schedules/{to_text(schedule.id)}"
    return json_response(schedule_form(schedule), status, etag=_tag(schedule), location=place)


def _route(method: str, path: str, action: Action, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    check = QueueCheck.SCHEDULE if "{id}" in path else QueueCheck.HANDLER
    return Route(
        **{
            "method": method,
            "path": path,
            "action": action,
            "handler": handler,
            "summary": summary,
            "tag": "schedules",
            "queue_check": check,
            **more,
        }
    )


_ONE: Final = "/v1/schedules/{id}"
_FORM: Final = {200: ScheduleForm}
ROUTES = (
    _route(
        "GET",
        "/v1/schedules",
        Action.SCHEDULES_READ,
        list_schedules,
        "List schedules by name",
        query=PageQuery,
        responses={200: SchedulePage},
    ),
    _route(
        "POST",
        "/v1/schedules",
        Action.SCHEDULES_EDIT,
        create,
        "Create a schedule",
        body=ScheduleRequest,
        responses={201: ScheduleForm},
        error_statuses=(409,),
    ),
    _route(
        "POST",
        "/v1/schedules:preview",
        Action.SCHEDULES_READ,
        preview,
        "Show the next fire times of a rule",
        body=PreviewRequest,
        responses={200: PreviewReply},
    ),
    _route(
        "GET",
        "/v1/schedules/forecast",
        Action.SCHEDULES_READ,
        forecast,
        "List the next fire times of all schedules",
        query=ForecastQuery,
        responses={200: Forecast},
    ),
    _route(
        "GET",
        "/v1/schedules:recent",
        Action.SCHEDULES_READ,
        recent,
        "List the last runs of schedules, with their jobs",
        query=RecentRunsQuery,
        responses={200: RecentRunsPage},
    ),
    _route("GET", _ONE, Action.SCHEDULES_READ, get, "Show a schedule, by id or by name", responses=_FORM),
    _route(
        "PATCH",
        _ONE,
        Action.SCHEDULES_EDIT,
        edit,
        "Change a schedule; what is left out stays",
        body=ScheduleChange,
        headers=(IF_MATCH,),
        responses=_FORM,
        error_statuses=(409, 412),
    ),
    _route(
        "DELETE",
        _ONE,
        Action.SCHEDULES_EDIT,
        drop,
        "Delete a schedule; jobs it has created stay",
        responses={204: None},
    ),
    _route(
        "POST",
        f"{_ONE}/pause",
        Action.SCHEDULES_PAUSE,
        pause,
        "Stop a schedule from firing",
        body=PauseRequest,
        body_is_optional=True,
        responses=_FORM,
        error_statuses=(409,),
    ),
    _route(
        "POST",
        f"{_ONE}/resume",
        Action.SCHEDULES_PAUSE,
        resume,
        "Let a schedule fire again, from now on",
        responses=_FORM,
        error_statuses=(409,),
    ),
    _route(
        "POST",
        f"{_ONE}/run-now",
        Action.SCHEDULES_RUN,
        run_now,
        "Create a job of a schedule at once",
        headers=(IDEMPOTENCY_KEY,),
        responses={201: JobForm, 200: JobForm},
    ),
    _route(
        "POST",
        f"{_ONE}/backfill",
        Action.SCHEDULES_RUN,
        backfill,
        "Create the jobs of missed fire times in a past period, or list those fire times",
        body=BackfillRequest,
        responses={200: BackfillReply},
    ),
    _route(
        "POST",
        f"{_ONE}/skip",
        Action.SCHEDULES_PAUSE,
        skip,
        "Skip the next fire time of a schedule",
        responses=_FORM,
        error_statuses=(409,),
    ),
    _route(
        "GET",
        f"{_ONE}/occurrences",
        Action.SCHEDULES_READ,
        occurrences,
        "List past fire times and their outcome",
        query=PageQuery,
        responses={200: OccurrencePage},
    ),
    _route(
        "GET",
        f"{_ONE}/next",
        Action.SCHEDULES_READ,
        next_fire_times,
        "Show the next fire times",
        query=NextFireTimesQuery,
        responses={200: PreviewReply},
    ),
)
