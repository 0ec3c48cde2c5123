"""The ledger of operator actions, the live stream, and events that jobs wait for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from rota.api.cursors import decode_cursor, encode_cursor
from rota.api.errors import HttpError, invalid
from rota.api.headers import LAST_EVENT
from rota.api.http import Request, Response, StreamResponse, json_response
from rota.api.permissions import require
from rota.api.router import EVENT_STREAM, JSON_LINES, Route
from rota.api.topics import OVERVIEW, topics_of
from rota.core.access import Action
from rota.engine.ledger import LedgerFilter, all_entries, search_ledger, verify_ledger
from rota.wire.cluster import LedgerPage, LedgerVerification, ledger_entry_form
from rota.wire.events import EmitReply, EmitRequest, EventForm, emission_of, emit_reply, event_form
from rota.wire.scalars import Moment, Name, moment_of

KIND: Final = "ledger"
_LARGEST: Final = 2**63 - 1
#: How many entries one request verifies; `rota db check` verifies all.
MOST_VERIFIED: Final = 100_000


class LedgerSearch(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which operator actions. `action` may end in a star (`queues.*`); `surface` is api, cli, ui or sdk."""

    actor: Name | None = None
    action: Name | None = None
    target: Name | None = None
    surface: Name | None = None
    since: Moment | None = None
    until: Moment | None = None


class LedgerQuery(LedgerSearch, kw_only=True, forbid_unknown_fields=True):
    """Which operator actions, and the page."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    cursor: Annotated[str, Meta(max_length=500)] | None = None


def _filter(filters: LedgerSearch) -> LedgerFilter:
    return LedgerFilter(
        actor=filters.actor or "",
        action=filters.action or "",
        target=filters.target or "",
        surface=filters.surface or "",
        since=moment_of(filters.since, "since"),
        until=moment_of(filters.until, "until"),
    )


class StreamQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Topics separated by commas: overview, jobs, jobs:QUEUE, job:ID, dead, operations, schedules, workers, ledger.

    `overview` sends a snapshot of all counts and updates; the others send events `changed` with the `topic`.
    """

    topics: Annotated[str, Meta(max_length=4_000)] = OVERVIEW


async def ledger(request: Request) -> Response:
    """List operator actions, newest first."""
    listing = request.query(LedgerQuery)
    place = decode_cursor(KIND, listing.cursor)
    if place is not None and not (place.isdecimal() and int(place) <= _LARGEST):
        raise invalid([("cursor", "this is not a cursor of this list; take it from 'next_cursor'")])
    before = None if place is None else int(place)
    entries, rest = await search_ledger(request.engine.store, _filter(listing), before=before, limit=listing.limit)
    cursor = None if rest is None else encode_cursor(KIND, str(rest))
    items = [ledger_entry_form(entry) for entry in entries]
    is_partial = cursor is not None and len(items) < listing.limit
    return json_response(LedgerPage(items=items, next_cursor=cursor, partial=is_partial))


async def export(request: Request) -> StreamResponse:
    """Stream operator actions as JSON lines, newest first."""
    return StreamResponse(_lines(request, _filter(request.query(LedgerSearch))), JSON_LINES)


async def _lines(request: Request, filters: LedgerFilter) -> AsyncGenerator[bytes, None]:
    encode = msgspec.json.encode
    async for entries in all_entries(request.engine.store, filters):
        yield b"".join(encode(ledger_entry_form(entry)) + b"\n" for entry in entries)


async def verify(request: Request) -> Response:
    """Verify the hash chain of the ledger, newest entries first."""
    check = await verify_ledger(request.engine.store, most=MOST_VERIFIED)
    return json_response(
        LedgerVerification(
            is_intact=check.broken is None,
            is_complete=check.is_complete,
            count=check.count,
            last_number=None if check.last is None else check.last.number,
            last_digest=None if check.last is None else check.last.digest,
            finding=check.finding,
        )
    )


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
        query=LedgerQuery,
        responses={200: LedgerPage},
    ),
    Route(
        method="GET",
        path="/v1/events:export",
        action=Action.LEDGER_READ,
        handler=export,
        summary="Export operator actions as JSON lines, newest first",
        tag="events",
        query=LedgerSearch,
        responses={200: JSON_LINES},
    ),
    Route(
        method="GET",
        path="/v1/events:verify",
        action=Action.LEDGER_READ,
        handler=verify,
        summary="Verify that no entry of the ledger was changed or deleted",
        tag="events",
        responses={200: LedgerVerification},
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
