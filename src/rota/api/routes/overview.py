"""The overview of the deployment, made at most once a second for all callers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from rota.api.context import Context
from rota.api.counts import FRESH_SECONDS, queue_page
from rota.api.http import Request, Response, json_response
from rota.api.router import Route
from rota.api.routes.health import leader_of
from rota.core.access import Action
from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.core.health_history import SILENT_SHOWN
from rota.core.history import BucketLength, HistoryQuery, Tally
from rota.core.lifecycle import DUE_STATES, FINISHED, State
from rota.ports.store import JobQuery, Store
from rota.wire.history import percentiles_of, tally_form
from rota.wire.overview import OverviewForm, StoreForm, WorkerTotals

MOST_QUEUES: Final = 100
_HOUR: Final = timedelta(hours=1)


async def overview(request: Request) -> Response:
    """Return the overview; at most a second old."""
    context = request.context
    async with context.overview_lock:
        made = context.overview
        if made is None or time.monotonic() - made[0] >= FRESH_SECONDS:
            made = context.overview = (time.monotonic(), await _overview(context))
    return json_response(made[1])


async def _overview(context: Context) -> OverviewForm:
    settings, engine = context.settings, context.engine
    now = engine.clock()
    census, counted_at = await context.counts.latest(at_most_old=FRESH_SECONDS)
    members = await engine.store.members(since=now - SILENT_SHOWN)
    alive = [member for member in members if (member.seen_at or now) >= now - ALIVE_FOR]
    workers = [member for member in alive if member.role is Role.WORKER]
    queues, left_out = queue_page(census, await engine.queues.all(), workers, limit=MOST_QUEUES)
    last_hour = await _last_hour(engine.store, now)
    due = census.total(*DUE_STATES)
    return OverviewForm(
        checked_at=now,
        counted_at=counted_at,
        is_idle=not due and not census.total(State.RUNNING),
        last_ended_at=await _last_end(context),
        states={state: census.total(state) for state in State},
        due=due,
        queues=queues,
        queues_left_out=left_out,
        workers=_worker_totals(members, workers),
        schedulers=[member.name for member in alive if member.role is Role.SCHEDULER],
        current_leader=leader_of(context),
        store=await _store(context),
        broker_health=engine.broker.is_up,
        coordinator=None if settings.coordinator is None else settings.coordinator.name,
        coordinator_health=settings.coordinator_is_healthy(),
        versions=dict(Counter(member.version for member in alive if member.version)),
        last_hour=tally_form(last_hour),
        percentiles=percentiles_of(last_hour),
    )


def _worker_totals(members: Sequence[Member], live: Sequence[Member]) -> WorkerTotals:
    names = {worker.name for worker in live}
    stale = {one.name for one in members if one.role is Role.WORKER and one.name not in names}
    return WorkerTotals(
        live=len(live),
        draining=sum(worker.is_draining for worker in live),
        stale=len(stale),
        slots=sum(worker.slots for worker in live),
        busy=sum(worker.busy for worker in live),
    )


async def _store(context: Context) -> StoreForm:
    begun = time.perf_counter()
    await context.engine.store.time()
    latency = time.perf_counter() - begun
    settings = context.settings
    return StoreForm(kind=settings.store_name, is_writable=settings.store_is_writable(), latency=latency)


async def _last_end(context: Context) -> datetime | None:
    """Return when the last job ended: the first of the list of finished jobs, which is ordered by their end."""
    newest = await context.engine.jobs.find_some(JobQuery(states=tuple(FINISHED), limit=1, is_light=True))
    return newest.jobs[0].finished_at if newest.jobs else None


async def _last_hour(store: Store, now: datetime) -> Tally:
    total = Tally()
    for bucket in await store.history(HistoryQuery(BucketLength.MINUTE, now - _HOUR, now + _HOUR)):
        total.add(bucket.tally)
    return total


ROUTES = (
    Route(
        method="GET",
        path="/v1/overview",
        action=Action.SYSTEM_READ,
        handler=overview,
        summary="Counts, members, services and the last hour of the deployment, at most a second old",
        tag="system",
        responses={200: OverviewForm},
    ),
)
