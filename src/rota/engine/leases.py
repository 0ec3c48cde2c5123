"""Worker verbs over a store: claim, renew, settle.

A claim that finds nothing may wait. It subscribes to wake-ups first and queries the store afterwards, so no job that is
committed in between is missed. While it waits, it gets a job in three ways: after a wake-up for a queue it claims
again; shortly before a scheduled job is due (see `lookahead`) it claims that job ahead of its time; or the store leases
a new job to it directly (see `Claim.waits`).

A settlement is decided from the job as it was claimed, which is remembered here, so that settling costs no read. If the
store refuses it, the job is read and decided once more: a cancel may have been requested meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter, itemgetter
from typing import Final

from rota.core.cluster import Rank
from rota.core.decision import DecisionInputs, decide
from rota.core.errors import Unavailable
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.job import Job
from rota.core.lease import NOT_AHEAD, Claim, Renewal, Renewed
from rota.core.lifecycle import TIMED, State
from rota.core.limit import Limit, key_limit, names_of
from rota.core.outcome import Failed, Lost, Released, Snoozed, Suspended
from rota.core.retry import DEFAULT_BACKOFF
from rota.core.schedule import Overlap, Schedule
from rota.core.settlement import Reason, Settlement
from rota.engine.breaker_calls import UNCOUNTED, CallCounter, CountEffects
from rota.engine.deps import EngineDeps
from rota.engine.lookahead import Lookahead
from rota.ports.client import AttemptReport
from rota.ports.wakeup import EVERY_QUEUE, TIMETABLE, ClaimTopic, Topic
from rota.telemetry.events import ClaimLimited, JobsClaimed, JobsSettled, SettlementsRefused

#: How many leased jobs to remember for their settlement; others are read again.
REMEMBERED: Final = 50_000
#: With an external broker: how often a waiting claim queries the store for jobs that a limit concerns.
UNDISPATCHED_PAUSE: Final = timedelta(seconds=1)
#: Outcomes after which a job is due again at a time.
_TIMED: Final = (Failed, Snoozed)
#: These, and outcomes after which a job is due at once unless it was claimed ahead of its time.
_UNFINISHED: Final = (*_TIMED, Released, Lost)
#: Looking a member up in its enumeration costs as much as a call, and this is done for every job.
_COMPLETED: Final = State.COMPLETED
_RUNNING: Final = State.RUNNING
_CANCELLED: Final = Reason.CANCEL_REQUESTED


class _WaitingClaim:
    """The forms in which one claim is sent to the store while it waits."""

    def __init__(self, claim: Claim, deps: EngineDeps) -> None:
        self.claim = claim
        self._plain = replace(claim, ahead=NOT_AHEAD) if claim.ahead else claim
        # A broker hands over due jobs only, and no submitter hands a job to a worker past the broker.
        is_dispatched = deps.broker.dispatch_queue is not None
        self.looks_ahead = bool(claim.ahead) and not is_dispatched
        self._store = deps.store
        self._is_kept = deps.store.keeps_waiting_claims and not is_dispatched and claim.claim_id is not None

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Wake-up topics that concern this claim."""
        timed = (TIMETABLE,) if self.looks_ahead else ()
        own = (ClaimTopic(self.claim.claim_id),) if self._is_kept and self.claim.claim_id is not None else ()
        return (*self.claim.queues, *timed, *own)

    def form(self, left: float, *, is_near: bool) -> Claim:
        """Return the claim to send now: ahead of time if a job is near, else kept by the store for the time left."""
        if is_near:
            return self.claim
        if self._is_kept and left > 0:
            return replace(self._plain, waits=timedelta(seconds=left))
        return self._plain

    def leased_meanwhile(self) -> Sequence[Job]:
        """Return the job that was leased to this claim while it waited, if this process has its whole content."""
        return self._store.leased_meanwhile(self.claim) if self._is_kept else ()

    def note_look(self) -> None:
        """Note that a query returned nothing; from now on the claim is repeated only after a wake-up."""
        if not self._plain.is_woken:
            self._plain = replace(self._plain, is_woken=True)


class Leases:
    """Claim, renew, settle."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self.lookahead = Lookahead(deps.store.timetable)
        #: The ranks of the workers in this process, by boot, as the last heartbeat reported them.
        self.ranks: Mapping[str, Rank] = {}
        self._leased: OrderedDict[JobId, Job] = OrderedDict()
        self._calls = CallCounter(deps)
        # An external broker sends no wake-up for jobs that are not dispatched: those that a limit concerns.
        self._broker_pause = None if deps.broker.dispatch_queue is None else UNDISPATCHED_PAUSE
        self._ask_store_at = float("-inf")

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0), looks_again: bool = False) -> Sequence[Job]:
        """Lease jobs; when there are none, wait for some.

        With `looks_again`, no earlier claim of this `claim_id` was answered.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + wait.total_seconds()
        refused: set[JobId] = set()
        waiting = _WaitingClaim(replace(claim, is_new=True) if looks_again else claim, self._deps)
        # A repeated claim must get its former answer, which is in the store.
        may_be_repeated = claim.claim_id is not None and not looks_again
        rank = self.ranks.get(claim.worker.boot)
        with self._deps.broker.subscribe(waiting.topics, claim.types, rank) as subscription:
            while True:
                refused_before = len(refused)
                # If it is a repetition, its first form may have looked ahead.
                is_former = may_be_repeated and not waiting.claim.is_new
                is_near = waiting.looks_ahead and (self.lookahead.is_near or is_former)
                form = waiting.form(give_up_at - loop.time(), is_near=is_near)
                jobs = await self._claim_once(form, refused, asks_store=may_be_repeated)
                may_be_repeated = False
                if is_near:
                    self.lookahead.note_claim(jobs, claim.limit)
                if not jobs and len(refused) > refused_before:
                    # The broker gave ids of jobs that cannot be leased; leasable ones may follow. Each id counts once:
                    # a job that is dispatched again and again must not keep this loop busy.
                    continue
                left = give_up_at - loop.time()
                if jobs or left <= 0:
                    return jobs
                waiting.note_look()
                left = self.pause(claim, left)
                if waiting.looks_ahead:
                    await self.lookahead.wait(subscription, left)
                else:
                    await subscription.wait(timedelta(seconds=left))
                leased = waiting.leased_meanwhile()
                if leased:
                    return self._claimed(leased, 0.0)
                if loop.time() >= give_up_at:
                    # No wake-up, so nothing new. What was leased to this claim late is given to the worker's next one.
                    return ()

    def pause(self, claim: Claim, left: float) -> float:
        """Return for how many seconds a claim that found nothing waits before it is repeated without a wake-up.

        A limit may open by itself: a rate at a time, or a permit that another process frees.
        """
        pause = self._deps.store.limit_pause(claim)
        if pause is not None:
            self._deps.telemetry.emit(ClaimLimited(claim.queues))
        pause = pause or self._broker_pause
        return left if pause is None else min(left, pause.total_seconds())

    async def _claim_once(self, claim: Claim, refused: set[JobId], *, asks_store: bool) -> Sequence[Job]:
        """Lease what the broker hands over, adding ids that cannot be leased to `refused`; or claim from the store."""
        if claim.ids is None:
            ids = await self._deps.broker.take(claim.queues, claim.types, claim.limit)
            if ids:
                return await self._claim_handed_over(claim, ids, refused)
            if ids is not None and not asks_store:
                return await self._claim_undispatched(claim)
        return await self._claim_from_store(claim)

    async def _claim_undispatched(self, claim: Claim) -> Sequence[Job]:
        """Claim jobs that a limit concerns: these are not dispatched, but claimed from the store.

        Now and then, and each time after one was found.
        """
        now = asyncio.get_running_loop().time()
        if now < self._ask_store_at:
            return ()
        self._ask_store_at = now + UNDISPATCHED_PAUSE.total_seconds() * 0.9
        jobs = await self._claim_from_store(claim)
        if jobs:
            self._ask_store_at = now
        return jobs

    async def _claim_handed_over(self, claim: Claim, ids: Sequence[JobId], refused: set[JobId]) -> Sequence[Job]:
        """Lease the jobs of some ids. Once the store has answered, the lease protects a job, not the broker's entry.

        If this process dies before that, the broker hands the same ids to another worker.
        """
        try:
            jobs = await self._claim_from_store(replace(claim, ids=tuple(ids)))
        except BaseException:
            # It is unknown whether the claim was committed. If it was, the next worker that tries the ids is refused.
            await self._deps.broker.hand_back(ids)
            raise
        await self._deps.broker.acknowledge(ids)
        not_leased = set(ids).difference(job.id for job in jobs)
        if not_leased:
            refused |= not_leased
            # They may be dispatched again. If this fails, the audit finds them in no dispatch queue and recalls them.
            with suppress(Unavailable):
                await self._deps.store.recall(sorted(not_leased))
        return jobs

    async def _claim_from_store(self, claim: Claim) -> Sequence[Job]:
        begun = time.perf_counter()
        jobs = await self._deps.store.claim(claim)
        return self._claimed(jobs, time.perf_counter() - begun) if jobs else jobs

    def _claimed(self, jobs: Sequence[Job], seconds: float) -> Sequence[Job]:
        self._remember(jobs)
        self._deps.telemetry.emit(JobsClaimed(jobs, seconds))
        return jobs

    def _remember(self, jobs: Iterable[Job]) -> None:
        self._leased.update((job.id, job) for job in jobs)
        while len(self._leased) > REMEMBERED:
            self._leased.popitem(last=False)

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Extend leases; those absent from the answer are lost."""
        return await self._deps.store.renew(renewals)

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        """Settle jobs by the outcomes of their attempts; those absent from the answer were refused."""
        jobs = await self._jobs_of(reports)
        applied = await self._apply(jobs, reports)
        late = [one for one in reports if one.job_id not in applied] if len(applied) < len(reports) else ()
        if late:
            # A job that was asked to stop meanwhile still has its fence but must be decided again.
            fresh = {job.id: job for job in await self._deps.store.get([report.job_id for report in late])}
            applied |= await self._apply(fresh, late)
            refused = [report.job_id for report in late if report.job_id not in applied]
            if refused:
                self._deps.telemetry.emit(SettlementsRefused(refused))
        for report in reports:
            self._leased.pop(report.job_id, None)
        return [report.job_id for report in reports if report.job_id in applied]

    async def _jobs_of(self, reports: Sequence[AttemptReport]) -> dict[JobId, Job]:
        """Find the jobs of some reports among the remembered ones, else in the store."""
        jobs: dict[JobId, Job] = {}
        for report in reports:
            job = self._leased.get(report.job_id)
            if job is not None and job.fence == report.fence:
                jobs[report.job_id] = job
        missing = [one.job_id for one in reports if one.job_id not in jobs] if len(jobs) < len(reports) else ()
        if missing:
            jobs.update((job.id, job) for job in await self._deps.store.get(missing))
        return jobs

    async def _apply(self, jobs: dict[JobId, Job], reports: Iterable[AttemptReport]) -> set[JobId]:
        held = [
            (job, report)
            for report in reports
            if (job := jobs.get(report.job_id)) is not None and job.fence == report.fence and job.state is _RUNNING
        ]
        now = await self._time_for(held)
        effects = await self._calls.note(held) if _are_counted(held) else UNCOUNTED
        decided = self._decided if effects is UNCOUNTED else partial(self._decided_by_counts, effects)
        settlements = [
            decided(job, one, now) if type(one.outcome) is not Suspended else await self._suspended(job, one, now)
            for job, one in held
        ]
        applied = await self.write_back([job for job, _ in held], settlements)
        for job, report in held:
            outcome = report.outcome
            if type(outcome) is Snoozed and outcome.limit is not None and job.id in applied:
                await self._close(job, outcome.limit, now + outcome.delay)
        return applied

    async def _close(self, job: Job, name: str, until: datetime) -> None:
        """Close a limit because a handler asked for it, unless it is closed for longer.

        A handler may close the limits of its own queue and type, and those of keys; other names are ignored.
        """
        if not name.startswith(key_limit("")) and name not in names_of(job.queue, job.type, None):
            return
        known = await self._deps.store.limits([name])
        if any(one.closed_until is not None and one.closed_until >= until for one in known):
            return
        reason = f"asked for by job {to_text(job.id)}"
        await self._deps.store.close_limit(Limit(name, closed_until=until, reason=reason, set_by=job.worker or ""))

    async def _time_for(self, held: Iterable[tuple[Job, AttemptReport]]) -> datetime:
        """Read the store's time if a job will be due by it: this host's clock may be an hour off.

        A job that simply ended needs no time, and no round trip for it.
        """
        is_needed = any(
            (isinstance(one.outcome, _UNFINISHED) and (isinstance(one.outcome, _TIMED) or job.starts_on_time))
            or _has_follow_up(job)
            for job, one in held
        )
        return await self._deps.store.time() if is_needed else self._deps.clock()

    def _decided(self, job: Job, report: AttemptReport, now: datetime) -> Settlement:
        return _with_log(decide(job, report.outcome, self.inputs_for(job, now)), report)

    def _decided_by_counts(self, effects: CountEffects, job: Job, report: AttemptReport, now: datetime) -> Settlement:
        inputs = effects.applied_to(self.inputs_for(job, now), job.id)
        return _with_log(decide(job, report.outcome, inputs), report)

    async def _suspended(self, job: Job, report: AttemptReport, now: datetime) -> Settlement:
        """Decide about a job that waits, by the stored step that it waits for."""
        assert isinstance(report.outcome, Suspended)
        step = await self._deps.store.step(job.id, report.outcome.key)
        return _with_log(decide(job, report.outcome, replace(self.inputs_for(job, now), step=step)), report)

    def inputs_for(self, job: Job, now: datetime) -> DecisionInputs:
        """Collect what a decision about a job needs."""
        return DecisionInputs(now, self._deps.rng(), self._deps.fresh_id() if _has_follow_up(job) else None)

    async def write_back(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> set[JobId]:
        """Settle in the store, emit the event, and wake callers that wait for the result."""
        if not settlements:
            return set()
        if any(one.reason is _CANCELLED for one in settlements):
            settlements = await self._with_replaced(jobs, settlements)
        settlements = await self._deps.webhook_events.attached(jobs, settlements)
        begun = time.perf_counter()
        applied = set(await self._deps.store.settle(settlements))
        seconds = time.perf_counter() - begun
        if len(applied) < len(settlements):
            pairs = [(job, one) for job, one in zip(jobs, settlements, strict=True) if one.job_id in applied]
            jobs, settlements = [job for job, _ in pairs], [one for _, one in pairs]
        if applied:
            self._deps.telemetry.emit(JobsSettled(jobs, settlements, seconds))
            await self._announce(jobs, settlements)
            if self._deps.store.frees_permit(applied):
                # The permit may be for a job of any queue.
                await self._deps.broker.announce((EVERY_QUEUE,))
        return applied

    async def _with_replaced(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        """Return jobs that their schedule replaced, by `cancel_previous`, that reason instead of a cancel request."""
        ids = {job.schedule_id for job in jobs if job.schedule_id is not None}
        schedules = {one.id: one for one in await self._deps.store.schedules(sorted(ids))} if ids else {}
        return [
            replace(one, reason=Reason.REPLACED)
            if one.reason is _CANCELLED and _is_replaced(job, schedules.get(job.schedule_id or ScheduleId(0)))
            else one
            for job, one in zip(jobs, settlements, strict=True)
        ]

    async def _announce(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> None:
        topics: set[Topic] = set()
        for job, settlement in zip(jobs, settlements, strict=True):
            target = settlement.target
            if target is _COMPLETED and settlement.follow_up is None and not settlement.events:
                continue
            if target is State.PENDING:
                topics.add(job.queue)
            elif target in TIMED:
                topics.add(TIMETABLE)
            elif target is State.BLOCKED:
                # It may be pending by now, or wait for a time.
                topics.update((job.queue, TIMETABLE))
            if settlement.follow_up is not None:
                topics.update((settlement.follow_up.queue, TIMETABLE))
            topics.update(made.queue for made in settlement.events)
        if topics:
            await self._deps.broker.announce(topics)


def _is_replaced(job: Job, schedule: Schedule | None) -> bool:
    """Whether a schedule that cancels its previous job has made another one since."""
    return (
        schedule is not None
        and job.state is _RUNNING
        and schedule.overlap is Overlap.CANCEL_PREVIOUS
        and schedule.last_fire_at is not None
        and job.fire_time is not None
        and schedule.last_fire_at > job.fire_time
    )


def _with_log(settlement: Settlement, report: AttemptReport) -> Settlement:
    if report.log_tail is None and report.progress is None:
        return settlement
    return replace(settlement, log_tail=report.log_tail, progress=report.progress)


def _are_counted(held: Sequence[tuple[Job, AttemptReport]]) -> bool:
    """Whether an outcome counts for a circuit breaker or a retry budget: those of few jobs do.

    Written without a loop in Python, since every outcome passes here.
    """
    if any(map(_BREAKER, map(_REPORT, held))):
        return True
    rules = set(map(id, map(_BACKOFF, map(_JOB, held))))
    return not rules <= _PLAIN_RULES and any(job.backoff.budget is not None for job, _ in held)


_JOB: Final = itemgetter(0)
_REPORT: Final = itemgetter(1)
_BREAKER: Final = attrgetter("breaker")
_BACKOFF: Final = attrgetter("backoff")
_PLAIN_RULES: Final = frozenset({id(DEFAULT_BACKOFF)})


def _has_follow_up(job: Job) -> bool:
    return job.on_success is not None or job.on_failure is not None
