"""Task types: failure rates and percentiles from the history, the workers that know them, and their payload schemas.

Reads the buckets of the history and the members, never jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from msgspec import DecodeError, Meta, Struct, json, structs

from rota.api.counts import live_workers
from rota.api.cursors import cut_page, decode_cursor
from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.router import QueueCheck, Route
from rota.core.access import Action, covers_queue
from rota.core.cluster import Member
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.history import COUNTERS, OTHER, Bucket, BucketLength, HistoryQuery, Tally
from rota.core.webhook import QUEUE as WEBHOOK_QUEUE
from rota.wire.history import percentiles_of
from rota.wire.types import TypeDetail, TypeForm, TypeList, TypesRegistration

KIND: Final = "types"
#: How far back counts may reach: each hour has a row for every lane.
LONGEST: Final = timedelta(days=7)
#: Up to this span minutes are read, beyond it hours.
_MINUTES_UP_TO: Final = timedelta(hours=1)
MOST_WORKERS: Final = 20


class TypeQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Since when to count: a duration before now."""

    since: Annotated[str, Meta(min_length=1, max_length=40)] = "24h"


class TypeListQuery(TypeQuery, kw_only=True, forbid_unknown_fields=True):
    """Since when to count, and the page."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    cursor: Annotated[str, Meta(max_length=500)] | None = None


class TypeCatalogue:
    """The task types that a caller may see: of the counted lanes of its queues, and of the workers on them."""

    def __init__(self, buckets: Sequence[Bucket], workers: Sequence[Member], queues: Sequence[str]) -> None:
        self._tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self._queues: defaultdict[str, set[str]] = defaultdict(set)
        self._queue_limits = queues
        self.uncounted = 0
        self._workers = [one for one in workers if self._is_covered(one) and one.queues != (WEBHOOK_QUEUE,)]
        for bucket in buckets:
            self._add(bucket)

    def _is_covered(self, worker: Member) -> bool:
        return any(covers_queue(self._queue_limits, name) for name in worker.queues)

    def _add(self, bucket: Bucket) -> None:
        lane = bucket.lane
        if lane == OTHER:
            # A token of some queues is not told how much the others do.
            self.uncounted += 0 if self._queue_limits else bucket.tally.counts["started"]
        elif covers_queue(self._queue_limits, lane.queue) and lane.queue != WEBHOOK_QUEUE:
            self._tallies[lane.type].add(bucket.tally)
            self._queues[lane.type].add(lane.queue)

    @property
    def names(self) -> list[str]:
        registered = {type_ for worker in self._workers for type_ in worker.types or ()}
        return sorted({*self._tallies, *registered})

    def form(self, name: str) -> TypeForm:
        tally = self._tallies.get(name, Tally())
        ended = tally.counts["succeeded"] + tally.counts["failed"]
        percentiles = percentiles_of(tally)
        workers = sorted({one.name for one in self._workers if one.types is None or name in one.types})
        counts: dict[str, Any] = {counter: tally.counts[counter] for counter in COUNTERS}
        return TypeForm(
            type=name,
            queues=sorted(self._queues.get(name, ())),
            failure_rate=round(tally.counts["failed"] / ended, 6) if ended else None,
            wait=percentiles["wait"],
            duration=percentiles["duration"],
            workers=workers[:MOST_WORKERS],
            live_workers=len(workers),
            **counts,
        )


async def list_types(request: Request) -> Response:
    """List the task types that were counted or that a live worker knows, by name."""
    query = request.query(TypeListQuery)
    since = _since(query.since, request.engine.clock())
    known = await _known(request, since)
    place = decode_cursor(KIND, query.cursor) or ""
    names, cursor = cut_page(KIND, [one for one in known.names if one > place], query.limit, str)
    forms = [known.form(name) for name in names]
    return json_response(TypeList(since=since, items=forms, uncounted=known.uncounted, next_cursor=cursor))


async def get(request: Request) -> Response:
    """Show a task type, with the schema of its payloads."""
    query, name = request.query(TypeQuery), request.path_params["name"]
    known = await _known(request, _since(query.since, request.engine.clock()))
    schema = await request.engine.store.payload_schema(name)
    is_known = name in known.names
    # A schema says nothing of queues: a token of some queues sees only those of types that it sees.
    if not is_known and (schema is None or request.key.queues):
        detail = (
            f"task type {name!r}: unknown; no job of it was counted since {query.since}, and no live worker knows it"
        )
        raise HttpError(404, "not_found", detail, fix="see `rota types list`, or give an earlier since")
    detail_form = TypeDetail(**structs.asdict(known.form(name)))
    if schema is not None:
        detail_form.payload_schema, detail_form.payload_schema_at = json.decode(schema.body), schema.at
    return json_response(detail_form)


async def register(request: Request) -> Response:
    """Record the payload schemas that a worker has derived."""
    body = await request.read(TypesRegistration)
    for name, text in body.schemas.items():
        _check_schema(name, text)
    await request.engine.store.register_schemas(body.schemas)
    return empty_response()


def _check_schema(name: str, text: str) -> None:
    try:
        schema = json.decode(text)
    except (DecodeError, RecursionError) as error:
        raise invalid([(f"schemas.{name}", f"not JSON: {error}")]) from None
    if not isinstance(schema, dict):
        raise invalid([(f"schemas.{name}", "not a JSON object; send a JSON Schema as text")])


async def _known(request: Request, since: datetime) -> TypeCatalogue:
    now, engine = request.engine.clock(), request.engine
    length = BucketLength.MINUTE if now - since <= _MINUTES_UP_TO else BucketLength.HOUR
    # This host's clock may be behind the store's: a bucket that has just begun belongs to the answer.
    query = HistoryQuery(length, since, now + timedelta(seconds=length), by_lane=True)
    buckets, workers = await engine.store.history(query), await live_workers(engine)
    return TypeCatalogue(buckets, workers, tuple(request.key.queues))


def _since(text: str, now: datetime) -> datetime:
    try:
        span = parse_duration(text, field="since")
    except (InvalidRequest, OverflowError):
        raise invalid([("since", f"{text!r} is not a duration; write 1h, 24h or 7d")]) from None
    if not timedelta(0) < span <= LONGEST:
        raise invalid([("since", f"{text!r} must be more than 0 and at most {LONGEST.days}d")])
    return now - span


ROUTES = (
    Route(
        method="GET",
        path="/v1/types",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.HANDLER,
        handler=list_types,
        summary="List task types with their failure rates, wait and duration, and the workers that know them",
        tag="types",
        query=TypeListQuery,
        responses={200: TypeList},
    ),
    Route(
        method="GET",
        path="/v1/types/{name}",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.HANDLER,
        handler=get,
        summary="Show a task type, with the JSON Schema of its payloads",
        tag="types",
        query=TypeQuery,
        responses={200: TypeDetail},
        error_statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/types:register",
        action=Action.WORK,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=register,
        summary="Register the JSON Schemas of payloads, as a worker does when it starts",
        tag="types",
        body=TypesRegistration,
        responses={204: None},
    ),
)
