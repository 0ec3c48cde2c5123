"""Problems that need an operator: what is wrong with the deployment as a whole, from counts and members alone.

Pure, so that every code has its test. `/health` and `rota status` show this list; its codes are a promise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from shlex import quote

from rota.core.fleet import Member, Role
from rota.core.lane import LaneCount, Queue
from rota.core.lifecycle import DUE_STATES
from rota.core.value import value


@value
class Problem:
    """One problem: a code for programs, a sentence for people, and what to do about it."""

    code: str
    text: str
    fix: str


@value
class Situation:
    """What problems are judged by."""

    lanes: Sequence[LaneCount]
    queues: Sequence[Queue]
    #: Processes that were heard of lately, of all roles.
    members: Sequence[Member]
    #: Who leads; None if nobody is known to.
    leader: str | None
    is_store_writable: bool = True
    is_coordinator_up: bool = True
    is_broker_up: bool = True
    #: Whether this process has just started: it cannot know yet who leads.
    is_starting: bool = False


def problems(seen: Situation) -> list[Problem]:
    """List what is wrong, the gravest first."""
    return [*_services(seen), *_schedulers(seen), *_queues(seen)]


def _services(seen: Situation) -> list[Problem]:
    found = []
    if not seen.is_store_writable:
        text = "the store took no write lately: nothing can be submitted, and no outcome can be recorded"
        fix = "see the log for the cause: a full disk, a read-only database, a lock"
        found.append(Problem("store_not_writable", text, fix))
    if not seen.is_coordinator_up:
        text = "the coordinator does not answer: jobs run, and no leader is known"
        fix = "see whether the coordinator runs, and the log for the cause"
        found.append(Problem("coordinator_down", text, fix))
    if not seen.is_broker_up:
        text = "the broker does not answer: workers take jobs from the store itself"
        found.append(Problem("broker_down", text, "see whether the broker runs, and the log for the cause"))
    return found


def _schedulers(seen: Situation) -> list[Problem]:
    schedulers = [member for member in seen.members if member.role is Role.SCHEDULER]
    if seen.is_starting:
        return []
    if not schedulers:
        text = "no scheduler is alive: schedules do not fire, delayed jobs do not become due, lost jobs are not found"
        return [Problem("no_scheduler", text, "start one: rota scheduler")]
    if seen.leader is None and seen.is_coordinator_up:
        text = f"none of the {len(schedulers)} live schedulers is known to lead"
        return [Problem("no_leader", text, "wait ten seconds for an election; then see the schedulers' logs")]
    return []


def _queues(seen: Situation) -> list[Problem]:
    due: dict[str, Counter[str]] = defaultdict(Counter)
    for one in seen.lanes:
        if one.state in DUE_STATES and one.count:
            due[one.lane.queue][one.lane.type] += one.count
    paused = {queue.name: queue for queue in seen.queues if queue.paused_at is not None}
    workers = [member for member in seen.members if member.role is Role.WORKER and not member.is_draining]
    found = []
    for queue, types in sorted(due.items()):
        if queue in paused:
            found.append(_paused(paused[queue], types.total()))
        else:
            found += _without_worker(queue, types, [worker for worker in workers if queue in worker.queues])
    return found


def _paused(queue: Queue, count: int) -> Problem:
    why = f" ({queue.pause_reason})" if queue.pause_reason else ""
    text = f"queue {queue.name!r} is paused{why} and {_jobs(count)} due"
    return Problem("queue_paused_with_backlog", text, f"rota queues resume {quote(queue.name)}")


def _without_worker(queue: str, types: Counter[str], workers: Sequence[Member]) -> list[Problem]:
    if not workers:
        text = f"no live worker takes jobs from queue {queue!r}, and {_jobs(types.total())} due there"
        return [Problem("no_worker_for_queue", text, f"start one: rota worker --queues {quote(queue)}")]
    unknown = [name for name in sorted(types) if all(_does_not_know(worker, name) for worker in workers)]
    return [
        Problem(
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
