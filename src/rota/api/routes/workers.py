"""Members of the cluster: listing, and heartbeats of workers over HTTP."""

from __future__ import annotations

from typing import Final

from rota.api.cursors import cut_page, decode_cursor
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import QueueCheck, Route
from rota.core.access import Action
from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.wire.cluster import HeartbeatRequest, LeaveRequest, WorkerList, member_of, worker_form

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
    body = await request.read(HeartbeatRequest)
    await request.engine.store.beat([member_of(one) for one in body.workers])
    return empty_response()


async def leave(request: Request) -> Response:
    """Remove members that stop."""
    await request.engine.store.leave((await request.read(LeaveRequest)).boot_ids)
    return empty_response()


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
        summary="Send heartbeats",
        tag="workers",
        body=HeartbeatRequest,
        responses={204: None},
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
)
