"""The catalogue of metrics: every name that Rota shows to a scraper, once. The reference page is made of it.

Names are a promise: dashboards and alerts are built on them. None is renamed without a line in the changelog.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a metric is, in the words of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """Where a metric is shown."""

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
    """One metric: a counter's name ends in `_total`, a duration's in `_seconds`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    #: The upper bounds of a histogram's buckets, without the last, which has none.
    bounds: tuple[float, ...] = ()
    source: Source = Source.EVERYWHERE


BUILD: Final = Metric("rota_build_info", Kind.GAUGE, "Always 1; the label says which release runs.", ("version",))
SUBMITTED: Final = Metric("rota_jobs_submitted_total", Kind.COUNTER, "Jobs stored by this process.", ("type",))
ATTEMPTS: Final = Metric("rota_attempts_total", Kind.COUNTER, "Attempts begun: jobs that a worker leased.", ("type",))
OUTCOMES: Final = Metric(
    "rota_attempt_outcomes_total",
    Kind.COUNTER,
    "Attempts ended: succeeded, failed, dead, snoozed, released, cancelled or lost.",
    ("type", "outcome"),
)
DURATION: Final = Metric(
    "rota_attempt_duration_seconds",
    Kind.HISTOGRAM,
    "From the lease of a job until its outcome was written, for attempts that a handler ended.",
    ("type",),
    _RUNS,
)
START_LATENCY: Final = Metric(
    "rota_start_latency_seconds",
    Kind.HISTOGRAM,
    "From when a job was due until a worker leased it; 0 if that was ahead of its time.",
    ("queue",),
    _WAITS,
)
LATENESS: Final = Metric(
    "rota_schedule_lateness_seconds", Kind.HISTOGRAM, "From a schedule's fire time until its job was made.", (), _WAITS
)
LEASES_LOST: Final = Metric(
    "rota_leases_lost_total", Kind.COUNTER, "Jobs taken from workers that did not renew.", ("type",)
)
REFUSED: Final = Metric(
    "rota_settlements_refused_total", Kind.COUNTER, "Outcomes that came too late: their jobs belonged to someone else."
)
LEADER_CHANGES: Final = Metric(
    "rota_leader_changes_total", Kind.COUNTER, "Times this process learned of a new leader, the first included."
)
PRUNED: Final = Metric("rota_jobs_pruned_total", Kind.COUNTER, "Finished jobs deleted past their time.")
CPU: Final = Metric(
    "rota_process_cpu_seconds_total", Kind.COUNTER, "CPU time that this process has used, of all its threads."
)
HTTP_REJECTED: Final = Metric(
    "rota_http_rejected_total",
    Kind.COUNTER,
    "Requests that were rejected before a route saw them, and connections that were closed on their callers, by reason:"
    " `unauthorized`, `invalid_http`, `headers_too_large`, `too_slow`, `write_timeout` (the caller did not read),"
    " `too_many_connections`, `too_many_bytes` or `too_many_requests`.",
    ("reason",),
)
COORDINATOR_UP: Final = Metric(
    "rota_coordinator_up", Kind.GAUGE, "Whether the coordinator answered lately. If not, jobs run and nobody leads."
)
STORE: Final = Metric(
    "rota_store_seconds",
    Kind.HISTOGRAM,
    "How long the store took: to submit, claim, settle, promote or prune a batch. Empty claims are left out.",
    ("operation",),
    _TRIPS,
)

DISPATCHED: Final = Metric("rota_jobs_dispatched_total", Kind.COUNTER, "Jobs handed over to the broker's lines.")
RECALLED: Final = Metric(
    "rota_jobs_recalled_total", Kind.COUNTER, "Jobs taken back from the broker: it lost them, or was away."
)
BROKER: Final = Metric(
    "rota_broker_seconds", Kind.HISTOGRAM, "How long the broker took to answer.", ("operation",), _TRIPS
)
BROKER_UP: Final = Metric(
    "rota_broker_up", Kind.GAUGE, "Whether the broker answers; always 1 where the store itself is the broker."
)

JOBS: Final = Metric(
    "rota_jobs", Kind.GAUGE, "Unfinished jobs by queue, type and state.", ("queue", "type", "state"), source=Source.API
)
FINISHED: Final = Metric(
    "rota_jobs_finished",
    Kind.GAUGE,
    "Finished jobs by state, those that retention has deleted included; falls when one is retried.",
    ("state",),
    source=Source.API,
)
DEPTH: Final = Metric(
    "rota_queue_depth",
    Kind.GAUGE,
    "Jobs that wait, by queue: for a worker, for their time, or for other jobs.",
    ("queue",),
    source=Source.API,
)
QUEUE_DUE: Final = Metric(
    "rota_queue_due", Kind.GAUGE, "Jobs that are due and wait for nothing but a worker, by queue; scale workers by it.",
    ("queue",), source=Source.API,
)  # fmt: skip
QUEUE_OLDEST_DUE: Final = Metric(
    "rota_queue_oldest_due_seconds",
    Kind.GAUGE,
    "How long the next job in line has been due, by queue: of the type whose next job has waited longest; 0 if none is"
    " due. Jobs of one priority are in line by age. An older job of lower priority can be behind.",
    ("queue",),
    source=Source.API,
)
QUEUE_PAUSED: Final = Metric(
    "rota_queue_paused", Kind.GAUGE, "Whether a queue is paused; absent for a queue without settings.", ("queue",),
    source=Source.API,
)  # fmt: skip
DEAD_LETTERS: Final = Metric("rota_dead_letters", Kind.GAUGE, "Jobs in state dead.", source=Source.API)
WORKERS: Final = Metric("rota_workers", Kind.GAUGE, "Workers heard of lately.", source=Source.API)
FLEET_SLOTS: Final = Metric("rota_fleet_slots", Kind.GAUGE, "Slots of all those workers.", source=Source.API)
FLEET_BUSY: Final = Metric("rota_fleet_slots_busy", Kind.GAUGE, "Slots of those workers in use.", source=Source.API)
LEADER: Final = Metric("rota_leader", Kind.GAUGE, "Whether this process leads.", source=Source.API)
STORE_UP: Final = Metric(
    "rota_store_up", Kind.GAUGE, "Whether the store answered this scrape; if not, the counts are absent.",
    source=Source.API,
)  # fmt: skip

STORE_WRITABLE: Final = Metric(
    "rota_store_writable", Kind.GAUGE, "Whether the store took the last write of this process, such as its heartbeat.",
    source=Source.API,
)  # fmt: skip

SLOTS: Final = Metric("rota_worker_slots", Kind.GAUGE, "Slots of this worker.", source=Source.WORKER)
BUSY: Final = Metric("rota_worker_slots_busy", Kind.GAUGE, "Jobs that this worker holds.", source=Source.WORKER)
DRAINING: Final = Metric("rota_worker_draining", Kind.GAUGE, "Whether it was told to stop.", source=Source.WORKER)
LINKED: Final = Metric(
    "rota_worker_linked", Kind.GAUGE, "Whether its API or store took its last sign of life.", source=Source.WORKER
)

CATALOGUE: Final = (
    BUILD, CPU, SUBMITTED, ATTEMPTS, OUTCOMES, DURATION, START_LATENCY, LATENESS, LEASES_LOST, REFUSED, LEADER_CHANGES,
    HTTP_REJECTED,
    COORDINATOR_UP, PRUNED, STORE, DISPATCHED, RECALLED, BROKER, BROKER_UP, JOBS, FINISHED, DEPTH, QUEUE_DUE,
    QUEUE_OLDEST_DUE, QUEUE_PAUSED, DEAD_LETTERS, WORKERS, FLEET_SLOTS, FLEET_BUSY, LEADER, STORE_UP,
    STORE_WRITABLE, SLOTS, BUSY, DRAINING, LINKED,
)  # fmt: skip
