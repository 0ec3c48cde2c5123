"""The overview of a deployment: one answer for the first page of a dashboard."""

from __future__ import annotations

from msgspec import Struct

from rota.core.lifecycle import State
from rota.wire.cluster import QueueForm
from rota.wire.history import Percentiles, TallyForm
from rota.wire.scalars import Count, Moment, Seconds


class StoreForm(Struct, kw_only=True):
    """The store: its kind, whether the last write of this process succeeded, and how long reading its clock took."""

    kind: str
    is_writable: bool
    latency: Seconds


class WorkerTotals(Struct, kw_only=True):
    """Workers by condition, and their slots. Draining workers are alive; stale ones have sent no heartbeat lately."""

    live: Count
    draining: Count
    stale: Count
    slots: Count
    busy: Count


class OverviewForm(Struct, kw_only=True):
    """Counts, members and services of the deployment, and the counts of the last hour.

    The answer is at most a second old and shared by all callers. `is_idle` says that no job is due or running;
    `last_ended_at` is when the last job ended, null if none is kept.
    """

    checked_at: Moment
    #: When the jobs were counted: of millions of jobs the last count is shown, and the next one begins.
    counted_at: Moment
    is_idle: bool
    last_ended_at: Moment | None
    states: dict[State, Count]
    due: Count
    queues: list[QueueForm]
    #: How many queues are left out; `GET /v1/queues` has them all.
    queues_left_out: Count
    workers: WorkerTotals
    schedulers: list[str]
    current_leader: str | None
    store: StoreForm
    broker_health: bool
    coordinator: str | None
    coordinator_health: bool
    #: How many live processes run each release.
    versions: dict[str, Count]
    last_hour: TallyForm
    percentiles: dict[str, Percentiles]
