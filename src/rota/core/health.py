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

from rota.core.cluster import Member, Role
from rota.core.history import Tally
from rota.core.lifecycle import DUE_STATES
from rota.core.queue import LaneCount, Queue
from rota.core.schedule import Schedule
from rota.core.value import value


class Severity(StrEnum):
    """How grave a problem is. With `info` alone the deployment is still healthy."""

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
    #: Whether this process has just started and cannot know the leader yet.
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
    #: Whether the API can be reached from other machines and needs no token.
    is_exposed: bool = False


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
