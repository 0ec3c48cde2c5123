"""Telemetry events: one for each verb of the engine, with its jobs and how long it took.

They carry the values that the verb used, not copies, because every job passes here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.core.cluster import Leadership
from rota.core.graph import WorkflowId
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.ledger import LedgerEntry
from rota.core.queue import Queue
from rota.core.schedule import Firing, Schedule
from rota.core.settlement import Settlement
from rota.core.submission import NewJob
from rota.core.value import value
from rota.core.waiting import Emitted


@value
class JobsSubmitted:
    """`job.submitted`: new jobs are on stable storage."""

    jobs: Sequence[NewJob]
    seconds: float


@value
class JobsClaimed:
    """`job.claimed`: a worker has leased jobs."""

    jobs: Sequence[Job]
    seconds: float


@value
class JobsSettled:
    """`job.settled`: jobs have changed state. `jobs` are as they were before, in the order of `settlements`."""

    jobs: Sequence[Job]
    settlements: Sequence[Settlement]
    seconds: float


@value
class ClaimLimited:
    """`claim.limited`: a claim found nothing, because limits keep jobs of its queues from starting."""

    queues: Sequence[str]


@value
class LimitChanged:
    """`limit.changed`: a limit was set, deleted, closed or opened."""

    name: str
    action: str


@value
class BreakerChanged:
    """`breaker.changed`: a circuit breaker has opened or closed, or an operator has changed it."""

    name: str
    #: opened, reopened (a probe failed), closed, forced_open, forced_closed, reset
    action: str
    reason: str = ""


@value
class SettlementsRefused:
    """`settlement.refused`: outcomes came too late; their workers had lost the leases."""

    ids: Sequence[JobId]


@value
class LeasesLapsed:
    """`lease.expired`: leases lapsed; the jobs were taken from their workers."""

    jobs: Sequence[Job]


@value
class JobsPromoted:
    """`job.due`: jobs whose time has come are pending."""

    queues: Mapping[str, int]
    seconds: float


@value
class EventEmitted:
    """`event.emitted`: an event was emitted, for the first time or again, and jobs that waited for it are pending."""

    emitted: Emitted
    seconds: float


@value
class WaitsEnded:
    """`wait.ended`: waits for events ended by their time, or by an event that very many wait for."""

    queues: Mapping[str, int]
    seconds: float


@value
class CancelAsked:
    """`job.cancel_asked`: running jobs have been asked to stop."""

    jobs: Sequence[Job]


@value
class ScheduleFired:
    """`schedule.fired`: due fire times were recorded, and jobs made."""

    schedule: Schedule
    firing: Firing
    jobs: Sequence[JobId]
    late_seconds: float


@value
class ScheduleChanged:
    """`schedule.changed`: a schedule was created, edited, paused, resumed or dropped."""

    name: str
    action: str


@value
class QueueChanged:
    """`queue.changed`: a queue was paused, resumed or given limits."""

    queue: Queue


@value
class JobsPruned:
    """`job.pruned`: finished jobs past their time were deleted."""

    count: int
    seconds: float


@value
class JobsDispatched:
    """`job.dispatched`: due jobs were handed to the broker."""

    count: int
    seconds: float


@value
class JobsRecalled:
    """`job.recalled`: jobs that the broker has lost, or did not accept, are pending again."""

    count: int
    seconds: float


@value
class BrokerCalled:
    """`broker.called`: the broker has answered."""

    operation: str
    seconds: float


@value
class LeaderChanged:
    """`leader.changed`: another process leads."""

    leadership: Leadership


@value
class WorkflowChanged:
    """`workflow.changed`: a workflow was submitted, cancelled, retried, or had a node skipped."""

    workflow_id: WorkflowId
    name: str
    action: str


@value
class Acted:
    """`operator.acted`: an action was recorded in the ledger."""

    entry: LedgerEntry


Event = (
    JobsSubmitted
    | JobsClaimed
    | JobsSettled
    | SettlementsRefused
    | ClaimLimited
    | BreakerChanged
    | LimitChanged
    | LeasesLapsed
    | JobsPromoted
    | EventEmitted
    | WaitsEnded
    | CancelAsked
    | ScheduleFired
    | ScheduleChanged
    | QueueChanged
    | JobsPruned
    | JobsDispatched
    | JobsRecalled
    | BrokerCalled
    | LeaderChanged
    | WorkflowChanged
    | Acted
)
