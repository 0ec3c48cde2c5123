"""`explain`: why a job is in its state, as causes with evidence and remedy, the most important first.

If the first cause is removed, the job can go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import Any, Final

from rota.core.cluster import ALIVE_FOR, LEAD, Member, Role
from rota.core.envelope import envelope_of, is_encrypted
from rota.core.errors import DecryptionFailed
from rota.core.graph import Node
from rota.core.health_history import CLOCK_OFFSET
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import DUE_STATES, FINISHED, TIMED, State
from rota.core.queue import LaneCount
from rota.core.settlement import Reason as EndReason
from rota.core.step import Step, StepKind
from rota.core.submission import Delivery
from rota.engine.deps import EngineDeps
from rota.engine.explain_limits import MOST_AHEAD, Cause, ExplainLimits
from rota.engine.jobs import unknown_job
from rota.engine.queues import Backlogs
from rota.ports.store import Census

#: A due job that a worker with a free slot can take has been claimed by then.
LONGER_THAN_A_CLAIM_SECONDS: Final = 2.0
#: How many of the jobs that a job waits for are named.
MOST_BLOCKERS: Final = 20


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job and the causes of its state, the most important first."""

    job: Job
    reasons: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """What the process that explains a job reads from elsewhere than the store."""

    is_store_writable: bool = True
    #: Whether a scheduler leads; None if this process does not know; then it is read from the store.
    has_leader: bool | None = None
    #: Counts the jobs, if this process shares one count among many callers: a count reads all jobs of the store.
    census: Callable[[], Awaitable[Census]] | None = None


ALL_WELL: Final = ExplainContext()


class Explain:
    """Reads job, queues, workers and counts, and derives the causes."""

    def __init__(self, deps: EngineDeps, backlogs: Backlogs) -> None:
        self._deps = deps
        self._backlogs = backlogs
        self._limits = ExplainLimits(deps, backlogs)

    async def __call__(self, job_id: JobId, context: ExplainContext = ALL_WELL) -> Explanation:
        jobs = await self._deps.store.get([job_id])
        if not jobs:
            raise unknown_job(job_id)
        job = jobs[0]
        causes = [cause async for cause in self._causes(job, context)]
        return Explanation(job, (*causes, *await self._schedule(job)))

    async def _causes(self, job: Job, context: ExplainContext) -> AsyncIterator[Cause]:
        # Of the store, which decides what is due.
        now = await self._deps.store.time()
        if job.state in FINISHED:
            nodes = await self._deps.store.nodes_of_jobs([job.id])
            yield _end(job, await self._in_doubt(job), next(iter(nodes), None))
            return
        if not context.is_store_writable:
            yield _read_only()
        kinds = self._run if job.state is State.RUNNING else self._wait
        async for cause in kinds(job, context, now):
            yield cause

    async def _run(self, job: Job, context: ExplainContext, now: datetime) -> AsyncIterator[Cause]:
        for cause in _running(job, now):
            yield cause
        if job.lease_until is not None and job.lease_until <= now:
            async for cause in self._no_upkeep(context, now):
                yield cause

    async def _wait(self, job: Job, context: ExplainContext, now: datetime) -> AsyncIterator[Cause]:
        is_expired = job.expires_at is not None and job.expires_at <= now
        is_overdue = job.state in TIMED and job.run_at <= now
        waits = await self._open_waits(job)
        if is_expired:
            yield _expired(job, now)
        for wait in waits:
            yield _waiting(wait, now)
        if (skew := self._skew(job, now)) is not None:
            yield skew
        if is_expired or is_overdue:
            async for cause in self._no_upkeep(context, now):
                yield cause
        elif job.state in TIMED and not waits:
            yield _timed(job, now)
        if not is_expired or job.state is State.BLOCKED:
            async for cause in self._blocked_or_unclaimed(job, context, now, has_waits=bool(waits)):
                yield cause

    async def _blocked_or_unclaimed(
        self, job: Job, context: ExplainContext, now: datetime, *, has_waits: bool
    ) -> AsyncIterator[Cause]:
        if job.state is not State.BLOCKED:
            async for cause in self._no_worker(job, context, now):
                yield cause
        elif not has_waits or await self._deps.store.blockers(job.id, 1):
            yield await self._blocked(job)

    async def _no_upkeep(self, context: ExplainContext, now: datetime) -> AsyncIterator[Cause]:
        """Yield why nothing moves that a scheduler would move."""
        schedulers = await self._alive(Role.SCHEDULER, now)
        if not schedulers:
            yield _no_scheduler()
            return
        has_leader = context.has_leader
        if has_leader is None:
            has_leader = await self._deps.store.leader(LEAD) is not None
        if not has_leader:
            names = [one.name for one in schedulers]
            text = f"none of the {len(names)} live schedulers is known to lead"
            fix = "wait ten seconds for an election; then see the schedulers' logs, or start another: rota scheduler"
            yield Cause("no_leader", text, fix, {"schedulers": names})

    def _skew(self, job: Job, now: datetime) -> Cause | None:
        """Return the difference between this host's clock and the store's, if a job seems due by one of them only."""
        here = self._deps.clock()
        seconds = (here - now).total_seconds()
        if job.state not in TIMED or abs(here - now) <= CLOCK_OFFSET or (job.run_at <= here) == (job.run_at <= now):
            return None
        text = (
            f"this host's clock is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} the store's, which"
            " decides when it is due"
        )
        evidence = {"seconds": round(seconds, 3), "store_time": now, "run_at": job.run_at}
        return Cause("clock_skew", text, "synchronise the clocks of all hosts (NTP)", evidence)

    async def _schedule(self, job: Job) -> list[Cause]:
        """Say that the schedule of a job is paused."""
        if job.schedule_id is None:
            return []
        for schedule in await self._deps.store.schedules(ids=[job.schedule_id]):
            if schedule.paused_at is not None:
                why = f": {schedule.pause_reason}" if schedule.pause_reason else ""
                text = f"its schedule {schedule.name!r} is paused, so no further job is made{why}"
                evidence = {"schedule": schedule.name, "since": schedule.paused_at, "reason": schedule.pause_reason}
                return [Cause("schedule_paused", text, f"rota schedules resume {quote(schedule.name)}", evidence)]
        return []

    async def _open_waits(self, job: Job) -> list[Step]:
        """Return the sleep, or the events, that a suspended job waits for; calls are among its blockers."""
        kind = {State.SCHEDULED: StepKind.SLEEP, State.BLOCKED: StepKind.EVENT}.get(job.state)
        if kind is None or not job.fence:
            return []
        return [step for step in await self._deps.store.steps(job.id) if step.kind is kind and not step.is_done]

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

    async def _no_worker(self, job: Job, context: ExplainContext, now: datetime) -> AsyncIterator[Cause]:
        """Yield what keeps workers from claiming a due job."""
        is_paused = False
        for queue in [one.as_of(now) for one in await self._deps.store.queues()]:
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
            limited = await self._limits(job, now, context.census or self._deps.store.census)
            for cause in limited:
                yield cause
            if limited:
                return
            async for cause in self._slots(job, knowing, context, now):
                yield cause

    async def _slots(
        self, job: Job, workers: Sequence[Member], context: ExplainContext, now: datetime
    ) -> AsyncIterator[Cause]:
        census = await (context.census or self._deps.store.census)()
        slots = sum(worker.slots for worker in workers)
        busy = _busy(workers, census.lanes)
        due = sum(one.count for one in census.lanes if one.lane.queue == job.queue and one.state in DUE_STATES)
        types = {one.lane.type for one in census.lanes if one.lane.queue == job.queue and one.state is State.PENDING}
        ahead = await self._deps.store.ahead(job.id, sorted(types | {job.type}), MOST_AHEAD)
        evidence: dict[str, Any] = {"busy": busy, "slots": slots, "waiting_in_queue": due}
        place = f"at most {due:,} jobs wait in its queue"
        if job.state is State.PENDING and job.concurrency_key is None:
            # Other jobs have no fixed place: those with a key take turns, those of a broker come as it delivers them.
            evidence["position"] = ahead.count + 1
            place = f"it is number {ahead.count + 1:,} in its queue"
            start = (await self._backlogs.of(job.queue, due)).expected_start(now, ahead.count)
            if start is not None:
                evidence["expected_start"] = start
                place += f" and starts at about {start:%H:%M:%S} UTC at the present rate"
        fix = f"start another worker: rota worker --queues {quote(job.queue)}"
        is_behind = ahead.count >= slots - busy
        if is_behind and ahead.higher:
            text = f"{ahead.higher:,} waiting jobs with a higher priority go first; {place}"
            yield Cause("higher_priority_ahead", text, fix, {**evidence, "higher_priority": ahead.higher})
        if is_behind:
            text = f"{busy} of {slots} slots of the workers that know it are busy; {place}"
            yield Cause("workers_saturated", text, fix, evidence)
            return
        running = sum(one.count for one in census.lanes if one.lane.queue == job.queue and one.state is State.RUNNING)
        waited = (now - max(job.run_at, job.updated_at)).total_seconds()
        if running and waited >= LONGER_THAN_A_CLAIM_SECONDS:
            text = (
                f"it has been due for {waited:.0f} s; {running} of its queue run, and the workers that know it have"
                " free slots, but may give this queue only some of them (--queues name:slots)"
            )
            yield Cause("workers_saturated", text, fix, {**evidence, "running_in_queue": running})
            return
        text = "it is due, and a worker with a free slot knows it: it starts with that worker's next claim"
        yield Cause("about_to_start", text, "", evidence)

    async def _in_doubt(self, job: Job) -> list[Step]:
        """Return the steps without an outcome, if the job ended because of one."""
        if job.reason is not EndReason.OUTCOME_UNKNOWN:
            return []
        return [step for step in await self._deps.store.steps(job.id) if step.ended_at is None]

    async def _alive(self, role: Role, now: datetime) -> Sequence[Member]:
        return await self._deps.store.members(role=role, since=now - ALIVE_FOR)


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
        text = f"it was asked to stop at {job.cancel_requested_at:%H:%M:%S} UTC and has not stopped yet"
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


def _waiting(wait: Step, now: datetime) -> Cause:
    """Name what a suspended job waits for, and until when."""
    evidence = {"step": wait.key, "since": wait.began_at, "until": wait.until}
    left = "" if wait.until is None else f"{max((wait.until - now).total_seconds(), 0):.0f} s"
    if wait.kind is StepKind.SLEEP:
        return Cause("sleeping", f"its handler sleeps in step {wait.key!r}, for another {left}", "", evidence)
    text = f"its handler waits in step {wait.key!r} for the event {wait.subject!r}"
    text += f", for another {left}" if left else ", without a time limit"
    fix = f"if it has happened: rota events emit {quote(wait.subject or '')}"
    return Cause("waiting_for_event", text, fix, {**evidence, "event": wait.subject})


def _timed(job: Job, now: datetime) -> Cause:
    left = (job.run_at - now).total_seconds()
    evidence: dict[str, Any] = {"run_at": job.run_at, "seconds_left": round(left, 3)}
    if job.state is State.RETRYING:
        error_kind = "" if job.error is None else f" ({job.error.kind})"
        if job.error is not None:
            evidence["error"] = f"{job.error.kind}: {job.error.message[:500]}"
        text = f"attempt {job.attempts} of {job.max_attempts} failed{error_kind}; the next is due in {left:.0f} s"
        return Cause("retry_backoff", text, f"if the cause is gone: {_run_now(job)}", evidence)
    if job.fence > job.attempts and (key := _payload_key(job)) is not None:
        return _given_back(job, key, left, evidence)
    return Cause("scheduled_future", f"it is due in {left:.0f} s", f"to start it earlier: {_run_now(job)}", evidence)


def _payload_key(job: Job) -> str | None:
    """Return the id of the key with which a payload is encrypted; None if it is not, or is damaged."""
    try:
        return envelope_of(job.payload).key if is_encrypted(job.payload) else None
    except DecryptionFailed:
        return None


def _given_back(job: Job, key: str, left: float, evidence: dict[str, Any]) -> Cause:
    """Explain an encrypted job that was claimed and given back: a worker without its key does that for ever."""
    text = (
        f"it is due in {left:.0f} s; a worker gave it back without an attempt: its handler postponed it, or the worker"
    )
    fix = f"see the worker's log; if it lacks the key, add it to ROTA_ENCRYPTION_KEYS there; then {_run_now(job)}"
    return Cause("scheduled_future", f"{text} lacks the key {key!r} of its payload", fix, {**evidence, "key": key})


def _run_now(job: Job) -> str:
    return f"rota jobs run-now {to_text(job.id)}"


def _read_only() -> Cause:
    text = "the store took no write lately: no job can be claimed, and no outcome can be recorded"
    fix = "see the log for the cause: a full disk, a read-only database, a lock; then rota doctor"
    return Cause("store_read_only", text, fix)


def _expired(job: Job, now: datetime) -> Cause:
    assert job.expires_at is not None
    late = (now - job.expires_at).total_seconds()
    text = f"it was to start before {job.expires_at:%Y-%m-%d %H:%M:%S} UTC, {late:.0f} s ago; a scheduler cancels it"
    fix = f"submit it again with a longer expiry: rota submit --type {quote(job.type)}"
    return Cause("expired", text, fix, {"expires_at": job.expires_at})


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
    EndReason.NOT_NEEDED: "it was to run only if another job failed, and that job succeeded",
    EndReason.SKIPPED: "someone skipped it; the jobs after it went on",
    EndReason.WORKFLOW_FAILED: "another job of its workflow failed, and the workflow was to fail fast",
    EndReason.CANCEL_REQUESTED: "someone cancelled it",
    EndReason.REPLACED: "another job replaced it: the next one of its schedule or of its key, or a new run of its"
    " workflow's node",
    EndReason.LIMIT_FULL: "as many jobs of its key ran or waited as may run at once, and its limit cancels the newest",
}


def _end(job: Job, in_doubt: Sequence[Step], node: Node | None) -> Cause:
    evidence: dict[str, Any] = {"finished_at": job.finished_at, "attempts": job.attempts, "worker": job.worker}
    if job.error is not None:
        evidence["error"] = f"{job.error.kind}: {job.error.message[:500]}"
    if node is not None:
        evidence |= {"workflow": to_text(node.workflow_id), "node": node.name}
    why = f": {_ENDS[job.reason]}" if job.reason is not None else ""
    fix = _fix_of_end(job, in_doubt, node)
    return Cause(f"ended_{job.reason or job.state}", f"it is {job.state}{why}", fix, evidence)


def _fix_of_end(job: Job, in_doubt: Sequence[Step], node: Node | None) -> str:
    """Name a command that is not refused for a job in this state."""
    name = to_text(job.id)
    if job.state is State.COMPLETED or (node is not None and job.reason is EndReason.NOT_NEEDED):
        return ""
    if job.delivery is Delivery.AT_MOST_ONCE and job.may_have_started:
        return f"find out whether its effect happened; if not, submit a new job: rota submit --type {quote(job.type)}"
    if in_doubt:
        command = f"rota jobs resolve {name} {quote(in_doubt[0].key)}"
        return f"see whether the step happened: {command} --happened (or --not-happened), then rota jobs retry {name}"
    if node is not None:
        # A retry of the job alone would leave the nodes after it as they are.
        workflow = to_text(node.workflow_id)
        if node.replaced_by is not None:
            return f"see the job that runs in its place: rota workflows get {workflow}"
        if job.reason in {EndReason.DEPENDENCY_FAILED, EndReason.WORKFLOW_FAILED}:
            return f"run the failed nodes of its workflow again: rota workflows retry {workflow}"
        return f"run it again with the nodes after it: rota workflows retry {workflow} --node {quote(node.name)}"
    return f"retry it: rota jobs retry {name}"
