"""Metric definitions: name, kind, help and labels of every metric. The reference page is generated from this list.

Dashboards and alerts depend on the names: none is changed without a line in the changelog.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    """The kind of a metric, as Prometheus defines it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSource(StrEnum):
    """Which processes show a metric."""

    EVERYWHERE = "everywhere"
    API = "API"
    WORKER = "worker"


#: Round trips to a store: from a tenth of a millisecond to ten seconds.
_TRIPS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
#: Waiting: from a millisecond to an hour.
_WAITS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3600.0)
#: Handlers: from a millisecond to a day.
_RUNS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 86400.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. A counter's name ends in `_total`, a duration's in `_seconds`."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    #: The upper bounds of a histogram's buckets, without the last, which has none.
    bounds: tuple[float, ...] = ()
    source: MetricSource = MetricSource.EVERYWHERE


BUILD: Final = Metric("rota_build_info", MetricKind.GAUGE, "Always 1; the label says which release runs.", ("version",))
SUBMITTED: Final = Metric("rota_jobs_submitted_total", MetricKind.COUNTER, "Jobs stored by this process.", ("type",))
ATTEMPTS: Final = Metric(
    "rota_attempts_total", MetricKind.COUNTER, "Attempts begun: jobs that a worker leased.", ("type",)
)
OUTCOMES: Final = Metric(
    "rota_attempt_outcomes_total",
    MetricKind.COUNTER,
    "Attempts ended: succeeded, failed, dead, snoozed, suspended, released, cancelled or lost.",
    ("type", "outcome"),
)
DURATION: Final = Metric(
    "rota_attempt_duration_seconds",
    MetricKind.HISTOGRAM,
    "From the lease of a job until its outcome was written, for attempts that a handler ended.",
    ("type",),
    _RUNS,
)
START_LATENCY: Final = Metric(
    "rota_start_latency_seconds",
    MetricKind.HISTOGRAM,
    "From when a job was due until a worker leased it; 0 if that was ahead of its time.",
    ("queue",),
    _WAITS,
)
LATENESS: Final = Metric(
    "rota_schedule_lateness_seconds",
    MetricKind.HISTOGRAM,
    "From a schedule's fire time until its job was made.",
    (),
    _WAITS,
)
LEASES_LOST: Final = Metric(
    "rota_leases_lost_total", MetricKind.COUNTER, "Jobs taken from workers that did not renew.", ("type",)
)
REFUSED: Final = Metric(
    "rota_settlements_refused_total",
    MetricKind.COUNTER,
    "Outcomes that were refused because their workers had lost the leases.",
)
CLAIMS_LIMITED: Final = Metric(
    "rota_claims_limited_total",
    MetricKind.COUNTER,
    "Claims that found nothing because a limit kept jobs from starting.",
)
BREAKER_CHANGES: Final = Metric(
    "rota_breaker_changes_total",
    MetricKind.COUNTER,
    "Changes of circuit breakers by this process: opened, reopened, closed, forced_open, forced_closed, reset.",
    ("breaker", "action"),
)
LEADER_CHANGES: Final = Metric(
    "rota_leader_changes_total",
    MetricKind.COUNTER,
    "Changes of the leader that this process has read, the first leader included.",
)
EMITTED: Final = Metric(
    "rota_events_emitted_total",
    MetricKind.COUNTER,
    "Emissions of events: the first of a name, or repeated ones.",
    ("emission",),
)
WORKFLOWS: Final = Metric(
    "rota_workflow_changes_total",
    MetricKind.COUNTER,
    "Workflows that were submitted, cancelled or retried, or of which a node was skipped.",
    ("action",),
)
PRUNED: Final = Metric("rota_jobs_pruned_total", MetricKind.COUNTER, "Finished jobs deleted past their time.")
CPU: Final = Metric(
    "rota_process_cpu_seconds_total", MetricKind.COUNTER, "CPU time that this process has used, of all its threads."
)
HTTP_REJECTED: Final = Metric(
    "rota_http_rejected_total",
    MetricKind.COUNTER,
    "Requests that were rejected before a route saw them, and connections that were closed on their callers, by reason:"
    " `unauthorized`, `invalid_http`, `headers_too_large`, `too_slow`, `write_timeout` (the caller did not read),"
    " `too_many_connections`, `too_many_bytes`, `too_many_requests`, `too_many_failures` (wrong tokens or passwords"
    " from one address), `too_many_logins`, `tls_handshake`, `token_limit` or `namespace_limit`.",
    ("reason",),
)
COORDINATOR_UP: Final = Metric(
    "rota_coordinator_up",
    MetricKind.GAUGE,
    "Whether the coordinator answered lately. If not, jobs run and no leader is known.",
)
STORE: Final = Metric(
    "rota_store_seconds",
    MetricKind.HISTOGRAM,
    "How long the store took: to submit, claim, settle, promote or prune a batch. Empty claims are left out.",
    ("operation",),
    _TRIPS,
)

DISPATCHED: Final = Metric(
    "rota_jobs_dispatched_total", MetricKind.COUNTER, "Jobs handed over to the queues of the broker."
)
RECALLED: Final = Metric(
    "rota_jobs_recalled_total", MetricKind.COUNTER, "Jobs recalled from the broker: it lost them, or was unavailable."
)
BROKER: Final = Metric(
    "rota_broker_seconds", MetricKind.HISTOGRAM, "How long the broker took to answer.", ("operation",), _TRIPS
)
BROKER_UP: Final = Metric(
    "rota_broker_up", MetricKind.GAUGE, "Whether the broker answers; always 1 where the store itself is the broker."
)

JOBS: Final = Metric(
    "rota_jobs",
    MetricKind.GAUGE,
    "Unfinished jobs by queue, type and state.",
    ("queue", "type", "state"),
    source=MetricSource.API,
)
FINISHED: Final = Metric(
    "rota_jobs_finished",
    MetricKind.GAUGE,
    "Finished jobs by state, those that retention has deleted included; falls when one is retried.",
    ("state",),
    source=MetricSource.API,
)
DEPTH: Final = Metric(
    "rota_queue_depth",
    MetricKind.GAUGE,
    "Jobs that wait, by queue: for a worker, for their time, or for other jobs.",
    ("queue",),
    source=MetricSource.API,
)
QUEUE_DUE: Final = Metric(
    "rota_queue_due", MetricKind.GAUGE,
    "Jobs that are due and wait for nothing but a worker, by queue; scale workers by it.", ("queue",),
    source=MetricSource.API,
)  # fmt: skip
QUEUE_OLDEST_DUE: Final = Metric(
    "rota_queue_oldest_due_seconds",
    MetricKind.GAUGE,
    "How long the next job in line has been due, by queue: of the type whose next job has waited longest; 0 if none is"
    " due. Jobs of one priority are in line by age. An older job of lower priority can be behind.",
    ("queue",),
    source=MetricSource.API,
)
LIMIT_RUNNING: Final = Metric(
    "rota_limit_running", MetricKind.GAUGE, "Jobs that run under the limit of a queue or a task.", ("limit",),
    source=MetricSource.API,
)  # fmt: skip
LIMIT_WAITING: Final = Metric(
    "rota_limit_waiting", MetricKind.GAUGE, "Due jobs that wait under the limit of a queue or a task.", ("limit",),
    source=MetricSource.API,
)  # fmt: skip
BREAKER_STATE: Final = Metric(
    "rota_breaker_state", MetricKind.GAUGE, "State of a circuit breaker: 0 closed, 1 half-open, 2 open.", ("breaker",),
    source=MetricSource.API,
)  # fmt: skip
BREAKER_WAITING: Final = Metric(
    "rota_breaker_waiting", MetricKind.GAUGE, "Due jobs of the tasks of a circuit breaker that is not closed.",
    ("breaker",), source=MetricSource.API,
)  # fmt: skip
QUEUE_PAUSED: Final = Metric(
    "rota_queue_paused", MetricKind.GAUGE, "Whether a queue is paused; absent for a queue without settings.",
    ("queue",), source=MetricSource.API,
)  # fmt: skip
DEAD_LETTERS: Final = Metric("rota_dead_letters", MetricKind.GAUGE, "Jobs in state dead.", source=MetricSource.API)
WORKERS: Final = Metric("rota_workers", MetricKind.GAUGE, "Workers with a recent heartbeat.", source=MetricSource.API)
ALL_SLOTS: Final = Metric("rota_fleet_slots", MetricKind.GAUGE, "Slots of all those workers.", source=MetricSource.API)
ALL_BUSY_SLOTS: Final = Metric(
    "rota_fleet_slots_busy", MetricKind.GAUGE, "Slots of those workers in use.", source=MetricSource.API
)
LEADER: Final = Metric("rota_leader", MetricKind.GAUGE, "Whether this process leads.", source=MetricSource.API)
STORE_UP: Final = Metric(
    "rota_store_up", MetricKind.GAUGE, "Whether the store answered this scrape; if not, the counts are absent.",
    source=MetricSource.API,
)  # fmt: skip

STORE_WRITABLE: Final = Metric(
    "rota_store_writable", MetricKind.GAUGE,
    "Whether the store took the last write of this process, such as its heartbeat.",
    source=MetricSource.API,
)  # fmt: skip

SLOTS: Final = Metric("rota_worker_slots", MetricKind.GAUGE, "Slots of this worker.", source=MetricSource.WORKER)
BUSY: Final = Metric(
    "rota_worker_slots_busy", MetricKind.GAUGE, "Jobs that this worker holds.", source=MetricSource.WORKER
)
DRAINING: Final = Metric(
    "rota_worker_draining", MetricKind.GAUGE, "Whether it is draining.", source=MetricSource.WORKER
)
LINKED: Final = Metric(
    "rota_worker_linked",
    MetricKind.GAUGE,
    "Whether its API or store accepted its last heartbeat.",
    source=MetricSource.WORKER,
)

ALL_METRICS: Final = (
    BUILD, CPU, SUBMITTED, ATTEMPTS, OUTCOMES, DURATION, START_LATENCY, LATENESS, LEASES_LOST, REFUSED, LEADER_CHANGES,
    HTTP_REJECTED, CLAIMS_LIMITED, LIMIT_RUNNING, LIMIT_WAITING, WORKFLOWS,
    BREAKER_STATE, BREAKER_WAITING, BREAKER_CHANGES,
    COORDINATOR_UP, EMITTED, PRUNED, STORE, DISPATCHED, RECALLED, BROKER, BROKER_UP, JOBS, FINISHED, DEPTH, QUEUE_DUE,
    QUEUE_OLDEST_DUE, QUEUE_PAUSED, DEAD_LETTERS, WORKERS, ALL_SLOTS, ALL_BUSY_SLOTS, LEADER, STORE_UP,
    STORE_WRITABLE, SLOTS, BUSY, DRAINING, LINKED,
)  # fmt: skip
