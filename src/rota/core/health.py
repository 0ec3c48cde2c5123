"""Health: problems of a deployment that need an operator, derived from counts and members.

Pure, so that every code has a test. `/health` and `rota status` show this list; its codes are part of the API.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from shlex import quote

from rota.core.cluster import Member, Role
from rota.core.lifecycle import DUE_STATES
from rota.core.queue import LaneCount, Queue
from rota.core.value import value


@value
class HealthProblem:
    """One problem: a code for programs, a sentence for people, and a remedy."""

    code: str
    text: str
    fix: str


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


def problems(inputs: HealthInputs) -> list[HealthProblem]:
    """Return all problems, the gravest first."""
    return [*_services(inputs), *_schedulers(inputs), *_queues(inputs)]


def _services(inputs: HealthInputs) -> list[HealthProblem]:
    result = []
    if not inputs.is_store_writable:
        text = "the store took no write lately: nothing can be submitted, and no outcome can be recorded"
        fix = "see the log for the cause: a full disk, a read-only database, a lock"
        result.append(HealthProblem("store_not_writable", text, fix))
    if not inputs.is_coordinator_up:
        text = "the coordinator does not answer: jobs run, and no leader is known"
        fix = "see whether the coordinator runs, and the log for the cause"
        result.append(HealthProblem("coordinator_down", text, fix))
    if not inputs.is_broker_up:
        text = "the broker does not answer: workers take jobs from the store itself"
        result.append(HealthProblem("broker_down", text, "see whether the broker runs, and the log for the cause"))
    return result


def _schedulers(inputs: HealthInputs) -> list[HealthProblem]:
    schedulers = [member for member in inputs.members if member.role is Role.SCHEDULER]
    if inputs.is_starting:
        return []
    if not schedulers:
        text = "no scheduler is alive: schedules do not fire, delayed jobs do not become due, lost jobs are not found"
        return [HealthProblem("no_scheduler", text, "start one: rota scheduler")]
    if inputs.leader is None and inputs.is_coordinator_up:
        text = f"none of the {len(schedulers)} live schedulers is known to lead"
        return [HealthProblem("no_leader", text, "wait ten seconds for an election; then see the schedulers' logs")]
    return []


def _queues(inputs: HealthInputs) -> list[HealthProblem]:
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
    return HealthProblem("queue_paused_with_backlog", text, f"rota queues resume {quote(queue.name)}")


def _without_worker(queue: str, types: Counter[str], workers: Sequence[Member]) -> list[HealthProblem]:
    if not workers:
        text = f"no live worker takes jobs from queue {queue!r}, and {_jobs(types.total())} due there"
        return [HealthProblem("no_worker_for_queue", text, f"start one: rota worker --queues {quote(queue)}")]
    unknown = [name for name in sorted(types) if all(_does_not_know(worker, name) for worker in workers)]
    return [
        HealthProblem(
            "no_worker_for_type",
            f"no live worker on queue {queue!r} knows the type {name!r}, and {_jobs(types[name])} due",
            "start a worker whose app defines it, or correct the type",
        )
        for name in unknown
    ]


def _does_not_know(worker: Member, name: str) -> bool:
    return worker.types is not None and name not in worker.types


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"
