"""Counts: for people, for seed 4's clients, and for scrapers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import process_time

from rota.api.calls import Answer, Call, Context, shown
from rota.api.counting import FRESH_SECONDS
from rota.api.settings import Scope
from rota.api.table import PLAIN_TEXT, Route
from rota.core.errors import RotaError
from rota.core.lifecycle import FINISHED, WAITING, State
from rota.engine import Engine
from rota.ports.store import JobQuery
from rota.telemetry import catalogue
from rota.telemetry.exposition import OPEN_METRICS, exposition, is_asked_for
from rota.telemetry.metrics import Metrics
from rota.telemetry.tallies import Counts, Tally
from rota.wire.system import MetricsForm, Stats


async def stats(call: Call) -> Answer:
    """Count everything; where that is much, the last count may have to do for a while (`timestamp` is its moment)."""
    return shown(await call.context.counting.stats())


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
    """Say when the newest of the jobs that have started did."""
    started = (State.RUNNING, State.COMPLETED, State.DEAD, State.RETRYING)
    newest = await engine.find(JobQuery(states=started, limit=1))
    return int(newest[0].started_at.timestamp()) if newest and newest[0].started_at else 0


async def _tallies(context: Context) -> Sequence[Tally]:
    """Gather what this process has counted and what the store counts. A store that is away hides only its own part."""
    settings = context.settings
    own = (
        Counts.of(catalogue.BUILD, 1, settings.version),
        Counts.of(catalogue.CPU, process_time()),
        Counts.of(catalogue.LEADER, settings.is_leader()),
        Counts.of(catalogue.COORDINATOR_UP, settings.coordinator_is_healthy()),
        Counts.of(catalogue.BROKER_UP, context.engine.broker.is_up),
        *context.metrics.tallies(),
    )
    try:
        counts = await context.counting.stats(at_most_old=FRESH_SECONDS)
    except RotaError:
        return (*own, Counts.of(catalogue.STORE_UP, 0))
    return (*own, Counts.of(catalogue.STORE_UP, 1), *_counted(counts, context.metrics))


def _counted(counts: Stats, metrics: Metrics) -> Iterator[Tally]:
    jobs, depth, finished = Counts(catalogue.JOBS), Counts(catalogue.DEPTH), Counts(catalogue.FINISHED)
    for queue in metrics.queues.known:
        # A queue that ran empty shows its nought: whoever scales by it must not take silence for an answer.
        depth.add((queue,), 0)
    for lane in counts.lanes:
        queue = metrics.queues.shown(lane.queue)
        jobs.add((queue, metrics.types.shown(lane.type), lane.state), lane.count)
        depth.add((queue,), lane.count if lane.state in WAITING else 0)
    for state in sorted(FINISHED):
        finished.add((state,), counts.states[state] + counts.pruned.get(state, 0))
    yield from (jobs, depth, finished)
    yield Counts.of(catalogue.DEAD_LETTERS, counts.dlq_size)
    yield Counts.of(catalogue.WORKERS, counts.workers)
    yield Counts.of(catalogue.FLEET_SLOTS, counts.slots)
    yield Counts.of(catalogue.FLEET_BUSY, counts.busy)


_STATS = Route(
    method="GET",
    path="/v1/stats",
    scope=Scope.READ,
    handler=stats,
    summary="Count everything: what waits, runs and died, and who works",
    family="system",
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
        gives={200: (MetricsForm, PLAIN_TEXT, OPEN_METRICS)},
    ),
)
