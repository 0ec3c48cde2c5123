"""What happened: the ledger of operators' acts, and the live stream."""

from __future__ import annotations

from typing import Final

from rota.api.calls import Answer, Call, Stream, shown
from rota.api.cursors import opened, page
from rota.api.errors import invalid
from rota.api.filtering import Listing
from rota.api.headers import LAST_EVENT
from rota.api.settings import Scope
from rota.api.table import EVENT_STREAM, Route
from rota.wire.fleet import EntryPage, entry_form

KIND: Final = "ledger"
_LARGEST: Final = 2**63 - 1


async def ledger(call: Call) -> Answer:
    """List what operators did, newest first."""
    listing = call.query(Listing)
    place = opened(KIND, listing.cursor)
    if place is not None and not (place.isdecimal() and int(place) <= _LARGEST):
        raise invalid([("cursor", "this is no cursor of this list; take it from 'next_cursor'")])
    before = None if place is None else int(place)
    found = await call.engine.store.ledger(before=before, limit=listing.limit + 1)
    items, cursor = page(KIND, found, listing.limit, lambda entry: str(entry.number))
    return shown(EntryPage(items=[entry_form(entry) for entry in items], next_cursor=cursor))


async def stream(call: Call) -> Stream:
    """Tell what changes, as it changes: a snapshot, then updates."""
    await call.body()
    return Stream(call.context.live.follow(call.header(b"last-event-id")), EVENT_STREAM)


ROUTES = (
    Route(
        method="GET",
        path="/v1/events",
        scope=Scope.READ,
        handler=ledger,
        summary="List what operators did, newest first",
        family="events",
        query=Listing,
        gives={200: EntryPage},
    ),
    Route(
        method="GET",
        path="/v1/events/stream",
        scope=Scope.READ,
        handler=stream,
        summary="Follow everything as server-sent events: a snapshot, then updates, four a second at most",
        family="events",
        headers=(LAST_EVENT,),
        gives={200: EVENT_STREAM},
    ),
)
