"""Counts: for people, for seed 4's clients, and for scrapers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from time import process_time
from typing import Annotated, Final

from msgspec import Meta, structs

from rota.api.calls import Answer, Call, Context, shown
from rota.api.counting import FRESH_SECONDS
from rota.api.cursors import opened, page
from rota.api.errors import Refusal
from rota.api.filtering import Listing
from rota.api.headers import ACCEPT
from rota.api.settings import Scope
from rota.api.table import PLAIN_TEXT, Route
from rota.core.errors import RotaError
from rota.core.lane import Queue
from rota.core.lifecycle import DUE_STATES, FINISHED, WAITING, State
from rota.engine import Engine
from rota.ports.store import JobQuery
from rota.telemetry import catalogue
from rota.telemetry.exposition import OPEN_METRICS, exposition, is_asked_for
from rota.telemetry.metrics import Metrics
from rota.telemetry.tallies import Counts, Tally
from rota.wire.system import LaneForm, MetricsForm, Stats

KIND: Final = "lanes"


class Lanes(Listing, kw_only=True, forbid_unknown_fields=True):
    """How many lanes are asked for, and from where on."""

    limit: Annotated[int, Meta(ge=1, le=5_000)] = 500


async def stats(call: Call) -> Answer:
    """Count everything; where that is much, the last count may have to do for a while (`timestamp` is its moment)."""
    listing = call.query(Lanes)
    counts = await call.context.counting.stats()
    place = opened(KIND, listing.cursor)
    lanes = counts.lanes if place is None else [lane for lane in counts.lanes if _place(lane) > place]
    items, cursor = page(KIND, lanes, listing.limit, _place)
    return shown(structs.replace(counts, lanes=items, next_cursor=cursor))


def _place(lane: LaneForm) -> str:
    # Names have no control characters, so these texts are in the order of the lanes.
    return f"{lane.queue}\x01{lane.type}\x01{lane.state}"


async def metrics(call: Call) -> Answer:
    """Give the counts: as JSON, or as text for scrapers that ask for it."""
    accepted = call.header(b"accept")
    if is_asked_for(accepted):
        written = exposition(await _tallies(call.context), accepted)
        return Answer(written.text, media=written.media)
    counts = await call.context.counting.stats(at_most_old=FRESH_SECONDS)
    return shown(await _seed_metrics(call.engine, counts))


async def _seed_metrics(engine: Engine, counts: Stats) -> MetricsForm:
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
    """Say when the newest of the jobs that run, or else the last to end, started."""
    groups = ((State.RUNNING, State.RETRYING), (State.COMPLETED, State.DEAD))
    newest = [job for states in groups for job in (await engine.jobs.find_some(JobQuery(states=states, limit=1))).jobs]
    return max((int(job.started_at.timestamp()) for job in newest if job.started_at is not None), default=0)


async def _tallies(context: Context) -> Sequence[Tally]:
    """Gather what this process has counted and what the store counts. A store that is away hides only its own part."""
    settings = context.settings
    own = (
        Counts.of(catalogue.BUILD, 1, settings.version),
        Counts.of(catalogue.CPU, process_time()),
        Counts.of(catalogue.LEADER, settings.is_leader()),
        Counts.of(catalogue.COORDINATOR_UP, settings.coordinator_is_healthy()),
        Counts.of(catalogue.STORE_WRITABLE, settings.store_is_writable()),
        Counts.of(catalogue.BROKER_UP, context.engine.broker.is_up),
        *context.metrics.tallies(),
        context.rejections.counts,
    )
    try:
        counts = await context.counting.stats(at_most_old=FRESH_SECONDS)
        queues = await context.engine.queues.all()
    except Refusal:
        # Not counted yet. The store answers, as far as anybody knows.
        return (*own, Counts.of(catalogue.STORE_UP, 1))
    except RotaError:
        return (*own, Counts.of(catalogue.STORE_UP, 0))
    counted = _counted(counts, queues, context.metrics)
    oldest = _oldest_due(counts.lanes, context.metrics, context.engine.clock())
    return (*own, Counts.of(catalogue.STORE_UP, 1), *counted, oldest)


def _counted(counts: Stats, queues: Sequence[Queue], metrics: Metrics) -> Iterator[Tally]:
    jobs, depth, finished = Counts(catalogue.JOBS), Counts(catalogue.DEPTH), Counts(catalogue.FINISHED)
    due, paused = Counts(catalogue.QUEUE_DUE), Counts(catalogue.QUEUE_PAUSED)
    for queue in metrics.queues.known:
        # A queue that ran empty shows its nought: whoever scales by it must not take silence for an answer.
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
    yield Counts.of(catalogue.DEAD_LETTERS, counts.dlq_size)
    yield Counts.of(catalogue.WORKERS, counts.workers)
    yield Counts.of(catalogue.FLEET_SLOTS, counts.slots)
    yield Counts.of(catalogue.FLEET_BUSY, counts.busy)


def _oldest_due(lanes: Sequence[LaneForm], metrics: Metrics, now: datetime) -> Counts:
    """Say for how long the next job of each queue has been due; a queue that ran empty shows 0."""
    oldest = Counts(catalogue.QUEUE_OLDEST_DUE)
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
    scope=Scope.READ,
    handler=stats,
    summary="Count everything: what waits, runs and died, and who works",
    family="system",
    query=Lanes,
    gives={200: Stats},
)
ROUTES = (
    _STATS,
    _STATS.under("/stats", family="older paths"),
    Route(
        method="GET",
        path="/metrics",
        scope=Scope.READ,
        handler=metrics,
        summary="The counts as JSON, or as Prometheus text when Accept names it",
        family="system",
        headers=(ACCEPT,),
        gives={200: (MetricsForm, PLAIN_TEXT, OPEN_METRICS)},
    ),
)
