"""Events that jobs wait for: emission, and the event as it is stored."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from rota.core.duration import parse_duration
from rota.core.waiting import DEFAULT_KEEP, Emission, Emitted, EmittedEvent
from rota.wire.scalars import Duration, Moment, null_value
from rota.wire.submission import text_of


class EmitRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The payload of an event, and how long it answers waits; 30 days if it is not said."""

    payload: Raw = msgspec.field(default_factory=null_value)
    keep: Duration | None = None


class EventForm(Struct, kw_only=True):
    """An event as it is stored: the first emission of its name."""

    name: str
    payload: Raw
    at: Moment
    expires_at: Moment


class EmitReply(EventForm, kw_only=True):
    """The event, and whether this emission made it. `woken` is how many jobs it made pending at once."""

    is_new: bool
    woken: int


def emission_of(name: str, form: EmitRequest) -> Emission:
    keep = DEFAULT_KEEP if form.keep is None else parse_duration(form.keep, field="keep")
    return Emission(name, text_of(form.payload), keep)


def emit_form(emission: Emission) -> EmitRequest:
    return EmitRequest(payload=Raw(emission.payload.encode()), keep=emission.keep.total_seconds())


def event_form(event: EmittedEvent) -> EventForm:
    return EventForm(**_fields(event))


def emit_reply(emitted: Emitted) -> EmitReply:
    return EmitReply(**_fields(emitted.event), is_new=emitted.is_new, woken=sum(emitted.queues.values()))


def emitted_of(form: EmitReply) -> Emitted:
    event = EmittedEvent(form.name, text_of(form.payload), form.at, form.expires_at)
    return Emitted(event, is_new=form.is_new)


def _fields(event: EmittedEvent) -> dict[str, Any]:
    payload = Raw(event.payload.encode())
    return {"name": event.name, "payload": payload, "at": event.at, "expires_at": event.expires_at}
