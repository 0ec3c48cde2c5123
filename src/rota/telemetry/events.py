"""The events: one for each verb of the engine, with what it was about and how long it took.

They carry the values the verb worked with, not copies: a million jobs a minute pass here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.core.fleet import Leadership
from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lane import Queue
from rota.core.ledger import Entry
from rota.core.schedule import Firing, Schedule
from rota.core.settlement import Settlement
from rota.core.submission import NewJob
from rota.core.value import value


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
    """`job.settled`: jobs have moved on. `jobs` are they as they were before, in the order of `settlements`."""

    jobs: Sequence[Job]
    settlements: Sequence[Settlement]
    seconds: float


@value
class SettlementsRefused:
    """`settlement.refused`: a worker came too late; its jobs belong to someone else."""

    ids: Sequence[JobId]


@value
class LeasesExpired:
    """`lease.expired`: workers did not renew; their jobs were taken from them."""

    jobs: Sequence[Job]


@value
class JobsPromoted:
    """`job.due`: jobs whose time has come are pending."""

    queues: Mapping[str, int]
    seconds: float


@value
class CancelAsked:
    """`job.cancel_asked`: running jobs have been asked to stop."""

    jobs: Sequence[Job]


@value
class ScheduleFired:
    """`schedule.fired`: fire times were dealt with, and jobs made."""

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
    """`job.dispatched`: due jobs stand in a broker's lines."""

    count: int
    seconds: float


@value
class JobsRecalled:
    """`job.recalled`: jobs that a broker has lost, or was not there for, are pending again."""

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
class Acted:
    """`operator.acted`: someone did something that the ledger records."""

    entry: Entry


Event = (
    JobsSubmitted
    | JobsClaimed
    | JobsSettled
    | SettlementsRefused
    | LeasesExpired
    | JobsPromoted
    | CancelAsked
    | ScheduleFired
    | ScheduleChanged
    | QueueChanged
    | JobsPruned
    | JobsDispatched
    | JobsRecalled
    | BrokerCalled
    | LeaderChanged
    | Acted
)
