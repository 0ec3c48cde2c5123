"""Filters of job lists: query parameters, and the search language of `q` (``status:dead type:mail``)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.api.aliases import states_of
from rota.api.cursors import continue_at
from rota.api.errors import invalid
from rota.api.json_body import did_you_mean
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.ports.store import JobQuery
from rota.wire.scalars import Moment, id_in_field, moment_of, schedule_id_of

KIND: Final = "jobs"
FilterText = Annotated[str, Meta(max_length=2_000)]


class PageQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Page size and cursor of a list."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    cursor: Annotated[str, Meta(max_length=500)] | None = None


class JobListQuery(PageQuery, kw_only=True, forbid_unknown_fields=True):
    """Filters of a list of jobs. Several values are separated by commas.

    `fields=payload,result` adds these fields, which lists leave out.
    """

    fields: FilterText | None = None
    status: FilterText | None = None
    state: FilterText | None = None
    type: FilterText | None = None
    queue: FilterText | None = None
    tag: FilterText | None = None
    worker_id: FilterText | None = None
    schedule_id: FilterText | None = None
    fingerprint: FilterText | None = None
    since: Moment | None = None
    until: Moment | None = None
    q: FilterText | None = None
    ids: Annotated[str, Meta(max_length=7_500)] | None = None


def query_of(listing: JobListQuery, now: datetime) -> JobQuery:
    """Make the store's query. Its limit is one more than the page, to see whether there is a next page."""
    if listing.status is not None and listing.state is not None and listing.status != listing.state:
        raise invalid([("status", "'status' and 'state' mean the same and differ; give one")])
    word = listing.status or listing.state
    filters: dict[str, Any] = {} if listing.q is None else _parse_search(listing.q, now)
    if word:
        filters["states"] = states_of(word)
    for name, plural in (("type", "types"), ("queue", "queues")):
        if value := getattr(listing, name):
            filters[plural] = _listed(value, name)
    plain = {"tag": listing.tag, "worker": listing.worker_id, "fingerprint": listing.fingerprint}
    filters |= {name: value for name, value in plain.items() if value is not None}
    if listing.schedule_id is not None:
        id_in_field(listing.schedule_id, "schedule_id")
        filters["schedule_id"] = schedule_id_of(listing.schedule_id)
    times = {"created_from": ("since", listing.since), "created_until": ("until", listing.until)}
    filters |= {name: moment_of(value, field) for name, (field, value) in times.items() if value is not None}
    return continue_at(KIND, listing.cursor, JobQuery(**filters, limit=listing.limit + 1))


def _parse_search(text: str, now: datetime) -> dict[str, Any]:
    """Parse a search: ``status:dead type:mail queue:a tag:b worker:w created:>2h``."""
    filters: dict[str, Any] = {}
    for word in text.split():
        name, colon, value = word.partition(":")
        if not colon or not value.strip('"'):
            raise invalid([("q", f"{word[:40]!r}: write name:value, as in status:dead or type:mail")])
        match name.lower():
            case "status" | "state":
                filters["states"] = states_of(exact_name(value, "q"), "q")
            case "type":
                filters["types"] = _listed(value, "q")
            case "queue":
                filters["queues"] = _listed(value, "q")
            case "tag" | "worker" | "fingerprint" as plain:
                filters[plain] = exact_name(value, "q")
            case "schedule":
                filters["schedule_id"] = schedule_id_of(_checked_id(exact_name(value, "q")))
            case "created":
                filters |= _created(value.strip('"'), now)
            case unknown:
                known = ["status", "type", "queue", "tag", "worker", "fingerprint", "schedule", "created"]
                raise invalid([("q", f"{unknown[:40]!r} cannot be searched for{did_you_mean(unknown, known)}")])
    return filters


def _checked_id(value: str) -> str:
    id_in_field(value, "q")
    return value


def _created(value: str, now: datetime) -> dict[str, datetime]:
    """Parse an age: ``>2h`` is older than two hours, ``<2h`` younger."""
    if value[0] not in "<>":
        raise invalid([("q", "created: write an age as in created:<2h (younger) or created:>2h (older)")])
    try:
        age: timedelta = parse_duration(value[1:], field="q")
    except InvalidRequest as error:
        raise invalid([("q", str(error))]) from None
    return {"created_until" if value[0] == ">" else "created_from": now - age}


def exact_name(value: str, field: str) -> str:
    """Parse a name; refuse a pattern, which would be compared literally."""
    if "*" in value and not value.startswith('"'):
        fix = "patterns cannot be searched for; write the whole name, in quotes if it contains a star"
        raise invalid([(field, f"{value[:40]!r}: {fix}")])
    return value.strip('"')


def _listed(value: str, field: str) -> tuple[str, ...]:
    return tuple(exact_name(part, field) for part in value.split(",") if part)
