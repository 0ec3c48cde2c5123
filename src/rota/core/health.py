"""Health: problems of a deployment that need an operator, derived from counts and members.

Pure, so that every code has a test. `/v1/attention`, `/health`, `rota status`, `rota doctor` and the dashboard show the
list; its codes are part of the API. Problems that depend on time are in `health_history`, with the whole list.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from shlex import quote
from types import MappingProxyType
from typing import Final

from rota.core.breaker import CircuitBreaker
from rota.core.cluster import Member, Role
from rota.core.history import Tally
from rota.core.lifecycle import DUE_STATES
from rota.core.limit import UNTIL_OPENED, LimitUsage
from rota.core.queue import LaneCount, Queue
from rota.core.schedule import Schedule
from rota.core.value import value

#: Less free space on the disk of the store needs attention.
DISK_LOW_BYTES: Final = 1_000_000_000


#: All that is checked, by the code of the problem.
CHECKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "store_unavailable": "the store answers",
        "store_not_writable": "the store takes writes",
        "disk_low": "the disk of the store has space",
        "migration_pending": "the store has all migrations of this release",
        "schema_too_new": "the store has no migrations of a newer release",
        "retention_behind": "retention deletes old jobs in time",
        "coordinator_down": "the coordinator answers",
        "broker_down": "the broker answers",
        "no_scheduler": "a scheduler is alive",
        "no_leader": "a scheduler leads",
        "no_worker_for_queue": "every queue with due jobs has a worker",
        "no_worker_for_type": "every type with due jobs has a worker",
        "worker_stale": "every worker sends heartbeats",
        "threads_left_behind": "no handler ignores its timeout",
        "version_skew": "all processes run one release",
        "clock_skew": "the clocks agree",
        "oldest_due_over": "due jobs start soon",
        "queue_paused_with_backlog": "no paused queue has due jobs",
        "limit_closed": "no closed limit holds jobs back",
        "breaker_open": "no circuit breaker is open",
        "schedule_late": "schedules fire in time",
        "schedule_paused_long": "no schedule is paused for long",
        "dead_growing": "few jobs die",
        "lease_churn": "leases are renewed",
        "insecure": "the API needs a token, or is reached from this machine only",
    }
)


class Severity(StrEnum):
    """How severe a problem is. With `info` alone the deployment is still healthy."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@value
class HealthProblem:
    """One problem: a code for programs, a sentence for people, a remedy, and where the dashboard shows it."""

    code: str
    text: str
    fix: str
    severity: Severity = Severity.WARNING
    since: datetime | None = None
    #: The dashboard's page, below `/ui`.
    link: str = "/system"
    evidence: Mapping[str, str | int | float] = field(default_factory=dict)


@value
class HealthInputs:
    """The values that problems are derived from."""

    lanes: Sequence[LaneCount]
    queues: Sequence[Queue]
    #: Live processes of all roles.
    members: Sequence[Member]
    #: The leader; None if none is known.
    leader: str | None
    is_store_writable: bool = True
    is_coordinator_up: bool = True
    is_broker_up: bool = True
    #: Whether this process has just started, so that the leader may not be known yet.
    is_starting: bool = False
    #: The time; None leaves out what depends on it.
    now: datetime | None = None
    #: Workers that stopped sending heartbeats lately without leaving.
    silent_workers: Sequence[Member] = ()
    #: Schedules that are due and have not fired.
    due_schedules: Sequence[Schedule] = ()
    paused_schedules: Sequence[Schedule] = ()
    #: The counts of the last quarter of an hour.
    recent: Tally = field(default_factory=Tally)
    #: This host's clock less the store's.
    clock_offset: timedelta = timedelta(0)
    #: Circuit breakers that are open.
    open_breakers: Sequence[CircuitBreaker] = ()
    #: Whether the API can be reached from other machines and needs no token.
    is_exposed: bool = False
    #: How many jobs are dead now; None if they were not counted.
    dead: int | None = None
    #: Closed limits under which jobs wait.
    closed_limits: Sequence[LimitUsage] = ()
    #: Migrations of this release that the store lacks, and applied ones that this release does not know.
    missing_migrations: Sequence[str] = ()
    unknown_migrations: Sequence[str] = ()
    #: Free bytes on the disk of the store; None if the store does not report it.
    free_bytes: int | None = None
    #: When the oldest job that should have been deleted ended; None if retention keeps up.
    oldest_prunable: datetime | None = None


def service_problems(inputs: HealthInputs) -> list[HealthProblem]:
    result = []
    if not inputs.is_store_writable:
        text = "the store took no write lately: nothing can be submitted, and no outcome can be recorded"
        fix = "see the log for the cause: a full disk, a read-only database, a lock"
        result.append(HealthProblem("store_not_writable", text, fix, Severity.CRITICAL))
    if not inputs.is_coordinator_up:
        text = "the coordinator does not answer: jobs run, and no leader is known"
        fix = "see whether the coordinator runs, and the log for the cause"
        result.append(HealthProblem("coordinator_down", text, fix))
    if not inputs.is_broker_up:
        text = "the broker does not answer: workers take jobs from the store itself"
        result.append(HealthProblem("broker_down", text, "see whether the broker runs, and the log for the cause"))
    return result


def store_problems(inputs: HealthInputs) -> list[HealthProblem]:
    """Name problems of the store itself: its disk, its schema, and rows that retention should have deleted."""
    result = []
    if inputs.free_bytes is not None and inputs.free_bytes < DISK_LOW_BYTES:
        text = f"{inputs.free_bytes // 1_000_000:,} MB are free on the disk of the store"
        fix = "free space, or keep finished jobs for a shorter time: --keep-completed"
        evidence = {"free_bytes": inputs.free_bytes}
        result.append(HealthProblem("disk_low", text, fix, Severity.CRITICAL, evidence=evidence))
    for name in inputs.missing_migrations:
        text = f"migration {name} is missing in the store"
        result.append(HealthProblem("migration_pending", text, "rota db migrate", evidence={"migration": name}))
    for name in inputs.unknown_migrations:
        text = f"migration {name} is of a newer or another release: this process cannot be started again"
        fix = "bring all processes to that release"
        result.append(HealthProblem("schema_too_new", text, fix, evidence={"migration": name}))
    if inputs.oldest_prunable is not None:
        text = "jobs past their retention have not been deleted: the store grows"
        fix = "see whether a scheduler is alive and leads, and its log: rota cluster members"
        result.append(HealthProblem("retention_behind", text, fix, since=inputs.oldest_prunable))
    return result


def limit_problems(inputs: HealthInputs) -> list[HealthProblem]:
    return [_closed(usage) for usage in inputs.closed_limits]


def _closed(usage: LimitUsage) -> HealthProblem:
    limit, count = usage.limit, usage.waiting
    why = f" ({limit.reason})" if limit.reason else ""
    until = limit.closed_until
    when = "" if until in {None, UNTIL_OPENED} else f" until {until:%Y-%m-%d %H:%M:%S} UTC"
    return HealthProblem(
        "limit_closed",
        f"limit {limit.name!r} is closed{when}{why} and {'1 job waits' if count == 1 else f'{count:,} jobs wait'}",
        f"rota limits open {quote(limit.name)}",
        since=limit.set_at,
        link="/limits",
        evidence={"limit": limit.name, "waiting": count},
    )


def scheduler_problems(inputs: HealthInputs) -> list[HealthProblem]:
    schedulers = [member for member in inputs.members if member.role is Role.SCHEDULER]
    if inputs.is_starting:
        return []
    if not schedulers:
        text = "no scheduler is alive: schedules do not fire, delayed jobs do not become due, lost jobs are not found"
        return [HealthProblem("no_scheduler", text, "start one: rota scheduler", Severity.CRITICAL)]
    if inputs.leader is None and inputs.is_coordinator_up:
        text = f"none of the {len(schedulers)} live schedulers is known to lead"
        return [HealthProblem("no_leader", text, "wait ten seconds for an election; then see the schedulers' logs")]
    return []


def queue_problems(inputs: HealthInputs) -> list[HealthProblem]:
    due: dict[str, Counter[str]] = defaultdict(Counter)
    for one in inputs.lanes:
        if one.state in DUE_STATES and one.count:
            due[one.lane.queue][one.lane.type] += one.count
    paused = {queue.name: queue for queue in inputs.queues if queue.paused_at is not None}
    workers = [member for member in inputs.members if member.role is Role.WORKER and not member.is_draining]
    result = []
    for queue, types in sorted(due.items()):
        if queue in paused:
            result.append(_paused(paused[queue], types.total()))
        else:
            result += _without_worker(queue, types, [worker for worker in workers if queue in worker.queues])
    return result


def breaker_problems(inputs: HealthInputs) -> list[HealthProblem]:
    return [
        HealthProblem(
            "breaker_open",
            f"the circuit breaker {one.name!r} is open: {one.reason or 'its dependency fails'}; its jobs wait",
            f"repair the dependency; to start its jobs all the same: rota breakers close {quote(one.name)}",
            since=one.since,
            link="/limits",
            evidence={"breaker": one.name, "opened": one.opened},
        )
        for one in inputs.open_breakers
    ]


def _paused(queue: Queue, count: int) -> HealthProblem:
    why = f" ({queue.pause_reason})" if queue.pause_reason else ""
    text = f"queue {queue.name!r} is paused{why} and {_jobs(count)} due"
    return HealthProblem(
        "queue_paused_with_backlog",
        text,
        f"rota queues resume {quote(queue.name)}",
        since=queue.paused_at,
        link="/queues",
        evidence={"queue": queue.name, "due": count},
    )


def _without_worker(queue: str, types: Counter[str], workers: Sequence[Member]) -> list[HealthProblem]:
    if not workers:
        text = f"no live worker takes jobs from queue {queue!r}, and {_jobs(types.total())} due there"
        return [
            HealthProblem(
                "no_worker_for_queue",
                text,
                f"start one: rota worker --queues {quote(queue)}",
                Severity.CRITICAL,
                link="/workers",
                evidence={"queue": queue, "due": types.total()},
            )
        ]
    unknown = [name for name in sorted(types) if all(_does_not_know(worker, name) for worker in workers)]
    return [
        HealthProblem(
            "no_worker_for_type",
            f"no live worker on queue {queue!r} knows the type {name!r}, and {_jobs(types[name])} due",
            "start a worker whose app defines it, or correct the type",
            link="/workers",
            evidence={"queue": queue, "type": name, "due": types[name]},
        )
        for name in unknown
    ]


def _does_not_know(worker: Member, name: str) -> bool:
    return worker.types is not None and name not in worker.types


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"
