"""The cluster as the coordinator knows it: leader, members, and shared configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.router import Route
from rota.core.access import Action
from rota.core.cluster import ALIVE_FOR, LEAD, TERM, Member, Role
from rota.core.configuration import checked, known
from rota.core.ledger import LedgerEntry
from rota.ports.coordinator import Coordinator
from rota.wire.cluster import worker_form
from rota.wire.system import ClusterForm, Configured, LeaderTransfer, TransferredLead


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


async def transfer(request: Request) -> Response:
    """Transfer the lead to another live scheduler, and record that in the ledger.

    The lead is given up for its holder and taken for the other process, which renews it with its next heartbeat. The
    former leader learns of it with its own next heartbeat: for these seconds both may delete old jobs.
    """
    wanted = (await request.read(LeaderTransfer)).to
    coordinator = coordinator_of(request)
    before = await coordinator.leader(LEAD)
    if before is None:
        detail = "no scheduler leads now, so there is nothing to transfer"
        raise HttpError(409, "no_leader", detail, fix="wait ten seconds for an election: rota leader show")
    to = _successor(before.holder, wanted, await coordinator.members(Role.SCHEDULER), coordinator.name)
    await coordinator.resign(LEAD, before.holder)
    after = await coordinator.campaign(LEAD, to, TERM)
    if after.holder != to:
        detail = f"{after.holder!r} took the lead at the same moment"
        raise HttpError(409, "leader_changed", detail, fix="transfer again if that is not the scheduler you want")
    by = request.actor
    entry = LedgerEntry(by.name, "cluster.transfer_lead", to, by.origin, f"from {before.holder}", surface=by.surface)
    await request.engine.store.record([entry])
    return json_response(TransferredLead(current_leader=to, term=after.term, previous_leader=before.holder))


def _successor(leader: str, wanted: str | None, schedulers: Sequence[Member], coordinator: str) -> str:
    """Choose the scheduler that leads next, or refuse."""
    others = sorted({one.name for one in schedulers} - {leader})
    if wanted == leader:
        raise HttpError(409, "already_leader", f"{leader!r} leads already", fix="name another scheduler, or none")
    if not others:
        local = "; the coordinator `local` knows this process only" if coordinator == "local" else ""
        detail = f"{leader!r} is the only live scheduler{local}"
        raise HttpError(409, "no_other_scheduler", detail, fix="start a second one on the same store: rota scheduler")
    if wanted is not None and wanted not in others:
        raise invalid([("to", f"{wanted!r} is no live scheduler; there are: {', '.join(others)}")])
    return wanted or others[0]


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
        method="POST",
        path="/v1/cluster/leader:transfer",
        action=Action.CLUSTER_EDIT,
        handler=transfer,
        summary="Transfer the lead to another live scheduler",
        tag="cluster",
        body=LeaderTransfer,
        responses={200: TransferredLead},
        error_statuses=(404, 409),
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
