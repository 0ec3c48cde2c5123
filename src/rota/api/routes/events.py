"""The ledger of operator actions, and the live stream."""

from __future__ import annotations

from typing import Final

from rota.api.cursors import cut_page, decode_cursor
from rota.api.errors import invalid
from rota.api.headers import LAST_EVENT
from rota.api.http import Request, Response, StreamResponse, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import EVENT_STREAM, Route
from rota.core.access import Action
from rota.wire.cluster import LedgerPage, ledger_entry_form

KIND: Final = "ledger"
_LARGEST: Final = 2**63 - 1


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
    """Stream a snapshot, then updates."""
    await request.body()
    return StreamResponse(request.context.live.follow(request.header(b"last-event-id")), EVENT_STREAM)


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
        summary="Follow everything as server-sent events: a snapshot, then updates, four a second at most",
        tag="events",
        headers=(LAST_EVENT,),
        responses={200: EVENT_STREAM},
    ),
)
