"""Statistics, metrics, health, cluster and explanations."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rota.core.lifecycle import State
from rota.core.queue import Lane, LaneCount
from rota.ports.store import Census
from rota.wire.cluster import QueueForm, WorkerForm
from rota.wire.jobs import ErrorForm
from rota.wire.scalars import Count, Identifier, Moment, Seconds, ShortText


class LaneForm(Struct, kw_only=True):
    """The number of jobs of a queue and type in a state; `due_since` is when the next of them became due."""

    queue: str
    type: str
    state: State
    count: Count
    due_since: Moment | None = None


class Stats(Struct, kw_only=True):
    """Counts of all jobs and workers.

    `queue_depth` counts waiting jobs, `due` those of them that wait only for a worker, `dlq_size` the dead letters,
    `pruned` jobs that retention deleted. `lanes` is a page of the unfinished jobs by queue, type and state;
    `next_cursor` requests the next page.
    """

    timestamp: Moment
    queue_depth: Count
    due: Count
    running: Count
    worker_utilization: float
    dlq_size: Count
    workers: Count
    slots: Count
    busy: Count
    states: dict[State, Count]
    pruned: dict[State, Count]
    lanes: list[LaneForm]
    next_cursor: str | None = None


class MetricsForm(Struct, kw_only=True):
    """Counts of `GET /metrics` as JSON. Times are seconds since 1970; `last_dispatch` is 0 before the first one."""

    timestamp: Count
    pending_jobs: Count
    queued_jobs: Count
    running_jobs: Count
    completed_jobs: Count
    failed_jobs: Count
    jobs_dispatched: Count
    last_dispatch: Count


class Liveness(Struct, kw_only=True):
    """Whether the process answers."""

    status: str


class ProblemForm(Struct, kw_only=True):
    """A problem of the deployment: its code, its meaning, and the remedy."""

    code: str
    text: str
    fix: str


class AttentionItem(Struct, kw_only=True):
    """A problem that needs an operator. `link` is the dashboard's page below `/ui`; `since` is null if unknown."""

    code: str
    severity: str
    text: str
    fix: str
    since: Moment | None
    link: str
    evidence: dict[str, Any]


class AttentionForm(Struct, kw_only=True):
    """What needs attention, the gravest first; empty if nothing does."""

    items: list[AttentionItem]
    checked_at: Moment


class Health(Struct, kw_only=True):
    """Health of this process, its dependencies and the deployment.

    `unhealthy`: the store does not answer or refuses writes. `degraded`: jobs run, and `problems` says what is wrong.
    """

    status: str
    instance_id: str
    is_leader: bool
    coordinator_health: bool
    store_health: bool
    #: Whether the last write of this process succeeded.
    store_writable: bool
    #: Whether the broker answers. If not, workers claim from the store directly.
    broker_health: bool
    problems: list[ProblemForm]
    timestamp: Count


class WorkerHealth(Struct, kw_only=True):
    """Health of a worker. `link_health` says whether its API or store accepted its last heartbeat."""

    status: str
    instance_id: str
    link_health: bool
    coordinator_health: bool
    broker_health: bool
    is_draining: bool
    slots: Count
    busy: Count
    timestamp: Count


class LeaderForm(Struct, kw_only=True):
    """The current leader."""

    current_leader: str | None
    is_leader: bool
    instance_id: str


class ClusterForm(Struct, kw_only=True):
    """The cluster as the coordinator reports it: leader, live members, and shared configuration."""

    coordinator: str
    coordinator_health: bool
    current_leader: str | None
    term: Count | None
    members: list[WorkerForm]
    configuration: dict[str, str]


class LeaderTransfer(Struct, kw_only=True, forbid_unknown_fields=True):
    """The scheduler that is to lead; without it any live one that does not lead now."""

    to: ShortText | None = None


class TransferredLead(Struct, kw_only=True):
    """The new leader and its term, and the process that led before."""

    current_leader: str
    term: Count
    previous_leader: str


class Configured(Struct, kw_only=True, forbid_unknown_fields=True):
    """The value of a key of the shared configuration."""

    value: ShortText


class SystemForm(Struct, kw_only=True):
    """Version and configuration of this server."""

    version: str
    instance_id: str
    store: str
    is_leader: bool
    current_leader: str | None
    started_at: Moment
    uptime: Seconds
    schedulers: list[str]
    api_nodes: list[str]


class TableSizeForm(Struct, kw_only=True):
    """The size of a table with its indexes, or of a file; `rows` is an estimate, null where the store has none."""

    name: str
    bytes: Count
    rows: Count | None


class StoreSizes(Struct, kw_only=True):
    """Sizes and condition of the store. `retention` says for how many seconds finished jobs are kept.

    By state; null is for ever.
    """

    kind: str
    tables: list[TableSizeForm]
    free_bytes: Count | None
    missing_migrations: list[str]
    unknown_migrations: list[str]
    oldest_prunable: Moment | None
    retention: dict[str, Seconds | None]


class SettingForm(Struct, kw_only=True):
    """A setting: its value as text, and where it comes from (a flag, the environment, a file, the default)."""

    name: str
    value: str
    origin: str
    is_default: bool


class SettingList(Struct, kw_only=True):
    """All settings of the process that answers."""

    instance_id: str
    items: list[SettingForm]


class CheckForm(Struct, kw_only=True):
    """A check: its status is `ok`, or the severity of the problem that it found: info, warning or critical."""

    code: str
    status: str
    text: str
    fix: str
    link: str


class CheckList(Struct, kw_only=True):
    """All checks of the deployment."""

    items: list[CheckForm]
    checked_at: Moment


class LeaderTerm(Struct, kw_only=True):
    """A leader, and when the process that answers first saw it lead."""

    name: str
    term: Count
    seen_at: Moment


class LeaderList(Struct, kw_only=True):
    """The leaders that the process that answers has seen, the latest first; it was started at `since`."""

    current_leader: str | None
    items: list[LeaderTerm]
    since: Moment


class ReasonForm(Struct, kw_only=True):
    """One reason for the state of a job."""

    code: str
    text: str
    fix: str
    evidence: dict[str, Any]


class ExplanationForm(Struct, kw_only=True):
    """Why a job is in its state, the most important reason first."""

    id: Identifier
    state: State
    reasons: list[ReasonForm]


class DeadLetterNote(Struct, kw_only=True):
    """An operator's note on dead letters of one cause."""

    text: str
    set_by: str
    set_at: Moment


class DeadLetterGroup(Struct, kw_only=True):
    """Dead letters of one cause: the same type, and the same error except for numbers."""

    fingerprint: str
    type: str
    error: ErrorForm | None
    count: Count
    first_at: Moment
    last_at: Moment
    example_id: Identifier
    #: The tags of the example.
    tags: list[str]
    #: How many died in each of the last 24 hours, oldest first, and are still dead.
    trend: list[Count]
    note: DeadLetterNote | None


class DeadLetterGroups(Struct, kw_only=True):
    """The groups, largest first. `is_complete` is false when some were left out."""

    items: list[DeadLetterGroup]
    is_complete: bool
    #: The start of the first hour of the trends.
    trend_since: Moment


class Overview(Struct, kw_only=True):
    """The snapshot at the start of a live stream."""

    stats: Stats
    queues: list[QueueForm]
    #: How many queues are left out; `GET /v1/queues` has them all.
    queues_left_out: Count = 0


def census_of(stats: Stats) -> Census:
    """Convert counts back to a census."""
    living = tuple(LaneCount(Lane(one.queue, one.type), one.state, one.count, one.due_since) for one in stats.lanes)
    unfinished = {one.state for one in living}
    finished = {state: count for state, count in stats.states.items() if state not in unfinished and count}
    return Census(lanes=living, finished=finished, pruned=stats.pruned)


def lane_forms(census: Census) -> list[LaneForm]:
    return [
        LaneForm(queue=one.lane.queue, type=one.lane.type, state=one.state, count=one.count, due_since=one.due_since)
        for one in sorted(census.lanes, key=lambda one: (one.lane.queue, one.lane.type, one.state))
    ]
