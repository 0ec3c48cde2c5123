"""The state of the whole as it is shown: counts, health, who leads, and why a job is where it is."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rota.core.lane import Lane, LaneCount
from rota.core.lifecycle import State
from rota.ports.store import Census
from rota.wire.fleet import QueueForm, WorkerForm
from rota.wire.jobs import ErrorForm
from rota.wire.scalars import Count, Identifier, Line, Moment, Seconds


class LaneForm(Struct, kw_only=True):
    """How many jobs of a queue and type are in a state; `due_since` says when the next of them became due."""

    queue: str
    type: str
    state: State
    count: Count
    due_since: Moment | None = None


class Stats(Struct, kw_only=True):
    """Everything counted.

    `queue_depth` is what waits, `due` what of that waits for nothing but a worker, `dlq_size` the dead letters,
    `pruned` what retention deleted. `lanes` is a page of the unfinished jobs by queue, type and state; `next_cursor`
    asks for the next one.
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
    """The counts of seed 4. Times are seconds since 1970; `last_dispatch` is 0 while there was none."""

    timestamp: Count
    pending_jobs: Count
    queued_jobs: Count
    running_jobs: Count
    completed_jobs: Count
    failed_jobs: Count
    jobs_dispatched: Count
    last_dispatch: Count


class Liveness(Struct, kw_only=True):
    """That the process answers."""

    status: str


class ProblemForm(Struct, kw_only=True):
    """A problem of the deployment as a whole: its code, what it means, and what to do."""

    code: str
    text: str
    fix: str


class Health(Struct, kw_only=True):
    """How this process, what it depends on and the deployment are.

    `unhealthy`: the store does not answer or takes no writes. `degraded`: jobs run, and `problems` says what is wrong.
    """

    status: str
    instance_id: str
    is_leader: bool
    coordinator_health: bool
    store_health: bool
    #: Whether the store took the last write of this process.
    store_writable: bool
    #: Whether the broker answers. If not, workers take jobs from the store itself.
    broker_health: bool
    problems: list[ProblemForm]
    timestamp: Count


class WorkerHealth(Struct, kw_only=True):
    """How a worker is. `link_health` says whether its API or store took its last sign of life."""

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
    """Who leads."""

    current_leader: str | None
    is_leader: bool
    instance_id: str


class ClusterForm(Struct, kw_only=True):
    """The cluster as the coordinator knows it: who leads, who is alive, and what all are configured to do."""

    coordinator: str
    coordinator_health: bool
    current_leader: str | None
    term: Count | None
    members: list[WorkerForm]
    configuration: dict[str, str]


class Configured(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a key of the shared configuration shall say."""

    value: Line


class SystemForm(Struct, kw_only=True):
    """What this server is."""

    version: str
    instance_id: str
    store: str
    is_leader: bool
    current_leader: str | None
    started_at: Moment
    uptime: Seconds
    schedulers: list[str]
    api_nodes: list[str]


class ReasonForm(Struct, kw_only=True):
    """One reason why a job is where it is."""

    code: str
    text: str
    fix: str
    evidence: dict[str, Any]


class ExplanationForm(Struct, kw_only=True):
    """Why a job is where it is, the weightiest reason first."""

    id: Identifier
    state: State
    reasons: list[ReasonForm]


class LetterGroup(Struct, kw_only=True):
    """Dead letters of one cause: one type, one error but for its numbers."""

    fingerprint: str
    type: str
    error: ErrorForm | None
    count: Count
    first_at: Moment
    last_at: Moment
    example_id: Identifier


class LetterGroups(Struct, kw_only=True):
    """The groups, largest first. `is_complete` is false when there were more dead letters than were looked at."""

    items: list[LetterGroup]
    is_complete: bool


class Overview(Struct, kw_only=True):
    """What a live stream begins with."""

    stats: Stats
    queues: list[QueueForm]
    #: How many queues are not shown; `GET /v1/queues` has them all.
    queues_left_out: Count = 0


def census_of(stats: Stats) -> Census:
    """Read the census that the counts were made of."""
    living = tuple(LaneCount(Lane(one.queue, one.type), one.state, one.count, one.due_since) for one in stats.lanes)
    unfinished = {one.state for one in living}
    finished = {state: count for state, count in stats.states.items() if state not in unfinished and count}
    return Census(lanes=living, finished=finished, pruned=stats.pruned)


def lane_forms(census: Census) -> list[LaneForm]:
    """Show the unfinished jobs by lane and state."""
    return [
        LaneForm(queue=one.lane.queue, type=one.lane.type, state=one.state, count=one.count, due_since=one.due_since)
        for one in sorted(census.lanes, key=lambda one: (one.lane.queue, one.lane.type, one.state))
    ]
