"""Health over time: late schedules, old due jobs, trends and silent workers; and the whole list of problems."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

from rota.core.cluster import Member, Role
from rota.core.health import (
    HealthInputs,
    HealthProblem,
    Severity,
    breaker_problems,
    limit_problems,
    queue_problems,
    scheduler_problems,
    service_problems,
    store_problems,
)
from rota.core.queue import LaneCount, due_since
from rota.core.schedule import Schedule

#: A due job that has waited longer needs attention.
OLDEST_DUE: Final = timedelta(minutes=5)
#: A schedule that has not fired so long after its time is late.
SCHEDULE_LATE: Final = timedelta(minutes=1)
SCHEDULE_PAUSED: Final = timedelta(days=7)
#: The span of `HealthInputs.recent`, and how many jobs may be dead or lost in it.
RECENT: Final = timedelta(minutes=15)
MOST_DEAD: Final = 10
MOST_LOST: Final = 5
#: How long after its retention a finished job may still be there: the pruner deletes in batches.
RETENTION_LATE: Final = timedelta(hours=1)
#: How long a silent worker is shown.
SILENT_SHOWN: Final = timedelta(hours=1)
#: Leases are judged by the store's clock, so a small difference does no harm; one this large shows in logs and charts.
CLOCK_OFFSET: Final = timedelta(seconds=2)
_ORDER: Final = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


def problems(inputs: HealthInputs) -> list[HealthProblem]:
    """Return all problems, the most severe first."""
    all_problems = [
        *service_problems(inputs),
        *store_problems(inputs),
        *_settings(inputs),
        *limit_problems(inputs),
        *breaker_problems(inputs),
    ]
    if inputs.is_store_writable:
        # Without writes there are no heartbeats either, so it is not known which processes are alive.
        all_problems += [*scheduler_problems(inputs), *queue_problems(inputs), *_members(inputs)]
    all_problems += _trends(inputs)
    if inputs.now is not None:
        all_problems += [*_old_jobs(inputs, inputs.now), *_schedules(inputs, inputs.now)]
    return sorted(all_problems, key=lambda problem: _ORDER.index(problem.severity))


def _settings(inputs: HealthInputs) -> list[HealthProblem]:
    problems = []
    if inputs.is_exposed:
        text = "the API can be reached from other machines and needs no token: anyone there can submit and delete jobs"
        problems.append(
            HealthProblem("insecure", text, "set ROTA_TOKEN, or bind to 127.0.0.1 behind a proxy", Severity.CRITICAL)
        )
    seconds = inputs.clock_offset.total_seconds()
    if abs(inputs.clock_offset) > CLOCK_OFFSET:
        text = f"this host's clock is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} the store's"
        problems.append(
            HealthProblem(
                "clock_skew", text, "synchronise the clocks of all hosts (NTP)", evidence={"seconds": round(seconds, 3)}
            )
        )
    return problems


def _old_jobs(inputs: HealthInputs, now: datetime) -> list[HealthProblem]:
    """Name queues whose next job has been due for long.

    Not those that are paused or have no live worker, which have codes of their own.
    """
    problems = []
    paused = {queue.name for queue in inputs.queues if queue.paused_at is not None}
    served = {queue for member in inputs.members if _takes(member) for queue in member.queues}
    lanes: dict[str, list[LaneCount]] = {}
    for one in inputs.lanes:
        if one.lane.queue in served - paused:
            lanes.setdefault(one.lane.queue, []).append(one)
    for queue, counts in sorted(lanes.items()):
        oldest = due_since(counts)
        if oldest is not None and now - oldest > OLDEST_DUE:
            minutes = int((now - oldest).total_seconds() // 60)
            problems.append(
                HealthProblem(
                    "oldest_due_over",
                    f"the next job of queue {queue!r} has been due for {minutes} minutes",
                    f"start more workers: rota worker --queues {quote(queue)}",
                    since=oldest,
                    link="/queues",
                    evidence={"queue": queue, "seconds": round((now - oldest).total_seconds(), 3)},
                )
            )
    return problems


def _takes(member: Member) -> bool:
    """Whether a process is a worker that accepts new jobs: it does not drain."""
    return member.role is Role.WORKER and not member.is_draining


def _schedules(inputs: HealthInputs, now: datetime) -> list[HealthProblem]:
    problems = []
    for schedule in inputs.due_schedules:
        at = schedule.next_fire_at
        if at is not None and now - at > SCHEDULE_LATE:
            problems.append(
                HealthProblem(
                    "schedule_late",
                    f"schedule {schedule.name!r} was due {int((now - at).total_seconds())} s ago and has not fired",
                    "see whether a scheduler is alive, and its log: rota cluster members",
                    since=at,
                    link="/schedules",
                    evidence={"schedule": schedule.name},
                )
            )
    paused = [one for one in inputs.paused_schedules if one.paused_at and now - one.paused_at > SCHEDULE_PAUSED]
    return [*problems, *(_paused_long(schedule, now) for schedule in paused)]


def _paused_long(schedule: Schedule, now: datetime) -> HealthProblem:
    days = (now - (schedule.paused_at or now)).days
    return HealthProblem(
        "schedule_paused_long",
        f"schedule {schedule.name!r} has been paused for {days} days",
        f"rota schedules resume {quote(schedule.name)}",
        Severity.INFO,
        since=schedule.paused_at,
        link="/schedules",
        evidence={"schedule": schedule.name},
    )


def _trends(inputs: HealthInputs) -> list[HealthProblem]:
    problems = []
    dead, lost = inputs.recent.counts["dead"], inputs.recent.counts["lost"]
    # Dead jobs that were retried or discarded since need no operator.
    dead = dead if inputs.dead is None else min(dead, inputs.dead)
    minutes = int(RECENT.total_seconds() // 60)
    if dead >= MOST_DEAD:
        text = f"{dead:,} jobs died in the last {minutes} minutes"
        fix = "see their causes: rota dlq list --group"
        problems.append(HealthProblem("dead_growing", text, fix, link="/dead", evidence={"dead": dead}))
    if lost >= MOST_LOST:
        text = f"{lost:,} leases lapsed in the last {minutes} minutes: workers died or were stopped for long"
        fix = "see the workers' logs and memory; a longer --lease helps if they are stopped, not killed"
        problems.append(HealthProblem("lease_churn", text, fix, link="/workers", evidence={"lost": lost}))
    return problems


def _members(inputs: HealthInputs) -> list[HealthProblem]:
    alive = {member.name for member in inputs.members}
    problems = [_silent(worker) for worker in inputs.silent_workers if worker.name not in alive]
    left = {one: one.facts.threads_left_behind for one in inputs.members if one.facts is not None}
    problems += [_left_behind(worker, count) for worker, count in left.items() if count]
    versions = sorted({member.version for member in inputs.members if member.version})
    if len(versions) > 1:
        text = f"processes of different releases are alive: {', '.join(versions)}"
        fix = "bring all to one release; during a rolling upgrade this goes by itself"
        evidence = {name: version for version in versions for name in _with(version, inputs)}
        problems.append(HealthProblem("version_skew", text, fix, Severity.INFO, link="/workers", evidence=evidence))
    return problems


def _silent(worker: Member) -> HealthProblem:
    return HealthProblem(
        "worker_stale",
        f"worker {worker.name!r} stopped sending heartbeats and did not leave in order",
        "see its log and start it again; it is shown for an hour",
        since=worker.seen_at,
        link="/workers",
        evidence={"worker": worker.name, "host": worker.host, "pid": worker.pid},
    )


def _left_behind(worker: Member, count: int) -> HealthProblem:
    threads = "1 thread still runs" if count == 1 else f"{count} threads still run"
    return HealthProblem(
        "threads_left_behind",
        f"in worker {worker.name!r} {threads} a handler that was given up after its timeout",
        "see where they hang (rota workers stacks), mend the handlers, and start the worker again",
        link="/workers",
        evidence={"worker": worker.name, "threads": count},
    )


def _with(version: str, inputs: HealthInputs) -> Sequence[str]:
    return [member.name for member in inputs.members if member.version == version]
