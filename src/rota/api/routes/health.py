"""Health, readiness, leader and system information."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rota.api.context import Context
from rota.api.http import Request, Response, json_response
from rota.api.router import Route
from rota.core.access import Action
from rota.core.cluster import ALIVE_FOR, ELECTION, Role
from rota.core.errors import RotaError
from rota.core.health import HealthInputs, HealthProblem, Severity
from rota.core.health_history import RECENT, RETENTION_LATE, SILENT_SHOWN, problems
from rota.core.history import BucketLength, HistoryQuery, Tally
from rota.core.lifecycle import State
from rota.core.limit import LimitUsage
from rota.ports.store import Census, Retention
from rota.wire.system import AttentionForm, AttentionItem, Health, LeaderForm, Liveness, ProblemForm, SystemForm

_STORE_UNAVAILABLE: Final = HealthProblem(
    "store_unavailable",
    "the store does not answer: nothing can be submitted, and no job can be claimed",
    "check that the store runs; the log has the cause",
    Severity.CRITICAL,
)
#: How many schedules are looked at.
_MOST_SCHEDULES: Final = 1_000
_MOST_BREAKERS: Final = 1_000
_MOST_LATE: Final = 20
_MOST_LIMITS: Final = 1_000
#: How old the problems may be, and the counts that they are derived from.
COUNTED_WITHIN_SECONDS: Final = 0.5


async def live(request: Request) -> Response:  # noqa: ARG001 - the same for every caller
    return json_response(Liveness(status="ok"))


async def ready(request: Request) -> Response:
    """Return whether requests can be served: the store answers, and the server is not stopping."""
    if request.context.closing.is_set():
        return json_response(Liveness(status="stopping"), 503, retry_after="1")
    if not await _store_answers(request.context):
        return json_response(Liveness(status="store unavailable"), 503, retry_after="1")
    if not request.context.settings.store_is_writable():
        return json_response(Liveness(status="store not writable"), 503, retry_after="1")
    return json_response(Liveness(status="ok"))


async def health(request: Request) -> Response:
    """Return the health of this process, its dependencies and the deployment."""
    settings = request.context.settings
    problems_found = await problems_of(request.context)
    store_answers = _STORE_UNAVAILABLE not in problems_found
    is_usable = store_answers and settings.store_is_writable()
    is_degraded = any(one.severity is not Severity.INFO for one in problems_found)
    form = Health(
        status="unhealthy" if not is_usable else "degraded" if is_degraded else "healthy",
        instance_id=settings.instance_id,
        is_leader=settings.is_leader(),
        coordinator_health=settings.coordinator_is_healthy(),
        store_health=store_answers,
        store_writable=settings.store_is_writable(),
        broker_health=request.engine.broker.is_up,
        problems=[ProblemForm(code=one.code, text=one.text, fix=one.fix) for one in problems_found],
        timestamp=int(request.engine.clock().timestamp()),
    )
    return json_response(form, 200 if is_usable else 503)


async def attention(request: Request) -> Response:
    """Return the problems that need an operator."""
    found = await problems_of(request.context)
    return json_response(AttentionForm(items=list(map(_item, found)), checked_at=request.engine.clock()))


def _item(problem: HealthProblem) -> AttentionItem:
    return AttentionItem(
        code=problem.code,
        severity=problem.severity,
        text=problem.text,
        fix=problem.fix,
        since=problem.since,
        link=problem.link,
        evidence=dict(problem.evidence),
    )


async def problems_of(context: Context) -> list[HealthProblem]:
    """Return the problems, some seconds old at most: all callers share one look at the store."""
    async with context.problems_lock:
        made = context.problems
        if made is None or time.monotonic() - made[0] >= COUNTED_WITHIN_SECONDS:
            made = context.problems = (time.monotonic(), await _find_problems(context))
    return made[1]


async def _find_problems(context: Context) -> list[HealthProblem]:
    if not await _store_answers(context):
        return [_STORE_UNAVAILABLE]
    try:
        return problems(await _situation(context))
    except RotaError:
        return [_STORE_UNAVAILABLE]


async def _census(context: Context) -> Census | None:
    """Return the counts, some seconds old at most; None if counting takes too long."""
    try:
        return await context.counts.census(at_most_old=COUNTED_WITHIN_SECONDS)
    except RotaError:
        return None


async def _situation(context: Context) -> HealthInputs:
    settings, store = context.settings, context.engine.store
    now = context.engine.clock()
    members = await store.members(since=now - SILENT_SHOWN)
    alive = [member for member in members if (member.seen_at or now) >= now - ALIVE_FOR]
    schedules = await store.schedules(limit=_MOST_SCHEDULES)
    census = await _census(context)
    condition = await store.condition(_late(settings.retention))
    return HealthInputs(
        lanes=() if census is None else census.lanes,
        queues=await context.engine.queues.all(),
        members=alive,
        leader=leader_of(context),
        is_store_writable=settings.store_is_writable(),
        is_coordinator_up=settings.coordinator_is_healthy(),
        is_broker_up=context.engine.broker.is_up,
        is_starting=now - context.started_at < ELECTION,
        now=now,
        silent_workers=[one for one in members if one.role is Role.WORKER and one not in alive],
        due_schedules=await store.due_schedules(_MOST_LATE),
        paused_schedules=[schedule for schedule in schedules if schedule.paused_at is not None],
        recent=await _recent(context, now),
        clock_offset=context.engine.clock() - await store.time(),
        open_breakers=[one for one in await store.breakers(limit=_MOST_BREAKERS) if one.is_open],
        is_exposed=settings.is_exposed,
        dead=None if census is None else census.total(State.DEAD),
        closed_limits=await _closed_limits(context, now),
        missing_migrations=condition.missing_migrations,
        unknown_migrations=condition.unknown_migrations,
        free_bytes=condition.free_bytes,
        oldest_prunable=condition.oldest_prunable,
    )


def _late(retention: Retention) -> Retention:
    """Return the retention beyond which a job that is still there is a problem."""
    spans = (retention.completed, retention.cancelled, retention.dead)
    return Retention(*(None if span is None else span + RETENTION_LATE for span in spans))


async def _closed_limits(context: Context, now: datetime) -> Sequence[LimitUsage]:
    """Return the closed limits under which jobs wait."""
    store = context.engine.store
    limits = await context.engine.limits.page("", _MOST_LIMITS)
    closed = [limit for limit in limits if limit.is_closed(now)]
    usages = [await store.limit_usage(limit) for limit in closed[:_MOST_LATE]]
    return [usage for usage in usages if usage.waiting]


async def _recent(context: Context, now: datetime) -> Tally:
    recent = Tally()
    for bucket in await context.engine.store.history(HistoryQuery(BucketLength.MINUTE, now - RECENT, now + RECENT)):
        recent.add(bucket.tally)
    return recent


async def _store_answers(context: Context) -> bool:
    try:
        await context.engine.upkeep.timetable()
    except RotaError:
        return False
    return True


async def leader(request: Request) -> Response:
    settings = request.context.settings
    form = LeaderForm(
        current_leader=leader_of(request.context), is_leader=settings.is_leader(), instance_id=settings.instance_id
    )
    return json_response(form)


def leader_of(context: Context) -> str | None:
    settings = context.settings
    if settings.current_leader is not None:
        return settings.current_leader()
    return settings.instance_id if settings.is_leader() else None


async def system(request: Request) -> Response:
    settings, now = request.context.settings, request.engine.clock()
    members = await request.engine.store.members(since=now - ALIVE_FOR)
    form = SystemForm(
        version=settings.version,
        instance_id=settings.instance_id,
        store=settings.store_name,
        is_leader=settings.is_leader(),
        current_leader=leader_of(request.context),
        started_at=request.context.started_at,
        uptime=max((now - request.context.started_at).total_seconds(), 0.0),
        schedulers=[member.name for member in members if member.role is Role.SCHEDULER],
        api_nodes=[member.name for member in members if member.role is Role.API],
    )
    return json_response(form)


ROUTES = (
    Route(
        method="GET",
        path="/livez",
        action=Action.PUBLIC,
        handler=live,
        summary="Whether the process answers",
        tag="health",
        responses={200: Liveness},
    ),
    Route(
        method="GET",
        path="/readyz",
        action=Action.PUBLIC,
        handler=ready,
        summary="Whether requests can be served",
        tag="health",
        responses={200: Liveness, 503: Liveness},
    ),
    Route(
        method="GET",
        path="/healthz",
        action=Action.PUBLIC,
        handler=ready,
        summary="Whether requests can be served; the same as /readyz",
        tag="health",
        responses={200: Liveness, 503: Liveness},
    ),
    Route(
        method="GET",
        path="/health",
        action=Action.SYSTEM_READ,
        handler=health,
        summary="Health of this process, its dependencies and the deployment",
        tag="health",
        responses={200: Health, 503: Health},
    ),
    Route(
        method="GET",
        path="/v1/attention",
        action=Action.SYSTEM_READ,
        handler=attention,
        summary="What needs an operator: code, severity, remedy and evidence of each problem",
        tag="health",
        responses={200: AttentionForm},
    ),
    Route(
        method="GET",
        path="/leader",
        action=Action.SYSTEM_READ,
        handler=leader,
        summary="The current leader",
        tag="health",
        responses={200: LeaderForm},
    ),
    Route(
        method="GET",
        path="/v1/system",
        action=Action.SYSTEM_READ,
        handler=system,
        summary="Version and configuration of this server",
        tag="system",
        responses={200: SystemForm},
    ),
)
