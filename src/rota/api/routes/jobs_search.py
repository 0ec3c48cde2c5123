"""Search routes: count the jobs that match a search, chart them by time, and suggest values for the query bar."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from rota.api.aliases import choices_of
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import FilterText, searched_jobs
from rota.api.permissions import require, within_queues
from rota.api.router import QueueCheck, Route
from rota.core.access import Action
from rota.engine.search import SUGGESTED, MatchCount
from rota.wire.scalars import Count, Moment, Name, Seconds


class SearchQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """A search in the query language; empty for all jobs."""

    q: FilterText = ""


class MatchCountForm(Struct, kw_only=True):
    """The number of matching jobs: exact up to 10,000. If `is_exact` is false, there are at least `count`."""

    count: Count
    is_exact: bool
    text: str


class HistogramForm(Struct, kw_only=True):
    """Matching jobs by time, in bars of `step` seconds from `since` on.

    `by` is the time that counts: `finished` for lists of finished jobs, otherwise `created`. `partial`: jobs before
    `since` match, too. Without other conditions than queues and types the last 24 hours are shown.
    """

    by: Literal["created", "finished"]
    since: Moment
    step: Seconds
    counts: list[Count]
    partial: bool


class SuggestQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """A field of the query language and the beginning of a value."""

    field: Name
    prefix: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class Suggestions(Struct, kw_only=True):
    """Values of a field, by name. Those in use lately: types, tags and errors are taken from the latest jobs."""

    items: list[str]


async def count(request: Request) -> Response:
    """Count the jobs that match a search."""
    query = await searched_jobs(request, request.query(SearchQuery).q)
    counted = await request.engine.search.count(within_queues(request.key, query))
    return json_response(count_form(counted))


def count_form(counted: MatchCount) -> MatchCountForm:
    text = f"{counted.count}{'' if counted.is_exact else '+'}"
    return MatchCountForm(count=counted.count, is_exact=counted.is_exact, text=text)


async def histogram(request: Request) -> Response:
    """Count the jobs that match a search by time."""
    query = await searched_jobs(request, request.query(SearchQuery).q)
    made = await request.engine.histogram.of(within_queues(request.key, query), request.engine.clock())
    return json_response(
        HistogramForm(
            by="finished" if made.by == "finished" else "created",
            since=made.since,
            step=made.step.total_seconds(),
            counts=list(made.counts),
            partial=made.is_partial,
        )
    )


async def suggest(request: Request) -> Response:
    """Suggest values of a field."""
    query = request.query(SuggestQuery)
    (field,) = choices_of(query.field.replace(",", " "), SUGGESTED, "field")
    if field == "error":
        require(request.key, Action.PAYLOADS_READ)
    return json_response(Suggestions(items=await request.engine.search.suggest(field, query.prefix, query.limit)))


ROUTES = (
    Route(
        method="GET",
        path="/v1/jobs:count",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.HANDLER,
        handler=count,
        summary="Count the jobs that match a search, exactly up to 10,000",
        tag="jobs",
        query=SearchQuery,
        responses={200: MatchCountForm},
    ),
    Route(
        method="GET",
        path="/v1/jobs:histogram",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.HANDLER,
        handler=histogram,
        summary="Count the jobs that match a search by time",
        tag="jobs",
        query=SearchQuery,
        responses={200: HistogramForm},
    ),
    Route(
        method="GET",
        path="/v1/suggest",
        action=Action.JOBS_READ,
        handler=suggest,
        summary="Suggest values of a field of the query language",
        tag="jobs",
        query=SuggestQuery,
        responses={200: Suggestions},
    ),
)
