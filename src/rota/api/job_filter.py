"""Filters of job lists: query parameters, and the query language in `q` (``status:dead type:mail*``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.api.aliases import STATUS_WORDS, states_of
from rota.api.cursors import continue_at
from rota.api.errors import invalid
from rota.api.http import Request
from rota.api.redaction import refuse_hidden_search
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


_NAMES: Final = ("status", "state", "type", "queue", "tag", "worker_id", "schedule_id", "fingerprint")


async def query_of(listing: JobListQuery, request: Request) -> JobQuery:
    """Make the store's query. Its limit is one more than the page, to see whether there is a next page."""
    for name in _NAMES:
        value = getattr(listing, name)
        if value is not None and not value.strip(", "):
            # Where a variable of a script is unset, the answer would be all jobs.
            raise invalid([(name, "it is empty; name one, or leave it out for all jobs")])
    if listing.status is not None and listing.state is not None and listing.status != listing.state:
        raise invalid([("status", "'status' and 'state' mean the same and differ; give one")])
    word = listing.status or listing.state
    searched = JobQuery() if listing.q is None else await searched_jobs(request, listing.q)
    filters: dict[str, Any] = {}
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
    return continue_at(KIND, listing.cursor, replace(searched, **filters, limit=listing.limit + 1))


async def searched_jobs(request: Request, text: str) -> JobQuery:
    """Make the query of a search; status words of older systems are understood, too."""
    engine = request.engine
    query = await engine.search.query(text, engine.clock(), status_words=STATUS_WORDS)
    refuse_hidden_search(request, query)
    return query


def exact_name(value: str, field: str) -> str:
    """Parse a name; refuse a pattern, which would be compared literally."""
    if "*" in value and not value.startswith('"'):
        fix = "patterns cannot be searched for here; write the whole name, in quotes if it contains a star, or use q"
        raise invalid([(field, f"{value[:40]!r}: {fix}")])
    return value.strip('"')


def _listed(value: str, field: str) -> tuple[str, ...]:
    return tuple(exact_name(part, field) for part in value.split(",") if part)
