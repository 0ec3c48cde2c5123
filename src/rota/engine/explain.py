"""`explain`: why a job is in its state, as causes with evidence and remedy, the most important first.

If the first cause is removed, the job can go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote
from typing import Any, Final

from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import DUE_STATES, FINISHED, TIMED, State
from rota.core.limit import LimitUsage, names_of
from rota.core.queue import LaneCount
from rota.core.settlement import Reason as EndReason
from rota.core.step import Step
from rota.core.submission import Delivery
from rota.engine.deps import EngineDeps
from rota.engine.jobs import unknown_job
from rota.engine.limits import JobLimits

#: A due job that a worker with a free slot can take has been claimed by then.
LONGER_THAN_A_CLAIM_SECONDS: Final = 2.0
#: How many of the jobs that a job waits for are named.
MOST_BLOCKERS: Final = 20


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: a code for programs, a sentence for people, a remedy, and the values it was read from."""

    code: str
    text: str
    fix: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job and the causes of its state, the most important first."""

    job: Job
    reasons: tuple[Cause, ...]


class Explain:
    """Reads job, queues, workers and counts, and derives the causes."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def __call__(self, job_id: JobId) -> Explanation:
        found = await self._deps.store.get([job_id])
        if not found:
            raise unknown_job(job_id)
        job = found[0]
        return Explanation(job, tuple([cause async for cause in self._causes(job)]))

    async def _causes(self, job: Job) -> AsyncIterator[Cause]:
        now = self._deps.clock()
        if job.state in FINISHED:
            yield _end(job, await self._in_doubt(job))
            return
        if job.state is State.RUNNING:
            for cause in _running(job, now):
                yield cause
            if job.lease_until is not None and job.lease_until <= now and not await self._alive(Role.SCHEDULER, now):
                yield _no_scheduler()
            return
        if job.state is State.BLOCKED:
            yield await self._blocked(job)
            return
        if job.state in TIMED and job.run_at > now:
            yield _timed(job, now)
        elif job.state in TIMED and not await self._alive(Role.SCHEDULER, now):
            yield _no_scheduler()
        async for cause in self._no_worker(job, now):
            yield cause

    async def _blocked(self, job: Job) -> Cause:
        """Name the jobs that a job waits for, and the state of each."""
        ids = await self._deps.store.blockers(job.id, MOST_BLOCKERS)
        states = {one.id: one.state for one in await self._deps.store.get(ids)}
        named = {to_text(one): str(states.get(one, "unknown")) for one in ids}
        text = f"it waits for {job.blockers} other job{'s' if job.blockers > 1 else ''} to end: "
        text += ", ".join(f"{name} ({state})" for name, state in list(named.items())[:5])
        text += ", …" if job.blockers > len(list(named)[:5]) else ""
        fix = f"see why the first of them has not ended: rota jobs explain {next(iter(named), to_text(job.id))}"
        return Cause("blocked_by_dependency", text, fix, {"blockers": job.blockers, "waits_for": named})

    async def _no_worker(self, job: Job, now: datetime) -> AsyncIterator[Cause]:
        """Yield what keeps workers from claiming a due job."""
        is_paused = False
        for queue in await self._deps.store.queues():
            if queue.name == job.queue and queue.paused_at is not None:
                why = f": {queue.pause_reason}" if queue.pause_reason else ""
                text = f"queue {job.queue!r} has been paused since {queue.paused_at:%Y-%m-%d %H:%M:%S} UTC{why}"
                evidence = {"queue": job.queue, "since": queue.paused_at, "reason": queue.pause_reason}
                yield Cause("queue_paused", text, f"resume it: rota queues resume {quote(job.queue)}", evidence)
                is_paused = True
        workers = await self._alive(Role.WORKER, now)
        on_queue = [worker for worker in workers if job.queue in worker.queues and not worker.is_draining]
        knowing = [worker for worker in on_queue if worker.types is None or job.type in worker.types]
        if not on_queue:
            text = f"no live worker takes jobs from queue {job.queue!r}"
            fix = f"start one: rota worker --queues {quote(job.queue)}"
            yield Cause("no_live_worker_for_queue", text, fix, {"queue": job.queue, "live_workers": len(workers)})
        elif not knowing:
            text = f"none of the {len(on_queue)} live workers on queue {job.queue!r} knows the type {job.type!r}"
            known = sorted({name for worker in on_queue for name in worker.types or ()})
            fix = "start a worker whose app defines it, or correct the type"
            yield Cause("no_worker_registers_type", text, fix, {"type": job.type, "known_types": known})
        elif job.state in DUE_STATES and not is_paused:
            yield await self._limited(job, now) or await self._slots(job, knowing, now)

    async def _limited(self, job: Job, now: datetime) -> Cause | None:
        """Return the limit that keeps a due job from starting, if there is one."""
        if not self._deps.store.supports_limits:
            return None
        limits = JobLimits(self._deps)
        for name in names_of(job.queue, job.type, job.concurrency_key):
            usage = await self._deps.store.limit_usage(await limits.effective(name, job.type))
            cause = _held_by(usage, now)
            if cause is not None:
                return cause
        return None

    async def _slots(self, job: Job, workers: Sequence[Member], now: datetime) -> Cause:
        census = await self._deps.store.census()
        slots = sum(worker.slots for worker in workers)
        busy = _busy(workers, census.lanes)
        due = sum(one.count for one in census.lanes if one.lane.queue == job.queue and one.state in DUE_STATES)
        evidence = {"busy": busy, "slots": slots, "waiting_in_queue": due}
        if busy >= slots:
            text = f"all {slots} slots of the workers that know it are busy; at most {due} jobs wait in its queue"
            fix = f"start another worker: rota worker --queues {quote(job.queue)}"
            return Cause("workers_saturated", text, fix, evidence)
        running = sum(one.count for one in census.lanes if one.lane.queue == job.queue and one.state is State.RUNNING)
        waited = (now - max(job.run_at, job.updated_at)).total_seconds()
        if running and waited >= LONGER_THAN_A_CLAIM_SECONDS:
            text = (
                f"it has been due for {waited:.0f} s; {running} of its queue run, and the workers that know it have"
                " free slots, but may give this queue only some of them (--queues name:slots)"
            )
            fix = f"start another worker: rota worker --queues {quote(job.queue)}"
            return Cause("workers_saturated", text, fix, {**evidence, "running_in_queue": running})
        text = "it is due, and a worker with a free slot knows it: it starts with that worker's next claim"
        return Cause("about_to_start", text, "", evidence)

    async def _in_doubt(self, job: Job) -> list[Step]:
        """Return the steps without an outcome, if the job ended because of one."""
        if job.reason is not EndReason.OUTCOME_UNKNOWN:
            return []
        return [step for step in await self._deps.store.steps(job.id) if step.ended_at is None]

    async def _alive(self, role: Role, now: datetime) -> Sequence[Member]:
        return await self._deps.store.members(role=role, since=now - ALIVE_FOR)


def _held_by(usage: LimitUsage, now: datetime) -> Cause | None:
    """Return why no job may start under a limit now; None if one may."""
    limit, name = usage.limit, usage.limit.name
    holders = [to_text(one) for one in usage.holders]
    evidence = {"limit": name, "max_running": limit.max_running, "running": usage.running, "holders": holders}
    if limit.is_closed(now):
        why = f": {limit.reason}" if limit.reason else ""
        text = f"the limit {name} is closed until {limit.closed_until:%Y-%m-%d %H:%M:%S} UTC{why}"
        return Cause("limit_closed_until", text, f"open it: rota limits open {quote(name)}", evidence)
    if limit.max_running is not None and usage.running >= limit.max_running:
        text = f"the limit {name} lets {limit.max_running} run at once, and {usage.running} run: {', '.join(holders)}"
        more = f"rota limits set {quote(name)} --max-running {usage.running + 1}"
        return Cause("concurrency_limit", text, f"wait for one of them to end, or raise the limit: {more}", evidence)
    if usage.opens_at is not None and usage.opens_at > now:
        text = f"the limit {name} starts {limit.rate_limit}; the next may start at {usage.opens_at:%H:%M:%S.%f} UTC"
        more = f"rota limits get {quote(name)}"
        return Cause("rate_limited_until", text, f"see the limit: {more}", {**evidence, "opens_at": usage.opens_at})
    return None


def _busy(workers: Sequence[Member], lanes: Sequence[LaneCount]) -> int:
    """Count the slots in use: as the workers last reported, or the running jobs of their queues if that is more.

    A heartbeat may be some seconds old; the store's count of running jobs is not.
    """
    queues = {queue for worker in workers for queue in worker.queues}
    running = sum(one.count for one in lanes if one.state is State.RUNNING and one.lane.queue in queues)
    return max(sum(worker.busy for worker in workers), running)


def _running(job: Job, now: datetime) -> list[Cause]:
    reasons = []
    evidence = {"worker": job.worker, "until": job.lease_until, "since": job.started_at, "fence": job.fence}
    if job.cancel_requested_at is not None:
        text = f"it was asked to stop at {job.cancel_requested_at:%H:%M:%S} UTC and has not yet obeyed"
        reasons.append(Cause("cancel_requested", text, "", evidence))
    if job.lease_until is not None and job.lease_until <= now:
        text = f"worker {job.worker!r} has not renewed its lease; it will be taken from it"
        reasons.append(Cause("lease_expired_waiting_reaper", text, "", evidence))
    elif job.is_held(now):
        left = (job.run_at - now).total_seconds()
        text = f"worker {job.worker!r} has claimed it ahead of its time and begins it in {left:.3f} s"
        reasons.append(Cause("held_for_its_time", text, "", {**evidence, "run_at": job.run_at}))
    else:
        text = f"worker {job.worker!r} runs it (attempt {job.attempts} of {job.max_attempts})"
        reasons.append(Cause("leased", text, "", evidence))
    return reasons


def _timed(job: Job, now: datetime) -> Cause:
    left = (job.run_at - now).total_seconds()
    evidence = {"run_at": job.run_at, "seconds_left": round(left, 3)}
    if job.state is State.RETRYING:
        said = f": {job.error.kind}: {job.error.message[:200]}" if job.error is not None else ""
        text = f"attempt {job.attempts} of {job.max_attempts} failed{said}; the next is due in {left:.0f} s"
        return Cause("retry_backoff", text, f"if the cause is gone: {_run_now(job)}", evidence)
    return Cause("scheduled_future", f"it is due in {left:.0f} s", f"to start it earlier: {_run_now(job)}", evidence)


def _run_now(job: Job) -> str:
    return f"rota jobs run-now {to_text(job.id)}"


def _no_scheduler() -> Cause:
    text = "no scheduler is alive: nothing that waits for its time moves"
    return Cause("no_live_scheduler", text, "start one: rota scheduler")


_ENDS: Final = {
    EndReason.EXHAUSTED: "its attempts are used up",
    EndReason.PERMANENT: "its failure was declared permanent",
    EndReason.POISON: "it took its worker down too often",
    EndReason.OUTCOME_UNKNOWN: "whether its effect happened cannot be known, and it must not happen twice",
    EndReason.TOO_LATE: "its time for retries is over",
    EndReason.EXPIRED: "it did not start in time",
    EndReason.DEPENDENCY_FAILED: "a job it waited for did not succeed",
    EndReason.CANCEL_REQUESTED: "someone cancelled it",
    EndReason.REPLACED: "its schedule's next job replaced it",
}


def _end(job: Job, in_doubt: Sequence[Step]) -> Cause:
    evidence: dict[str, Any] = {"finished_at": job.finished_at, "attempts": job.attempts, "worker": job.worker}
    if job.error is not None:
        evidence["error"] = f"{job.error.kind}: {job.error.message[:500]}"
    why = f": {_ENDS[job.reason]}" if job.reason is not None else ""
    return Cause(f"ended_{job.reason or job.state}", f"it is {job.state}{why}", _fix_of_end(job, in_doubt), evidence)


def _fix_of_end(job: Job, in_doubt: Sequence[Step]) -> str:
    """Name a command that is not refused for a job in this state."""
    name = to_text(job.id)
    if job.state is State.COMPLETED:
        return ""
    if job.delivery is Delivery.AT_MOST_ONCE and job.may_have_started:
        return f"find out whether its effect happened; if not, submit a new job: rota submit --type {quote(job.type)}"
    if in_doubt:
        said = f"rota jobs resolve {name} {quote(in_doubt[0].key)}"
        return f"find out whether the step happened: {said} --happened (or --not-happened), then rota jobs retry {name}"
    return f"retry it: rota jobs retry {name}"
