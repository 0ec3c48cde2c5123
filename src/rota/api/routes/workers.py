"""Workers and the other processes: who is there, and how those who speak HTTP make themselves known."""

from __future__ import annotations

from msgspec import Struct

from rota.api.calls import Answer, Call, nothing, shown
from rota.api.settings import Scope
from rota.api.table import Route
from rota.core.fleet import ALIVE_FOR, Role
from rota.wire.fleet import BeatRequest, LeaveRequest, WorkerList, member_of, worker_form


class Roll(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whom to list. Without `all` only those heard of lately."""

    role: Role = Role.WORKER
    all: bool = False


async def list_workers(call: Call) -> Answer:
    """List processes as they last described themselves."""
    roll = call.query(Roll)
    since = call.engine.clock() - ALIVE_FOR
    members = await call.engine.store.members(role=roll.role, since=None if roll.all else since)
    return shown(WorkerList(items=[worker_form(member, since) for member in members]))


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
