"""Queues: what is in them, and stopping and starting them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import ValidationError, convert

from rota.api.calls import Answer, Call, shown
from rota.api.counting import live_workers, queue_form, queue_page
from rota.api.cursors import opened, sealed
from rota.api.errors import Refusal, invalid
from rota.api.filtering import Listing
from rota.api.settings import Scope
from rota.api.table import Handler, Route
from rota.core.lane import Queue
from rota.wire.fleet import QueueChange, QueueForm, QueueList
from rota.wire.scalars import QueueName, moment_of
from rota.wire.schedules import PauseRequest

KIND: Final = "queues"


async def list_queues(call: Call) -> Answer:
    """List the queues that have jobs, workers or settings, by name."""
    listing = call.query(Listing)
    items, left = await _page(call, after=opened(KIND, listing.cursor) or "", limit=listing.limit)
    return shown(QueueList(items=items, next_cursor=sealed(KIND, items[-1].name) if left else None))


async def get(call: Call) -> Answer:
    """Show a queue; one that nobody has used is empty, not unknown."""
    return shown(await _form(call, _name(call)))


async def pause(call: Call) -> Answer:
    """Stop handing out a queue's jobs; those that run go on. A new name may be paused before its first job."""
    request = await call.read_or(PauseRequest, PauseRequest())
    name = _name(call)
    resume_at = moment_of(request.resume_at, "resume_at")
    await call.engine.queues.pause(name, request.reason, call.actor, resume_at=resume_at)
    return shown(await _form(call, name, is_patient=True))


async def resume(call: Call) -> Answer:
    """Hand out a queue's jobs again; a name that has neither settings nor unfinished jobs is not found."""
    name = _name(call)
    await _require_known(call, name)
    await call.engine.queues.resume(name, call.actor)
    return shown(await _form(call, name, is_patient=True))


async def _require_known(call: Call, name: str) -> None:
    """Refuse a queue that cannot be paused, most likely a typing error. The count of jobs may be some seconds old."""
    if any(queue.name == name for queue in await call.engine.queues.all()):
        return
    if not any(one.lane.queue == name for one in (await call.context.counting.census()).lanes):
        detail = f"queue {name!r}: unknown, it has neither settings nor unfinished jobs"
        raise Refusal(404, "not_found", detail, fix="see `rota queues list` for the names in use")


async def change(call: Call) -> Answer:
    """Set a queue's limits."""
    request = await call.read(QueueChange)
    name = _name(call)
    await call.engine.queues.limit(name, request.max_depth, call.actor)
    return shown(await _form(call, name, is_patient=True))


async def _page(call: Call, *, after: str, limit: int) -> tuple[list[QueueForm], int]:
    engine = call.engine
    census, queues, workers = (
        await call.context.counting.census(),
        await engine.queues.all(),
        await live_workers(engine),
    )
    return queue_page(census, queues, workers, after=after, limit=limit)


async def _form(call: Call, name: str, *, is_patient: bool = False) -> QueueForm:
    engine = call.engine
    census = await call.context.counting.census(is_patient=is_patient)
    lanes = [one for one in census.lanes if one.lane.queue == name]
    known = {queue.name: queue for queue in await engine.queues.all()}
    attending = sum(worker.queues.count(name) for worker in await live_workers(engine))
    return queue_form(known.get(name, Queue(name)), lanes, attending)


def _name(call: Call) -> str:
    try:
        return convert(call.path_names["name"], QueueName)
    except ValidationError as error:
        raise invalid([("name", str(error))]) from None


def _route(method: str, path: str, scope: Scope, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(
        method=method,
        path=f"/v1/queues{path}",
        scope=scope,
        handler=handler,
        summary=summary,
        family="queues",
        **{"gives": {200: QueueForm}, **more},
    )


ROUTES = (
    _route(
        "GET", "", Scope.READ, list_queues, "List queues with what is in them", query=Listing, gives={200: QueueList}
    ),
    _route("GET", "/{name}", Scope.READ, get, "Show a queue"),
    _route(
        "POST",
        "/{name}/pause",
        Scope.ADMIN,
        pause,
        "Stop handing out a queue's jobs",
        takes=PauseRequest,
        body_is_optional=True,
        refuses=(409,),
    ),
    _route("PATCH", "/{name}", Scope.ADMIN, change, "Set a queue's limits", takes=QueueChange, refuses=(409,)),
    _route("POST", "/{name}/resume", Scope.ADMIN, resume, "Hand out a queue's jobs again", refuses=(404, 409)),
)
