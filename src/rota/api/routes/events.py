"""The ledger of operator actions, the live stream, and events that jobs wait for."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from rota.api.cursors import cut_page, decode_cursor
from rota.api.errors import HttpError, invalid
from rota.api.headers import LAST_EVENT
from rota.api.http import Request, Response, StreamResponse, json_response
from rota.api.job_filter import PageQuery
from rota.api.permissions import require
from rota.api.router import EVENT_STREAM, Route
from rota.api.topics import OVERVIEW, topics_of
from rota.core.access import Action
from rota.wire.cluster import LedgerPage, ledger_entry_form
from rota.wire.events import EmitReply, EmitRequest, EventForm, emission_of, emit_reply, event_form

KIND: Final = "ledger"
_LARGEST: Final = 2**63 - 1


class StreamQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Topics separated by commas: overview, jobs, jobs:QUEUE, job:ID, dead, operations, schedules, workers, ledger.

    `overview` sends a snapshot of all counts and updates; the others send events `changed` with the `topic`.
    """

    topics: Annotated[str, Meta(max_length=4_000)] = OVERVIEW


async def ledger(request: Request) -> Response:
    """List operator actions, newest first."""
    listing = request.query(PageQuery)
    place = decode_cursor(KIND, listing.cursor)
    if place is not None and not (place.isdecimal() and int(place) <= _LARGEST):
        raise invalid([("cursor", "this is not a cursor of this list; take it from 'next_cursor'")])
    before = None if place is None else int(place)
    entries = await request.engine.store.ledger(before=before, limit=listing.limit + 1)
    items, cursor = cut_page(KIND, entries, listing.limit, lambda entry: str(entry.number))
    return json_response(LedgerPage(items=[ledger_entry_form(entry) for entry in items], next_cursor=cursor))


async def stream(request: Request) -> StreamResponse:
    """Stream a snapshot, then updates; and changes of other topics."""
    topics = topics_of(request.query(StreamQuery).topics)
    for topic in topics:
        require(request.key, topic.action)
    await request.body()
    return StreamResponse(request.context.live.follow(request.header(b"last-event-id"), topics), EVENT_STREAM)


async def emit(request: Request) -> Response:
    """Emit an event; the first emission of a name counts."""
    body = await request.read_or(EmitRequest, EmitRequest())
    emitted = await request.engine.events.emit(emission_of(request.path_params["name"], body), request.actor)
    return json_response(emit_reply(emitted), 201 if emitted.is_new else 200)


async def get_event(request: Request) -> Response:
    """Show an event that was emitted and has not expired."""
    name = request.path_params["name"]
    event = await request.engine.events.one(name)
    if event is None:
        detail = f"event {name[:60]!r} was not emitted, or has expired"
        raise HttpError(404, "not_found", detail, fix="emit it with POST /v1/events/{name}")
    return json_response(event_form(event))


ROUTES = (
    Route(
        method="GET",
        path="/v1/events",
        action=Action.LEDGER_READ,
        handler=ledger,
        summary="List operator actions, newest first",
        tag="events",
        query=PageQuery,
        responses={200: LedgerPage},
    ),
    Route(
        method="GET",
        path="/v1/events/stream",
        action=Action.JOBS_READ,
        handler=stream,
        summary="Follow topics as server-sent events: changes of any process, four a second at most",
        tag="events",
        query=StreamQuery,
        headers=(LAST_EVENT,),
        responses={200: EVENT_STREAM},
    ),
    Route(
        method="POST",
        path="/v1/events/{name}",
        action=Action.EVENTS_EMIT,
        handler=emit,
        summary="Emit an event and wake the jobs that wait for it; the first emission of a name counts",
        tag="events",
        body=EmitRequest,
        body_is_optional=True,
        responses={201: EmitReply, 200: EmitReply},
        descriptions={200: "It was emitted before; this is the first emission."},
    ),
    Route(
        method="GET",
        path="/v1/events/{name}",
        action=Action.JOBS_READ,
        handler=get_event,
        summary="Show an event that was emitted",
        tag="events",
        responses={200: EventForm},
        error_statuses=(404,),
    ),
)
