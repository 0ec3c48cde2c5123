"""What a list of jobs is filtered by: plain query parameters, and the words of the search box."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.api.aliases import states_of
from rota.api.cursors import continued
from rota.api.errors import invalid
from rota.api.reading import meant
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.ports.store import JobQuery
from rota.wire.scalars import Moment, id_within, moment_of, schedule_id_of

KIND: Final = "jobs"
Words = Annotated[str, Meta(max_length=2_000)]


class Listing(Struct, kw_only=True, forbid_unknown_fields=True):
    """How much of a list is asked for, and from where on."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    cursor: Annotated[str, Meta(max_length=500)] | None = None


class JobListing(Listing, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are asked for. Several values stand with commas between them.

    `fields=payload,result` shows these too; lists leave them out.
    """

    fields: Words | None = None
    status: Words | None = None
    state: Words | None = None
    type: Words | None = None
    queue: Words | None = None
    tag: Words | None = None
    worker_id: Words | None = None
    schedule_id: Words | None = None
    fingerprint: Words | None = None
    since: Moment | None = None
    until: Moment | None = None
    q: Words | None = None
    ids: Annotated[str, Meta(max_length=7_500)] | None = None


def query_of(listing: JobListing, now: datetime) -> JobQuery:
    """Make the store's query of what is asked for; one more than the page, to see whether there are more."""
    if listing.status is not None and listing.state is not None and listing.status != listing.state:
        raise invalid([("status", "'status' and 'state' mean the same and differ; give one")])
    word = listing.status or listing.state
    wanted: dict[str, Any] = {} if listing.q is None else _words(listing.q, now)
    if word:
        wanted["states"] = states_of(word)
    for name, plural in (("type", "types"), ("queue", "queues")):
        if value := getattr(listing, name):
            wanted[plural] = _listed(value, name)
    plain = {"tag": listing.tag, "worker": listing.worker_id, "fingerprint": listing.fingerprint}
    wanted |= {name: value for name, value in plain.items() if value is not None}
    if listing.schedule_id is not None:
        id_within(listing.schedule_id, "schedule_id")
        wanted["schedule_id"] = schedule_id_of(listing.schedule_id)
    times = {"created_from": ("since", listing.since), "created_until": ("until", listing.until)}
    wanted |= {name: moment_of(value, field) for name, (field, value) in times.items() if value is not None}
    return continued(KIND, listing.cursor, JobQuery(**wanted, limit=listing.limit + 1))


def _words(text: str, now: datetime) -> dict[str, Any]:
    """Read the words of the search box: ``status:dead type:mail queue:a tag:b worker:w created:>2h``."""
    wanted: dict[str, Any] = {}
    for word in text.split():
        name, colon, value = word.partition(":")
        if not colon or not value.strip('"'):
            raise invalid([("q", f"{word[:40]!r}: write name:value, as in status:dead or type:mail")])
        match name.lower():
            case "status" | "state":
                wanted["states"] = states_of(whole_name(value, "q"), "q")
            case "type":
                wanted["types"] = _listed(value, "q")
            case "queue":
                wanted["queues"] = _listed(value, "q")
            case "tag" | "worker" | "fingerprint" as plain:
                wanted[plain] = whole_name(value, "q")
            case "schedule":
                wanted["schedule_id"] = schedule_id_of(str_id(whole_name(value, "q")))
            case "created":
                wanted |= _created(value.strip('"'), now)
            case unknown:
                known = ["status", "type", "queue", "tag", "worker", "fingerprint", "schedule", "created"]
                raise invalid([("q", f"{unknown[:40]!r} cannot be searched for{meant(unknown, known)}")])
    return wanted


def str_id(value: str) -> str:
    """Refuse what is no id, within a search."""
    id_within(value, "q")
    return value


def _created(value: str, now: datetime) -> dict[str, datetime]:
    """Read an age: ``>2h`` is older than two hours, ``<2h`` younger."""
    if value[0] not in "<>":
        raise invalid([("q", "created: write an age as in created:<2h (younger) or created:>2h (older)")])
    try:
        age: timedelta = parse_duration(value[1:], field="q")
    except InvalidRequest as error:
        raise invalid([("q", str(error))]) from None
    return {"created_until" if value[0] == ">" else "created_from": now - age}


def whole_name(value: str, field: str) -> str:
    """Read a name that is searched for; refuse a pattern, which would only be compared as it stands."""
    if "*" in value and not value.startswith('"'):
        fix = "patterns cannot be searched for; write the whole name, in quotes if it has a star"
        raise invalid([(field, f"{value[:40]!r}: {fix}")])
    return value.strip('"')


def _listed(value: str, field: str) -> tuple[str, ...]:
    return tuple(whole_name(part, field) for part in value.split(",") if part)
