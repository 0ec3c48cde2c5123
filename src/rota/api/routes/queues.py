"""Queues: counts, pause and resume, limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec import UNSET, ValidationError, convert

from rota.api.counts import live_workers, queue_form, queue_page
from rota.api.cursors import decode_cursor, encode_cursor
from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import Handler, QueueCheck, Route
from rota.core.access import Action, covers_queue
from rota.core.history import OTHER, BucketLength, HistoryQuery
from rota.core.limit import queue_limit
from rota.core.queue import Queue
from rota.core.time import from_micros, to_micros
from rota.engine.ledger import LedgerFilter, search_ledger
from rota.wire.cluster import QueueChange, QueueForm, QueueList
from rota.wire.scalars import QueueName, moment_of
from rota.wire.schedules import PauseRequest

KIND: Final = "queues"
#: Over how many whole minutes rates are taken.
RATE_MINUTES: Final = 5


async def list_queues(request: Request) -> Response:
    """List the queues that have jobs, workers or settings, by name."""
    listing = request.query(PageQuery)
    items, left = await _page(request, after=decode_cursor(KIND, listing.cursor) or "", limit=listing.limit)
    cursor = encode_cursor(KIND, items[-1].name) if left else None
    covered = [item for item in items if covers_queue(request.key.queues, item.name)]
    await _add_rates(request, covered)
    await _add_who_paused(request, covered)
    return json_response(QueueList(items=covered, next_cursor=cursor))


async def get(request: Request) -> Response:
    """Show a queue; one that was never used is empty, not unknown."""
    return json_response(await _form(request, _name(request)))


async def pause(request: Request) -> Response:
    """Stop handing out a queue's jobs; running ones continue. A new name may be paused before its first job."""
    body = await request.read_or(PauseRequest, PauseRequest())
    name = _name(request)
    resume_at = moment_of(body.resume_at, "resume_at")
    await request.engine.queues.pause(name, body.reason, request.actor, resume_at=resume_at)
    return json_response(await _form(request, name, wait_for_count=True))


async def resume(request: Request) -> Response:
    """Hand out a queue's jobs again; a name without settings and unfinished jobs is not found."""
    name = _name(request)
    await _require_known(request, name)
    await request.engine.queues.resume(name, request.actor)
    return json_response(await _form(request, name, wait_for_count=True))


async def _require_known(request: Request, name: str) -> None:
    """Refuse an unknown queue, most likely a typing error. The count of jobs may be some seconds old."""
    if any(queue.name == name for queue in await request.engine.queues.all()):
        return
    if not any(one.lane.queue == name for one in (await request.context.counts.census()).lanes):
        detail = f"queue {name!r}: unknown, it has neither settings nor unfinished jobs"
        raise HttpError(404, "not_found", detail, fix="see `rota queues list` for the names in use")


async def change(request: Request) -> Response:
    """Set a queue's limits."""
    body = await request.read(QueueChange)
    name = _name(request)
    engine, by = request.engine, request.actor
    changes = {
        field: value
        for field, value in (("max_running", body.max_running), ("rate_limit", body.rate_limit))
        if value is not UNSET
    }
    if body.max_depth is UNSET and not changes:
        raise invalid([("max_depth", "nothing is set; give max_depth, max_running or rate_limit")])
    if changes:
        await engine.limits.change(queue_limit(name), changes, by)
    if body.max_depth is not UNSET:
        await engine.queues.limit(name, body.max_depth, by)
    return json_response(await _form(request, name, wait_for_count=True))


async def _page(request: Request, *, after: str, limit: int) -> tuple[list[QueueForm], int]:
    engine = request.engine
    (census, _), queues, workers = (
        await request.context.counts.latest(at_most_old=0.0),
        await engine.queues.all(),
        await live_workers(engine),
    )
    return queue_page(census, queues, workers, after=after, limit=limit)


async def _add_rates(request: Request, forms: Sequence[QueueForm]) -> None:
    """Add how fast jobs come and go, from the history of counts."""
    now = request.engine.clock()
    minute = timedelta(seconds=BucketLength.MINUTE)
    end = from_micros(BucketLength.MINUTE.start_of(to_micros(now)))
    query = HistoryQuery(BucketLength.MINUTE, end - RATE_MINUTES * minute, end, by_lane=True)
    came, went = Counter[str](), Counter[str]()
    are_all_counted = True
    for bucket in await request.engine.store.history(query):
        if bucket.lane == OTHER:
            are_all_counted = False
        came[bucket.lane.queue] += bucket.tally.counts["submitted"]
        went[bucket.lane.queue] += bucket.tally.counts["succeeded"] + bucket.tally.counts["dead"]
    for form in forms:
        if not are_all_counted and form.name not in came:
            continue
        form.rate_in = round(came[form.name] / RATE_MINUTES, 2)
        form.rate_out = round(went[form.name] / RATE_MINUTES, 2)
        surplus = form.rate_out - form.rate_in
        if not form.due:
            form.drain_seconds = 0.0
        elif surplus > 0 and not form.is_paused:
            form.drain_seconds = round(form.due / surplus * 60, 1)


async def _add_who_paused(request: Request, forms: Sequence[QueueForm]) -> None:
    """Add who paused the queues that are paused, from the newest entries of the ledger."""
    paused = {form.name: form for form in forms if form.is_paused}
    if not paused:
        return
    entries, _ = await search_ledger(request.engine.store, LedgerFilter(action="queues.pause"), before=None, limit=500)
    for entry in entries:
        if (form := paused.pop(entry.target, None)) is not None:
            form.paused_by = entry.actor


async def _form(request: Request, name: str, *, wait_for_count: bool = False) -> QueueForm:
    engine = request.engine
    census = await request.context.counts.census(wait_for_count=wait_for_count)
    lanes = [one for one in census.lanes if one.lane.queue == name]
    known = {queue.name: queue for queue in await engine.queues.all()}
    workers = [worker for worker in await live_workers(engine) if name in worker.queues]
    return queue_form(known.get(name, Queue(name)), lanes, len(workers), sum(worker.slots for worker in workers))


def _name(request: Request) -> str:
    try:
        return convert(request.path_params["name"], QueueName)
    except ValidationError as error:
        raise invalid([("name", str(error))]) from None


def _route(method: str, path: str, action: Action, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(
        method=method,
        path=f"/v1/queues{path}",
        action=action,
        handler=handler,
        summary=summary,
        tag="queues",
        queue_check=QueueCheck.QUEUE if "{name}" in path else QueueCheck.HANDLER,
        **{"responses": {200: QueueForm}, **more},
    )


ROUTES = (
    _route(
        "GET",
        "",
        Action.QUEUES_READ,
        list_queues,
        "List queues with their counts",
        query=PageQuery,
        responses={200: QueueList},
    ),
    _route("GET", "/{name}", Action.QUEUES_READ, get, "Show a queue"),
    _route(
        "POST",
        "/{name}/pause",
        Action.QUEUES_PAUSE,
        pause,
        "Stop handing out a queue's jobs",
        body=PauseRequest,
        body_is_optional=True,
        error_statuses=(409,),
    ),
    _route(
        "PATCH", "/{name}", Action.QUEUES_EDIT, change, "Set a queue's limits", body=QueueChange, error_statuses=(409,)
    ),
    _route(
        "POST",
        "/{name}/resume",
        Action.QUEUES_PAUSE,
        resume,
        "Hand out a queue's jobs again",
        error_statuses=(404, 409),
    ),
)
