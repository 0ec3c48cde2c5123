"""Named advisory locks: list, acquire or renew, release; and release by an operator."""

from __future__ import annotations

from typing import Final

from rota.api.errors import HttpError
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.router import QueueCheck, Route
from rota.api.routes.cluster import coordinator_of
from rota.core.access import Action
from rota.core.ledger import LedgerEntry
from rota.core.locks import check_lock_name, hold_of
from rota.wire.locks import AcquireReply, AcquireRequest, LockList, ReleaseReply, ReleaseRequest, lock_form

#: How many locks are listed.
MOST_LISTED: Final = 1_000


async def list_locks(request: Request) -> Response:
    held = await coordinator_of(request).locks()
    items = [lock_form(lock) for lock in held[:MOST_LISTED]]
    return json_response(LockList(items=items, is_complete=len(items) == len(held)))


async def acquire(request: Request) -> Response:
    """Take or renew a lock. It does not wait: the caller asks again."""
    body = await request.read(AcquireRequest)
    lock = await coordinator_of(request).lock(body.name, body.holder, hold_of(body.hold))
    return json_response(AcquireReply(lock=None if lock is None else lock_form(lock)))


async def release(request: Request) -> Response:
    body = await request.read(ReleaseRequest)
    lock = await coordinator_of(request).unlock(body.name, body.holder)
    return json_response(ReleaseReply(lock=None if lock is None else lock_form(lock)))


async def unlock(request: Request) -> Response:
    """Release a lock for its holder, and record that in the ledger."""
    name = check_lock_name(request.path_params["name"])
    lock = await coordinator_of(request).unlock(name, None)
    if lock is None:
        raise HttpError(404, "not_found", f"lock {name!r} is not held", fix="list the locks with GET /v1/locks")
    by = request.actor
    entry = LedgerEntry(by.name, "cluster.unlock", name, by.origin, lock.holder, surface=by.surface)
    await request.engine.store.record([entry])
    return empty_response()


ROUTES = (
    Route(
        method="GET",
        path="/v1/locks",
        action=Action.SYSTEM_READ,
        handler=list_locks,
        summary="List the named locks that are held",
        tag="locks",
        responses={200: LockList},
        error_statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/locks:acquire",
        action=Action.WORK,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=acquire,
        summary="Take a named lock, or renew it",
        tag="locks",
        body=AcquireRequest,
        responses={200: AcquireReply},
        error_statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/locks:release",
        action=Action.WORK,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=release,
        summary="Release a named lock of a holder",
        tag="locks",
        body=ReleaseRequest,
        responses={200: ReleaseReply},
        error_statuses=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/locks/{name}",
        action=Action.CLUSTER_EDIT,
        handler=unlock,
        summary="Release a named lock that another process may hold",
        tag="locks",
        responses={204: None},
        error_statuses=(404,),
    ),
)
