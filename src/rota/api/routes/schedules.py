"""Schedules: putting them up, changing them, and seeing what they did and will do. An id or a name tells which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.api.calls import Answer, Call, nothing, shown
from rota.api.cursors import opened, page
from rota.api.errors import Refusal, invalid
from rota.api.filtering import Listing
from rota.api.headers import IDEMPOTENCY_KEY, IF_MATCH
from rota.api.routes.submitting import check_payloads, header_key
from rota.api.settings import Scope
from rota.api.table import Handler, Route
from rota.core.errors import JobNotFound
from rota.core.identity import ScheduleId, to_number, to_text
from rota.core.instant import from_micros, to_micros
from rota.core.schedule import Schedule, rule_of, zone_of
from rota.core.submission import IdempotencyKey, request_hash
from rota.ports.store import Receipt
from rota.wire.jobs import JobForm, form_of
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
    ScheduleChange,
    ScheduleForm,
    SchedulePage,
    ScheduleRequest,
    changed,
    draft_of,
    occurrence_form,
    schedule_form,
)

KIND: Final = "schedules"
FIRES: Final = "occurrences"
#: The most fire times in a forecast, altogether and of one schedule.
_LONGEST_FORECAST: Final = 5_000
_PER_SCHEDULE: Final = 500


class Coming(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many of the next fire times are asked for."""

    count: Annotated[int, Meta(ge=1, le=1_000)] = 10


class Horizon(Struct, kw_only=True, forbid_unknown_fields=True):
    """How far ahead to look."""

    hours: Annotated[float, Meta(gt=0, le=8_784)] = 24.0


async def known(call: Call) -> Schedule:
    """Find the schedule that a path means, by id or by name."""
    word = call.path_names["id"]
    try:
        found = await call.engine.store.schedules([ScheduleId(to_number(word))])
    except JobNotFound:
        found = ()
    return found[0] if found else await call.engine.schedules.named(word)


async def create(call: Call) -> Answer:
    """Put a schedule up; its name must be free."""
    draft = draft_of(await call.read(ScheduleRequest), call.context.settings.defaults)
    check_payloads(draft.template, call.context.settings, "job.")
    schedule = await call.engine.schedules.create(draft, call.actor)
    return _shown(schedule, 201)


async def get(call: Call) -> Answer:
    """Show a schedule."""
    return _shown(await known(call))


async def list_schedules(call: Call) -> Answer:
    """List schedules by name."""
    listing = call.query(Listing)
    after = opened(KIND, listing.cursor) or ""
    found = await call.engine.schedules.all(after=after, limit=listing.limit + 1)
    items, cursor = page(KIND, found, listing.limit, lambda one: one.name)
    return shown(SchedulePage(items=[schedule_form(one) for one in items], next_cursor=cursor))


async def edit(call: Call) -> Answer:
    """Change a schedule; with `If-Match` only if it is still as it was read."""
    change = await call.read(ScheduleChange)
    schedule = await known(call)
    match = call.header(b"if-match")
    if match is not None and match.strip() not in {"*", _tag(schedule)}:
        raise Refusal(412, "precondition_failed", f"schedule {schedule.name!r} was changed meanwhile; read it again")
    edited = changed(schedule, change, call.context.settings.defaults)
    check_payloads(edited.template, call.context.settings, "job.")
    return _shown(await call.engine.schedules.edit(edited, call.actor))


async def drop(call: Call) -> Answer:
    """Delete a schedule; jobs it has made stay."""
    await call.engine.schedules.drop((await known(call)).id, call.actor)
    return nothing()


async def pause(call: Call) -> Answer:
    """Stop a schedule from firing."""
    request = await call.read_or(PauseRequest, PauseRequest())
    if request.resume_at is not None:
        raise invalid([("resume_at", "a schedule does not resume by itself; a queue does")])
    return _shown(await call.engine.schedules.pause((await known(call)).id, request.reason, call.actor))


async def resume(call: Call) -> Answer:
    """Let a schedule fire again, from now on."""
    return _shown(await call.engine.schedules.resume((await known(call)).id, call.actor))


async def run_now(call: Call) -> Answer:
    """Make a job of a schedule at once, beside its fire times; the same `Idempotency-Key` again makes no other one."""
    schedule, key, name = await known(call), None, header_key(call)
    if name is not None:
        key = IdempotencyKey(name, request_hash(f"run_now {schedule.id}".encode()), call.key.key_scope)
    inserted = await call.engine.schedules.run_now(schedule.id, call.actor, key)
    form = form_of(await call.engine.jobs.one(inserted.job_id))
    place = f"/v1/jobs/{form.id}"
    if inserted.receipt is Receipt.REPLAYED:
        return shown(form, location=place, idempotent_replayed="true")
    return shown(form, 201, location=place)


async def backfill(call: Call) -> Answer:
    """Make the jobs that a past stretch of time should have made and did not."""
    request = await call.read(BackfillRequest)
    start, end = moment_of(request.start, "from"), moment_of(request.end, "to")
    if start is None or end is None or end < start:
        raise invalid([("to", "must not come before 'from'")])
    made = await call.engine.schedules.backfill((await known(call)).id, start, end, call.actor)
    return shown(BackfillReply(jobs=[to_text(job_id) for job_id in made]))


async def occurrences(call: Call) -> Answer:
    """List what became of a schedule's fire times, newest first."""
    listing = call.query(Listing)
    place = opened(FIRES, listing.cursor)
    before = None if place is None else _moment_at(place)
    schedule = await known(call)
    found = await call.engine.schedules.occurrences(schedule.id, before=before, limit=listing.limit + 1)
    items, cursor = page(FIRES, found, listing.limit, lambda one: str(to_micros(one.fire_time)))
    return shown(OccurrencePage(items=[occurrence_form(one) for one in items], next_cursor=cursor))


def _moment_at(place: str) -> datetime:
    try:
        return from_micros(int(place))
    except (ValueError, OverflowError):
        raise invalid([("cursor", "this is no cursor of this list; take it from 'next_cursor'")]) from None


async def coming(call: Call) -> Answer:
    """Show a schedule's next fire times."""
    schedule = await known(call)
    times = schedule.preview(call.engine.clock(), call.query(Coming).count)
    return shown(_preview(schedule.rule, schedule.zone, times))


async def preview(call: Call) -> Answer:
    """Show the next fire times of a rule that is not yet put up."""
    request = await call.read(PreviewRequest)
    after = moment_of(request.after, "after")
    times = call.engine.schedules.preview(request.cron, request.zone, request.count, after)
    return shown(_preview(str(rule_of(request.cron)), request.zone, times))


def _preview(rule: str, zone: str, times: list[datetime]) -> PreviewReply:
    local = [one.astimezone(zone_of(zone)).isoformat() for one in times]
    return PreviewReply(cron=rule, zone=zone, times=[one.astimezone(UTC) for one in times], local_times=local)


async def forecast(call: Call) -> Answer:
    """Show what fires when, of all schedules, within the coming hours."""
    now = call.engine.clock()
    until = now + timedelta(hours=call.query(Horizon).hours)
    items: list[ForecastItem] = []
    is_complete = True
    async for schedule in _all(call):
        times = replace(schedule, end_at=min(schedule.end_at or until, until)).preview(now, _PER_SCHEDULE + 1)
        is_complete = is_complete and len(times) <= _PER_SCHEDULE
        text = to_text(schedule.id)
        items += [ForecastItem(at=at, schedule_id=text, name=schedule.name) for at in times[:_PER_SCHEDULE]]
        # Counting fire times is work; others are served between.
        await asyncio.sleep(0)
    items.sort(key=lambda item: item.at)
    is_complete = is_complete and len(items) <= _LONGEST_FORECAST
    return shown(Forecast(until=until, items=items[:_LONGEST_FORECAST], is_complete=is_complete))


async def _all(call: Call) -> AsyncIterator[Schedule]:
    """Give every schedule that will fire."""
    after = ""
    while batch := await call.engine.schedules.all(after=after, limit=500):
        for schedule in batch:
            if schedule.paused_at is None and schedule.next_fire_at is not None:
                yield schedule
        after = batch[-1].name


def _tag(schedule: Schedule) -> str:
    return f'"{schedule.version}"'


def _shown(schedule: Schedule, status: int = 200) -> Answer:
    place = f"/v1/schedules/{to_text(schedule.id)}"
    return shown(schedule_form(schedule), status, etag=_tag(schedule), location=place)


def _route(method: str, path: str, scope: Scope, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(method=method, path=path, scope=scope, handler=handler, summary=summary, family="schedules", **more)


_ONE: Final = "/v1/schedules/{id}"
_FORM: Final = {200: ScheduleForm}
ROUTES = (
    _route(
        "GET",
        "/v1/schedules",
        Scope.READ,
        list_schedules,
        "List schedules by name",
        query=Listing,
        gives={200: SchedulePage},
    ),
    _route(
        "POST",
        "/v1/schedules",
        Scope.SUBMIT,
        create,
        "Put a schedule up",
        takes=ScheduleRequest,
        gives={201: ScheduleForm},
        refuses=(409,),
    ),
    _route(
        "POST",
        "/v1/schedules:preview",
        Scope.READ,
        preview,
        "Show the next fire times of a rule",
        takes=PreviewRequest,
        gives={200: PreviewReply},
    ),
    _route(
        "GET",
        "/v1/schedules/forecast",
        Scope.READ,
        forecast,
        "Show what fires when, of all schedules",
        query=Horizon,
        gives={200: Forecast},
    ),
    _route("GET", _ONE, Scope.READ, get, "Show a schedule, by id or by name", gives=_FORM),
    _route(
        "PATCH",
        _ONE,
        Scope.ADMIN,
        edit,
        "Change a schedule; what is left out stays",
        takes=ScheduleChange,
        headers=(IF_MATCH,),
        gives=_FORM,
        refuses=(409, 412),
    ),
    _route("DELETE", _ONE, Scope.ADMIN, drop, "Delete a schedule; jobs it has made stay", gives={204: None}),
    _route(
        "POST",
        f"{_ONE}/pause",
        Scope.ADMIN,
        pause,
        "Stop a schedule from firing",
        takes=PauseRequest,
        body_is_optional=True,
        gives=_FORM,
        refuses=(409,),
    ),
    _route(
        "POST",
        f"{_ONE}/resume",
        Scope.ADMIN,
        resume,
        "Let a schedule fire again, from now on",
        gives=_FORM,
        refuses=(409,),
    ),
    _route(
        "POST",
        f"{_ONE}/run-now",
        Scope.SUBMIT,
        run_now,
        "Make a job of a schedule at once",
        headers=(IDEMPOTENCY_KEY,),
        gives={201: JobForm, 200: JobForm},
    ),
    _route(
        "POST",
        f"{_ONE}/backfill",
        Scope.SUBMIT,
        backfill,
        "Make the jobs of a past stretch of time",
        takes=BackfillRequest,
        gives={200: BackfillReply},
    ),
    _route(
        "GET",
        f"{_ONE}/occurrences",
        Scope.READ,
        occurrences,
        "List what became of the fire times",
        query=Listing,
        gives={200: OccurrencePage},
    ),
    _route(
        "GET", f"{_ONE}/next", Scope.READ, coming, "Show the next fire times", query=Coming, gives={200: PreviewReply}
    ),
)
