"""Statistics and metrics: as JSON, and as Prometheus text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from time import process_time
from typing import Annotated, Final

from msgspec import Meta, structs

from rota.api.context import Context
from rota.api.counts import FRESH_SECONDS
from rota.api.cursors import cut_page, decode_cursor
from rota.api.errors import HttpError
from rota.api.headers import ACCEPT
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import PLAIN_TEXT, Route
from rota.core.access import Action
from rota.core.breaker import BreakerState
from rota.core.errors import RotaError
from rota.core.lifecycle import DUE_STATES, FINISHED, WAITING, State
from rota.core.limit import Limit, names_of
from rota.core.queue import Queue
from rota.engine import Engine
from rota.engine.breakers import BreakerReport
from rota.ports.store import JobQuery
from rota.telemetry import metric_definitions
from rota.telemetry.metrics import Counts, Metrics, MetricValues
from rota.telemetry.prometheus import OPEN_METRICS, exposition, is_asked_for
from rota.wire.system import LaneForm, MetricsForm, Stats

KIND: Final = "lanes"
#: How many limits of queues and tasks are measured.
MOST_LIMITS: Final = 200


class StatsQuery(PageQuery, kw_only=True, forbid_unknown_fields=True):
    """Page of the lanes."""

    limit: Annotated[int, Meta(ge=1, le=5_000)] = 500


async def stats(request: Request) -> Response:
    """Count all jobs; with very many jobs the counts may be some seconds old (`timestamp` says when they were made)."""
    listing = request.query(StatsQuery)
    counts = await request.context.counts.stats()
    place = decode_cursor(KIND, listing.cursor)
    lanes = counts.lanes if place is None else [lane for lane in counts.lanes if _place(lane) > place]
    items, cursor = cut_page(KIND, lanes, listing.limit, _place)
    return json_response(structs.replace(counts, lanes=items, next_cursor=cursor))


def _place(lane: LaneForm) -> str:
    # Names have no control characters, so this text sorts as the lanes do.
    return f"{lane.queue}\x01{lane.type}\x01{lane.state}"


async def metrics(request: Request) -> Response:
    """Return the counts as JSON, or as text for scrapers."""
    accepted = request.header(b"accept")
    if is_asked_for(accepted):
        written = exposition(await _tallies(request.context), accepted)
        return Response(written.text, media=written.media)
    counts = await request.context.counts.stats(at_most_old=FRESH_SECONDS)
    return json_response(await _json_metrics(request.engine, counts))


async def _json_metrics(engine: Engine, counts: Stats) -> MetricsForm:
    ever = {state: counts.states[state] + counts.pruned.get(state, 0) for state in State}
    waiting = (State.PENDING, State.SCHEDULED, State.RETRYING, State.BLOCKED)
    started = (State.RUNNING, State.RETRYING, State.COMPLETED, State.DEAD)
    return MetricsForm(
        timestamp=int(counts.timestamp.timestamp()),
        pending_jobs=sum(counts.states[state] for state in waiting),
        queued_jobs=counts.states[State.QUEUED],
        running_jobs=counts.states[State.RUNNING],
        completed_jobs=ever[State.COMPLETED],
        failed_jobs=ever[State.DEAD],
        jobs_dispatched=sum(ever[state] for state in started),
        last_dispatch=await _last_start(engine),
    )


async def _last_start(engine: Engine) -> int:
    """Return the start time of the newest running job or of the last finished one."""
    groups = ((State.RUNNING, State.RETRYING), (State.COMPLETED, State.DEAD))
    newest = [
        job
        for states in groups
        for job in (await engine.jobs.find_some(JobQuery(states=states, limit=1, is_light=True))).jobs
    ]
    return max((int(job.started_at.timestamp()) for job in newest if job.started_at is not None), default=0)


async def _tallies(context: Context) -> Sequence[MetricValues]:
    """Collect the metrics of this process, and of the store if it is available."""
    settings = context.settings
    own = (
        Counts.of(metric_definitions.BUILD, 1, settings.version),
        Counts.of(metric_definitions.CPU, process_time()),
        Counts.of(metric_definitions.LEADER, settings.is_leader()),
        Counts.of(metric_definitions.COORDINATOR_UP, settings.coordinator_is_healthy()),
        Counts.of(metric_definitions.STORE_WRITABLE, settings.store_is_writable()),
        Counts.of(metric_definitions.BROKER_UP, context.engine.broker.is_up),
        *context.metrics.collect(),
        context.rejections.counts,
    )
    try:
        counts = await context.counts.stats(at_most_old=FRESH_SECONDS)
        queues = await context.engine.queues.all()
        limits = await context.engine.limits.page("l", MOST_LIMITS)
        breakers = await context.engine.breakers.page("", MOST_LIMITS)
    except HttpError:
        # Not counted yet; the store is not known to be unavailable.
        return (*own, Counts.of(metric_definitions.STORE_UP, 1))
    except RotaError:
        return (*own, Counts.of(metric_definitions.STORE_UP, 0))
    counted = _counted(counts, queues, context.metrics)
    oldest = _oldest_due(counts.lanes, context.metrics, context.engine.clock())
    bounded = (*_limited(counts.lanes, limits), *_breakers(counts.lanes, breakers, context.metrics))
    return (*own, Counts.of(metric_definitions.STORE_UP, 1), *counted, *bounded, oldest)


def _counted(counts: Stats, queues: Sequence[Queue], metrics: Metrics) -> Iterator[MetricValues]:
    jobs, depth, finished = (
        Counts(metric_definitions.JOBS),
        Counts(metric_definitions.DEPTH),
        Counts(metric_definitions.FINISHED),
    )
    due, paused = Counts(metric_definitions.QUEUE_DUE), Counts(metric_definitions.QUEUE_PAUSED)
    for queue in metrics.queues.known:
        # An empty queue is reported as 0, since autoscalers need a value.
        depth.add((queue,), 0)
        due.add((queue,), 0)
    for lane in counts.lanes:
        queue = metrics.queues.shown(lane.queue)
        jobs.add((queue, metrics.types.shown(lane.type), lane.state), lane.count)
        depth.add((queue,), lane.count if lane.state in WAITING else 0)
        due.add((queue,), lane.count if lane.state in DUE_STATES else 0)
    for one in queues:
        paused.add((metrics.queues.shown(one.name),), one.paused_at is not None)
    for state in sorted(FINISHED):
        finished.add((state,), counts.states[state] + counts.pruned.get(state, 0))
    yield from (jobs, depth, due, paused, finished)
    yield Counts.of(metric_definitions.DEAD_LETTERS, counts.dlq_size)
    yield Counts.of(metric_definitions.WORKERS, counts.workers)
    yield Counts.of(metric_definitions.ALL_SLOTS, counts.slots)
    yield Counts.of(metric_definitions.ALL_BUSY_SLOTS, counts.busy)


def _limited(lanes: Sequence[LaneForm], limits: Sequence[Limit]) -> tuple[Counts, Counts]:
    """Return what runs and waits under the limits of queues and tasks."""
    running, waiting = Counts(metric_definitions.LIMIT_RUNNING), Counts(metric_definitions.LIMIT_WAITING)
    for limit in limits:
        running.add((limit.name,), 0)
        waiting.add((limit.name,), 0)
    known = {limit.name for limit in limits}
    for lane in lanes:
        for name in known.intersection(names_of(lane.queue, lane.type, None)):
            running.add((name,), lane.count if lane.state is State.RUNNING else 0)
            waiting.add((name,), lane.count if lane.state in DUE_STATES else 0)
    return running, waiting


_STATE_NUMBERS: Final = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


def _breakers(lanes: Sequence[LaneForm], breakers: Sequence[BreakerReport], metrics: Metrics) -> tuple[Counts, Counts]:
    """Return the states of breakers, and the due jobs of the tasks of those that are not closed."""
    states, waiting = Counts(metric_definitions.BREAKER_STATE), Counts(metric_definitions.BREAKER_WAITING)
    for one in breakers:
        label = (metrics.breakers.shown(one.breaker.name),)
        states.values[label] = max(states.values.get(label, 0), _STATE_NUMBERS[one.state])
        types = one.breaker.types if one.breaker.is_open else ()
        due = [lane.count for lane in lanes if lane.type in types and lane.state in DUE_STATES]
        waiting.add(label, sum(due))
    return states, waiting


def _oldest_due(lanes: Sequence[LaneForm], metrics: Metrics, now: datetime) -> Counts:
    """Return how long the next job of each queue has been due; 0 for an empty queue."""
    oldest = Counts(metric_definitions.QUEUE_OLDEST_DUE)
    for queue in metrics.queues.known:
        oldest.add((queue,), 0)
    for lane in lanes:
        if lane.due_since is not None:
            labels = (metrics.queues.shown(lane.queue),)
            oldest.values[labels] = max(oldest.values[labels], (now - lane.due_since).total_seconds())
    return oldest


_STATS = Route(
    method="GET",
    path="/v1/stats",
    action=Action.SYSTEM_READ,
    handler=stats,
    summary="Counts of jobs by state, queue and type, and of workers",
    tag="system",
    query=StatsQuery,
    responses={200: Stats},
)
ROUTES = (
    _STATS,
    _STATS.at("/stats", tag="older paths"),
    Route(
        method="GET",
        path="/metrics",
        action=Action.SYSTEM_READ,
        handler=metrics,
        summary="The counts as JSON, or as Prometheus text when Accept names it",
        tag="system",
        headers=(ACCEPT,),
        responses={200: (MetricsForm, PLAIN_TEXT, OPEN_METRICS)},
    ),
)
