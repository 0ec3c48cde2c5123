"""Workers and the other processes: who is there, and how those who speak HTTP make themselves known."""

from __future__ import annotations

from typing import Final

from rota.api.calls import Answer, Call, nothing, shown
from rota.api.cursors import opened, page
from rota.api.filtering import Listing
from rota.api.settings import Scope
from rota.api.table import Route
from rota.core.fleet import ALIVE_FOR, Member, Role
from rota.wire.fleet import BeatRequest, LeaveRequest, WorkerList, member_of, worker_form

KIND: Final = "workers"


class Roll(Listing, kw_only=True, forbid_unknown_fields=True):
    """Whom to list. Without `all` only those heard of lately."""

    role: Role = Role.WORKER
    all: bool = False


async def list_workers(call: Call) -> Answer:
    """List processes as they last described themselves."""
    roll = call.query(Roll)
    since = call.engine.clock() - ALIVE_FOR
    place = opened(KIND, roll.cursor) or ""
    members = await call.engine.store.members(role=roll.role, since=None if roll.all else since)
    behind = sorted((member for member in members if _place(member) > place), key=_place)
    items, cursor = page(KIND, behind, roll.limit, _place)
    return shown(WorkerList(items=[worker_form(member, since) for member in items], next_cursor=cursor))


def _place(member: Member) -> str:
    return f"{member.name}\x00{member.boot}"


async def beat(call: Call) -> Answer:
    """Record that processes are alive."""
    request = await call.read(BeatRequest)
    await call.engine.store.beat([member_of(one) for one in request.workers])
    return nothing()


async def leave(call: Call) -> Answer:
    """Forget processes that say goodbye."""
    await call.engine.store.leave((await call.read(LeaveRequest)).boot_ids)
    return nothing()


ROUTES = (
    Route(
        method="GET",
        path="/v1/workers",
        scope=Scope.READ,
        handler=list_workers,
        summary="List workers as they last described themselves",
        family="workers",
        query=Roll,
        gives={200: WorkerList},
    ),
    Route(
        method="POST",
        path="/v1/workers:beat",
        scope=Scope.WORK,
        handler=beat,
        summary="Say that processes are alive",
        family="workers",
        takes=BeatRequest,
        gives={204: None},
    ),
    Route(
        method="POST",
        path="/v1/workers:leave",
        scope=Scope.WORK,
        handler=leave,
        summary="Say goodbye",
        family="workers",
        takes=LeaveRequest,
        gives={204: None},
    ),
)
