"""Health: whether this process lives, whether it can serve, and who leads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from rota.api.calls import Answer, Call, Context, shown
from rota.api.settings import Scope
from rota.api.table import Route
from rota.core.attention import Problem, Situation, problems
from rota.core.errors import RotaError
from rota.core.fleet import ALIVE_FOR, Role
from rota.core.lane import LaneCount
from rota.wire.system import Health, LeaderForm, Liveness, ProblemForm, SystemForm

_STORE_AWAY: Final = Problem(
    "store_unavailable",
    "the store does not answer: nothing can be submitted, and no job can be claimed",
    "see whether the store runs, and the log for the cause",
)
#: How old the counts may be that health is judged by.
COUNTED_WITHIN_SECONDS: Final = 2.0
#: How long a process that has just started may know of no scheduler and no leader: an election takes as long at most.
ELECTION: Final = timedelta(seconds=10)


async def live(call: Call) -> Answer:  # noqa: ARG001 - whoever asks
    """Say that the process answers."""
    return shown(Liveness(status="ok"))


async def ready(call: Call) -> Answer:
    """Say whether requests can be served: whether the store answers, and we are not about to stop."""
    if call.context.closing.is_set():
        return shown(Liveness(status="stopping"), 503, retry_after="1")
    if not await _store_answers(call.context):
        return shown(Liveness(status="store unavailable"), 503, retry_after="1")
    if not call.context.settings.store_is_writable():
        return shown(Liveness(status="store not writable"), 503, retry_after="1")
    return shown(Liveness(status="ok"))


async def health(call: Call) -> Answer:
    """Say how this process and what it depends on are."""
    settings = call.context.settings
    is_stored = await _store_answers(call.context)
    found = await _problems(call.context) if is_stored else [_STORE_AWAY]
    is_usable = is_stored and settings.store_is_writable()
    form = Health(
        status="unhealthy" if not is_usable else "degraded" if found else "healthy",
        instance_id=settings.instance_id,
        is_leader=settings.is_leader(),
        coordinator_health=settings.coordinator_is_healthy(),
        store_health=is_stored,
        store_writable=settings.store_is_writable(),
        broker_health=call.engine.broker.is_up,
        problems=[ProblemForm(code=one.code, text=one.text, fix=one.fix) for one in found],
        timestamp=int(call.engine.clock().timestamp()),
    )
    return shown(form, 200 if is_usable else 503)


async def _problems(context: Context) -> list[Problem]:
    try:
        return problems(await _situation(context))
    except RotaError:
        return [_STORE_AWAY]


async def _lanes(context: Context) -> Sequence[LaneCount]:
    """Give the counts of lanes, some seconds old at most: many may ask. None where a count takes too long."""
    try:
        return (await context.counting.census(at_most_old=COUNTED_WITHIN_SECONDS)).lanes
    except RotaError:
        return ()


async def _situation(context: Context) -> Situation:
    """Gather what problems are judged by."""
    settings, engine = context.settings, context.engine
    now = engine.clock()
    return Situation(
        lanes=await _lanes(context),
        queues=await engine.queues.all(),
        members=await engine.store.members(since=now - ALIVE_FOR),
        leader=_leader(context),
        is_store_writable=settings.store_is_writable(),
        is_coordinator_up=settings.coordinator_is_healthy(),
        is_broker_up=engine.broker.is_up,
        is_starting=now - context.started_at < ELECTION,
    )


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
