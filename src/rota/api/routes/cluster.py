"""The cluster as the coordinator knows it: leader, members, and shared configuration."""

from __future__ import annotations

from typing import Final

from rota.api.errors import HttpError
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.router import Route
from rota.core.access import Action
from rota.core.cluster import ALIVE_FOR, LEAD
from rota.core.configuration import checked, known
from rota.core.ledger import LedgerEntry
from rota.ports.coordinator import Coordinator
from rota.wire.cluster import worker_form
from rota.wire.system import ClusterForm, Configured


async def cluster(request: Request) -> Response:
    coordinator = coordinator_of(request)
    leadership = await coordinator.leader(LEAD)
    # The coordinator lists only live members, however old their last heartbeat is.
    since = request.engine.clock() - ALIVE_FOR
    members = [worker_form(member, min(member.seen_at or since, since)) for member in await coordinator.members()]
    form = ClusterForm(
        coordinator=coordinator.name,
        coordinator_health=request.context.settings.coordinator_is_healthy(),
        current_leader=None if leadership is None else leadership.holder,
        term=None if leadership is None else leadership.term,
        members=members,
        configuration=dict((await coordinator.configuration()).values),
    )
    return json_response(form)


async def configure(request: Request) -> Response:
    """Set a key of the shared configuration."""
    body = await request.read(Configured)
    key = request.path_params["key"]
    await _configure(request, key, checked(key, body.value))
    return empty_response()


async def forget(request: Request) -> Response:
    """Remove a key of the shared configuration: every process uses its own setting again."""
    await _configure(request, known(request.path_params["key"]), None)
    return empty_response()


async def _configure(request: Request, key: str, value: str | None) -> None:
    await coordinator_of(request).configure(key, value)
    by = request.actor
    action = "cluster.configure" if value is not None else "cluster.forget"
    entry = LedgerEntry(by.name, action, key, by.origin, value or "", surface=by.surface)
    await request.engine.store.record([entry])


def coordinator_of(request: Request) -> Coordinator:
    """Return the coordinator of this process, or refuse."""
    coordinator = request.context.settings.coordinator
    if coordinator is None:
        raise HttpError(404, "not_found", "this server has no coordinator", fix="start it with `rota api`")
    return coordinator


_KEY: Final = "/v1/cluster/configuration/{key}"
ROUTES = (
    Route(
        method="GET",
        path="/v1/cluster",
        action=Action.SYSTEM_READ,
        handler=cluster,
        summary="Leader, members and shared configuration",
        tag="cluster",
        responses={200: ClusterForm},
        error_statuses=(404,),
    ),
    Route(
        method="PUT",
        path=_KEY,
        action=Action.CLUSTER_EDIT,
        handler=configure,
        summary="Set a key of the shared configuration, which all running processes apply",
        tag="cluster",
        body=Configured,
        responses={204: None},
        error_statuses=(404,),
    ),
    Route(
        method="DELETE",
        path=_KEY,
        action=Action.CLUSTER_EDIT,
        handler=forget,
        summary="Remove a key of the shared configuration",
        tag="cluster",
        responses={204: None},
        error_statuses=(404,),
    ),
)
