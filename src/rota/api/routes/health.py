"""Health: whether this process lives, whether it can serve, and who leads."""

from __future__ import annotations

from rota.api.calls import Answer, Call, Context, shown
from rota.api.settings import Scope
from rota.api.table import Route
from rota.core.errors import RotaError
from rota.core.fleet import ALIVE_FOR, Role
from rota.wire.system import Health, LeaderForm, Liveness, SystemForm


async def live(call: Call) -> Answer:  # noqa: ARG001 - whoever asks
    """Say that the process answers."""
    return shown(Liveness(status="ok"))


async def ready(call: Call) -> Answer:
    """Say whether requests can be served: whether the store answers, and we are not about to stop."""
    if call.context.closing.is_set():
        return shown(Liveness(status="stopping"), 503, retry_after="1")
    if not await _store_answers(call.context):
        return shown(Liveness(status="store unavailable"), 503, retry_after="1")
    return shown(Liveness(status="ok"))


async def health(call: Call) -> Answer:
    """Say how this process and what it depends on are."""
    settings = call.context.settings
    is_stored, is_coordinated = await _store_answers(call.context), settings.coordinator_is_healthy()
    is_carried = call.engine.broker.is_up
    is_whole = is_stored and is_coordinated and is_carried
    form = Health(
        status="healthy" if is_whole else "degraded" if is_stored else "unhealthy",
        instance_id=settings.instance_id,
        is_leader=settings.is_leader(),
        coordinator_health=is_coordinated,
        store_health=is_stored,
        broker_health=is_carried,
        timestamp=int(call.engine.clock().timestamp()),
    )
    return shown(form, 200 if is_stored else 503)


async def _store_answers(context: Context) -> bool:
    try:
        await context.engine.upkeep.timetable()
    except RotaError:
        return False
    return True


async def leader(call: Call) -> Answer:
    """Say who leads."""
    settings = call.context.settings
    form = LeaderForm(
        current_leader=_leader(call.context), is_leader=settings.is_leader(), instance_id=settings.instance_id
    )
    return shown(form)


def _leader(context: Context) -> str | None:
    settings = context.settings
    if settings.current_leader is not None:
        return settings.current_leader()
    return settings.instance_id if settings.is_leader() else None


async def system(call: Call) -> Answer:
    """Say what this server is."""
    settings, now = call.context.settings, call.engine.clock()
    members = await call.engine.store.members(since=now - ALIVE_FOR)
    form = SystemForm(
        version=settings.version,
        instance_id=settings.instance_id,
        store=settings.store_name,
        is_leader=settings.is_leader(),
        current_leader=_leader(call.context),
        started_at=call.context.started_at,
        uptime=max((now - call.context.started_at).total_seconds(), 0.0),
        schedulers=[member.name for member in members if member.role is Role.SCHEDULER],
        api_nodes=[member.name for member in members if member.role is Role.API],
    )
    return shown(form)


ROUTES = (
    Route(
        method="GET",
        path="/livez",
        scope=Scope.PUBLIC,
        handler=live,
        summary="Whether the process answers",
        family="health",
        gives={200: Liveness},
    ),
    Route(
        method="GET",
        path="/readyz",
        scope=Scope.PUBLIC,
        handler=ready,
        summary="Whether requests can be served",
        family="health",
        gives={200: Liveness, 503: Liveness},
    ),
    Route(
        method="GET",
        path="/healthz",
        scope=Scope.PUBLIC,
        handler=ready,
        summary="Whether requests can be served; the same as /readyz",
        family="health",
        gives={200: Liveness, 503: Liveness},
    ),
    Route(
        method="GET",
        path="/health",
        scope=Scope.READ,
        handler=health,
        summary="How this process and what it depends on are",
        family="health",
        gives={200: Health, 503: Health},
    ),
    Route(
        method="GET",
        path="/leader",
        scope=Scope.READ,
        handler=leader,
        summary="Who leads",
        family="health",
        gives={200: LeaderForm},
    ),
    Route(
        method="GET",
        path="/v1/system",
        scope=Scope.READ,
        handler=system,
        summary="What this server is",
        family="system",
        gives={200: SystemForm},
    ),
)
