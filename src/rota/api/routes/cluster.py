"""The cluster: who leads and who is alive, as the coordinator knows it, and what all processes are configured to do."""

from __future__ import annotations

from typing import Final

from rota.api.calls import Answer, Call, nothing, shown
from rota.api.errors import Refusal
from rota.api.settings import Scope
from rota.api.table import Route
from rota.core.configuration import checked, known
from rota.core.fleet import ALIVE_FOR
from rota.core.ledger import Entry
from rota.ports.coordinator import Coordinator
from rota.wire.fleet import worker_form
from rota.wire.system import ClusterForm, Configured

_LEAD: Final = "scheduler"


async def cluster(call: Call) -> Answer:
    """Show the cluster."""
    coordinator = _coordinator(call)
    leadership = await coordinator.leader(_LEAD)
    # Whoever is on the roll is alive, however long ago it said something new.
    since = call.engine.clock() - ALIVE_FOR
    members = [worker_form(member, min(member.seen_at or since, since)) for member in await coordinator.roll()]
    form = ClusterForm(
        coordinator=coordinator.name,
        coordinator_health=call.context.settings.coordinator_is_healthy(),
        current_leader=None if leadership is None else leadership.holder,
        term=None if leadership is None else leadership.term,
        members=members,
        configuration=dict((await coordinator.configuration()).values),
    )
    return shown(form)


async def configure(call: Call) -> Answer:
    """Set a key of the shared configuration."""
    request = await call.read(Configured)
    key = call.path_names["key"]
    await _configure(call, key, checked(key, request.value))
    return nothing()


async def forget(call: Call) -> Answer:
    """Forget a key of the shared configuration: every process goes by its own settings again."""
    await _configure(call, known(call.path_names["key"]), None)
    return nothing()


async def _configure(call: Call, key: str, value: str | None) -> None:
    await _coordinator(call).configure(key, value)
    by = call.actor
    action = "cluster.configure" if value is not None else "cluster.forget"
    await call.engine.store.record([Entry(by.name, action, key, by.origin, value or "")])


def _coordinator(call: Call) -> Coordinator:
    coordinator = call.context.settings.coordinator
    if coordinator is None:
        raise Refusal(404, "not_found", "this server has no coordinator", fix="start it with `rota api`")
    return coordinator


_KEY: Final = "/v1/cluster/configuration/{key}"
ROUTES = (
    Route(
        method="GET",
        path="/v1/cluster",
        scope=Scope.READ,
        handler=cluster,
        summary="Who leads, who is alive, and the shared configuration",
        family="cluster",
        gives={200: ClusterForm},
        refuses=(404,),
    ),
    Route(
        method="PUT",
        path=_KEY,
        scope=Scope.ADMIN,
        handler=configure,
        summary="Set a key of the shared configuration, which all running processes apply",
        family="cluster",
        takes=Configured,
        gives={204: None},
        refuses=(404,),
    ),
    Route(
        method="DELETE",
        path=_KEY,
        scope=Scope.ADMIN,
        handler=forget,
        summary="Forget a key of the shared configuration",
        family="cluster",
        gives={204: None},
        refuses=(404,),
    ),
)
