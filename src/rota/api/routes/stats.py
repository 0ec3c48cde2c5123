"""Counts: for people, for seed 4's clients, and for scrapers."""

from __future__ import annotations

from collections.abc import Iterator

from rota.api.calls import Answer, Call, shown
from rota.api.counting import stats_now
from rota.api.settings import Scope
from rota.api.table import PLAIN_TEXT, Route
from rota.core.lifecycle import FINISHED, State
from rota.engine import Engine
from rota.ports.store import JobQuery
from rota.wire.system import MetricsForm, Stats

OPEN_METRICS = "application/openmetrics-text"


async def stats(call: Call) -> Answer:
    """Count everything."""
    return shown(await stats_now(call.engine))


async def metrics(call: Call) -> Answer:
    """Give the counts: as JSON, or as text for scrapers that ask for it."""
    counts = await stats_now(call.engine)
    accepted = (call.header(b"accept") or "").lower()
    if PLAIN_TEXT in accepted or OPEN_METRICS in accepted:
        is_open = OPEN_METRICS in accepted
        media = (
            f"{OPEN_METRICS}; version=1.0.0; charset=utf-8"
            if is_open
            else f"{PLAIN_TEXT}; version=0.0.4; charset=utf-8"
        )
        lines = [*_exposition(counts, is_leader=call.context.settings.is_leader()), *(["# EOF"] if is_open else [])]
        return Answer(("\n".join(lines) + "\n").encode(), media=media)
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


def _exposition(counts: Stats, *, is_leader: bool) -> Iterator[str]:
    yield "# HELP rota_jobs Unfinished jobs by queue, type and state."
    yield "# TYPE rota_jobs gauge"
    for lane in counts.lanes:
        labels = f'queue="{_escaped(lane.queue)}",type="{_escaped(lane.type)}",state="{lane.state}"'
        yield f"rota_jobs{{{labels}}} {lane.count}"
    yield "# HELP rota_jobs_finished Finished jobs by state, those that retention has deleted included."
    yield "# TYPE rota_jobs_finished counter"
    for state in State:
        if state in FINISHED:
            total = counts.states[state] + counts.pruned.get(state, 0)
            yield f'rota_jobs_finished_total{{state="{state}"}} {total}'
    gauges = {
        "rota_dead_letters": ("Jobs in state dead.", counts.dlq_size),
        "rota_queue_depth": ("Jobs that wait.", counts.queue_depth),
        "rota_workers": ("Workers heard of lately.", counts.workers),
        "rota_worker_slots": ("Slots of those workers.", counts.slots),
        "rota_worker_slots_busy": ("Slots in use.", counts.busy),
        "rota_leader": ("Whether this process leads.", int(is_leader)),
    }
    for name, (said, value) in gauges.items():
        yield f"# HELP {name} {said}"
        yield f"# TYPE {name} gauge"
        yield f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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
