"""Queues: what is in them, and stopping and starting them."""

from __future__ import annotations

from typing import Any

from msgspec import ValidationError, convert

from rota.api.calls import Answer, Call, shown
from rota.api.counting import live_workers, queue_form, queue_forms
from rota.api.errors import invalid
from rota.api.settings import Scope
from rota.api.table import Handler, Route
from rota.core.lane import Queue
from rota.wire.fleet import QueueChange, QueueForm, QueueList
from rota.wire.scalars import QueueName, moment_of
from rota.wire.schedules import PauseRequest


async def list_queues(call: Call) -> Answer:
    """List the queues that have jobs, workers or settings."""
    return shown(QueueList(items=await _forms(call)))


async def get(call: Call) -> Answer:
    """Show a queue; one that nobody has used is empty, not unknown."""
    return shown(await _form(call, _name(call)))


async def pause(call: Call) -> Answer:
    """Stop handing out a queue's jobs; those that run go on."""
    request = await call.read_or(PauseRequest, PauseRequest())
    name = _name(call)
    resume_at = moment_of(request.resume_at, "resume_at")
    await call.engine.queues.pause(name, request.reason, call.actor, resume_at=resume_at)
    return shown(await _form(call, name))


async def resume(call: Call) -> Answer:
    """Hand out a queue's jobs again."""
    name = _name(call)
    await call.engine.queues.resume(name, call.actor)
    return shown(await _form(call, name))


async def change(call: Call) -> Answer:
    """Set a queue's limits."""
    request = await call.read(QueueChange)
    name = _name(call)
    await call.engine.queues.limit(name, request.max_depth, call.actor)
    return shown(await _form(call, name))


async def _forms(call: Call) -> list[QueueForm]:
    engine = call.engine
    return queue_forms(await call.context.counting.census(), await engine.queues.all(), await live_workers(engine))


async def _form(call: Call, name: str) -> QueueForm:
    found = {form.name: form for form in await _forms(call)}
    return found[name] if name in found else queue_form(Queue(name), {}, 0)


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
    _route("GET", "", Scope.READ, list_queues, "List queues with what is in them", gives={200: QueueList}),
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
    _route("POST", "/{name}/resume", Scope.ADMIN, resume, "Hand out a queue's jobs again", refuses=(409,)),
)
