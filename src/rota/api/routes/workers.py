"""Members of the cluster: listing, and heartbeats of workers over HTTP."""

from __future__ import annotations

from typing import Final

from rota.api.cursors import cut_page, decode_cursor
from rota.api.errors import invalid
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import Handler, QueueCheck, Route
from rota.core.access import Action
from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.core.worker_orders import OrderVerb
from rota.wire.cluster import (
    HeartbeatRequest,
    LeaveRequest,
    WorkerDetail,
    WorkerForm,
    WorkerList,
    member_of,
    worker_detail,
    worker_form,
)
from rota.wire.workers import HeartbeatReply, heartbeat_reply

KIND: Final = "workers"


class WorkerListQuery(PageQuery, kw_only=True, forbid_unknown_fields=True):
    """Which members to list. Without `all` only those with a recent heartbeat."""

    role: Role = Role.WORKER
    all: bool = False


async def list_workers(request: Request) -> Response:
    """List members as of their last heartbeat."""
    query = request.query(WorkerListQuery)
    since = request.engine.clock() - ALIVE_FOR
    place = decode_cursor(KIND, query.cursor) or ""
    members = await request.engine.store.members(role=query.role, since=None if query.all else since)
    behind = sorted((member for member in members if _place(member) > place), key=_place)
    items, cursor = cut_page(KIND, behind, query.limit, _place)
    return json_response(WorkerList(items=[worker_form(member, since) for member in items], next_cursor=cursor))


def _place(member: Member) -> str:
    return f"{member.name}\x00{member.boot}"


async def beat(request: Request) -> Response:
    """Record heartbeats of workers. Schedulers and API processes write theirs to the store."""
    body = await request.read(HeartbeatRequest)
    for number, one in enumerate(body.workers):
        if one.role is not Role.WORKER:
            raise invalid([(f"workers[{number}].role", f"{one.role.value!r}: only workers report here; leave it out")])
    orders = await request.engine.store.beat([member_of(one) for one in body.workers])
    return json_response(heartbeat_reply(orders))


async def get(request: Request) -> Response:
    """Show a worker, by name or boot id."""
    member = await request.engine.workers.one(request.path_params["name"])
    return json_response(worker_detail(member, request.engine.clock() - ALIVE_FOR))


async def quiet(request: Request) -> Response:
    """Tell a worker to claim no more jobs."""
    return await _order(request, OrderVerb.QUIET)


async def resume(request: Request) -> Response:
    """Tell a quiet worker to claim jobs again."""
    return await _order(request, OrderVerb.RESUME)


async def stop(request: Request) -> Response:
    """Tell a worker to finish its jobs and end."""
    return await _order(request, OrderVerb.STOP)


async def stacks(request: Request) -> Response:
    """Tell a worker to show where its threads are."""
    return await _order(request, OrderVerb.STACKS)


async def _order(request: Request, verb: OrderVerb) -> Response:
    await request.body()
    member = await request.engine.workers.order(request.path_params["name"], verb, request.actor)
    return json_response(worker_form(member, request.engine.clock() - ALIVE_FOR), 202)


async def forget(request: Request) -> Response:
    """Delete the record of a worker that has stopped."""
    await request.engine.workers.forget(request.path_params["name"], request.actor)
    return empty_response()


async def leave(request: Request) -> Response:
    """Remove members that stop."""
    await request.engine.store.leave((await request.read(LeaveRequest)).boot_ids)
    return empty_response()


def _order_route(verb: str, handler: Handler, summary: str) -> Route:
    return Route(
        method="POST",
        path=f"/v1/workers/{{name}}/{verb}",
        action=Action.WORKERS_EDIT,
        handler=handler,
        summary=summary,
        tag="workers",
        responses={202: WorkerForm},
        error_statuses=(404, 409),
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/workers",
        action=Action.SYSTEM_READ,
        handler=list_workers,
        summary="List workers as of their last heartbeat",
        tag="workers",
        query=WorkerListQuery,
        responses={200: WorkerList},
    ),
    Route(
        method="POST",
        path="/v1/workers:beat",
        action=Action.WORK,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=beat,
        summary="Send heartbeats; the answer has the orders of operators",
        tag="workers",
        body=HeartbeatRequest,
        responses={200: HeartbeatReply},
    ),
    Route(
        method="POST",
        path="/v1/workers:leave",
        action=Action.WORK,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=leave,
        summary="Remove members that stop",
        tag="workers",
        body=LeaveRequest,
        responses={204: None},
    ),
    Route(
        method="GET",
        path="/v1/workers/{name}",
        action=Action.SYSTEM_READ,
        handler=get,
        summary="Show a worker, by name or boot id, with its stacks if they were asked for",
        tag="workers",
        responses={200: WorkerDetail},
        error_statuses=(404,),
    ),
    _order_route("quiet", quiet, "Tell a worker to claim no more jobs; those that run go on"),
    _order_route("resume", resume, "Tell a quiet worker to claim jobs again"),
    _order_route("stop", stop, "Tell a worker to finish its jobs and end its process"),
    _order_route("stacks", stacks, "Tell a worker to show where its threads are"),
    Route(
        method="DELETE",
        path="/v1/workers/{name}",
        action=Action.WORKERS_EDIT,
        handler=forget,
        summary="Forget a worker that sends no heartbeat any more",
        tag="workers",
        responses={204: None},
        error_statuses=(404, 409),
    ),
)
