"""What a worker asks for: work, more time, and to be rid of what it did."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from rota.core.decision import Means, decide
from rota.core.errors import Unavailable
from rota.core.fleet import Role
from rota.core.identity import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lease import NOT_AHEAD, Claim, Renewal, Renewed
from rota.core.lifecycle import TIMED, State
from rota.core.outcome import Failed, Lost, Released, Snoozed
from rota.core.precedence import Rank
from rota.core.schedule import Overlap, Schedule
from rota.core.settlement import Reason, Settlement
from rota.engine.foresight import Foresight
from rota.engine.parts import Parts
from rota.ports.faces import Report
from rota.ports.places import TIMETABLE, answer_to
from rota.telemetry.events import JobsClaimed, JobsSettled, LeasesExpired, SettlementsRefused

#: How many leased jobs to keep at hand for their settlement; what is not at hand is read again.
REMEMBERED: Final = 50_000
#: Outcomes after which a job is due again at a time.
_TIMED: Final = (Failed, Snoozed)
#: These, and outcomes after which it is due at once unless it was claimed ahead of its time.
_UNDONE: Final = (*_TIMED, Released, Lost)
#: To look a member up in its enumeration costs as much as a call; for every job that adds up.
_COMPLETED: Final = State.COMPLETED
_RUNNING: Final = State.RUNNING
_CANCELLED: Final = Reason.CANCEL_REQUESTED


class _Question:
    """A claim, in the forms in which it is asked while it waits."""

    def __init__(self, wanted: Claim, parts: Parts) -> None:
        self.wanted = wanted
        self._plain = replace(wanted, ahead=NOT_AHEAD) if wanted.ahead else wanted
        # What a broker hands over is due, and not for others to bring.
        is_handed_over = parts.broker.line is not None
        self.looks_ahead = bool(wanted.ahead) and not is_handed_over
        self._store = parts.store
        self._stays = parts.store.keeps_claims and not is_handed_over and wanted.claim_id is not None

    @property
    def places(self) -> tuple[str, ...]:
        """Where something may come for it."""
        timed = (TIMETABLE,) if self.looks_ahead else ()
        answered = (answer_to(self.wanted.claim_id),) if self._stays and self.wanted.claim_id is not None else ()
        return (*self.wanted.queues, *timed, *answered)

    def asked(self, left: float, *, is_near: bool) -> Claim:
        """Give the form for now: ahead where something is near, and otherwise such that it stays for what is left."""
        if is_near:
            return self.wanted
        return replace(self._plain, stays=timedelta(seconds=left)) if self._stays and left > 0 else self._plain

    def brought(self) -> Sequence[Job]:
        """Give what was brought while it waited, as far as it is at hand."""
        return self._store.brought(self.wanted) if self._stays else ()

    def note_look(self) -> None:
        """Note that all there is was looked at, and that it is asked again only if somebody rings."""
        if not self._plain.is_woken:
            self._plain = replace(self._plain, is_woken=True)


class Work:
    """Claim, renew, settle, reap."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.foresight = Foresight(parts.store.timetable)
        #: The ranks of the workers in this process, by boot, as far as anybody has told them.
        self.ranks: Mapping[str, Rank] = {}
        self._leased: OrderedDict[JobId, Job] = OrderedDict()
        #: How many leases the reaper held at its last look: lapsed by the store's clock, not by the steady clock.
        self._held = 0

    async def claim(self, wanted: Claim, *, wait: timedelta = timedelta(0), looks_again: bool = False) -> Sequence[Job]:
        """Lease jobs; when there are none, wait for some. Who looks again knows that there is no former answer."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + wait.total_seconds()
        refused: set[JobId] = set()
        question = _Question(replace(wanted, is_new=True) if looks_again else wanted, self._parts)
        # Whoever repeats a question wants its former answer, and only the store knows that.
        may_be_repeated = wanted.claim_id is not None and not looks_again
        with self._parts.broker.attend(question.places, wanted.types, self.ranks.get(wanted.worker.boot)) as attendance:
            while True:
                known = len(refused)
                # If it is repeated, it may have looked ahead before; what is still on its way may do so yet.
                is_former = may_be_repeated and not question.wanted.is_new
                is_near = question.looks_ahead and (self.foresight.is_near or is_former)
                asked = question.asked(give_up_at - loop.time(), is_near=is_near)
                jobs = await self._claim_once(asked, refused, asks_store=may_be_repeated)
                may_be_repeated = False
                if is_near:
                    self.foresight.seen(jobs, wanted.limit)
                if not jobs and len(refused) > known:
                    # We were handed what cannot be had, and what can be may stand behind it. Never twice for the same
                    # job: one that is dispatched again and again must not keep us busy.
                    continue
                left = give_up_at - loop.time()
                if jobs or left <= 0:
                    return jobs
                question.note_look()
                if question.looks_ahead:
                    await self.foresight.wait(attendance, left)
                else:
                    await attendance.wait(timedelta(seconds=left))
                brought = question.brought()
                if brought:
                    return self._taken_on(brought, 0.0)
                if loop.time() >= give_up_at:
                    # Nobody rang, so nothing came. Who asks again is given a fresh look, and what came too late.
                    return ()

    async def _claim_once(self, wanted: Claim, refused: set[JobId], *, asks_store: bool) -> Sequence[Job]:
        """Lease what the broker hands over, and note what of it cannot be had; or what it says is in the store."""
        if wanted.ids is None:
            ids = await self._parts.broker.take(wanted.queues, wanted.types, wanted.limit)
            if ids:
                return await self._claim_handed_over(wanted, ids, refused)
            if ids is not None and not asks_store:
                return ()
        return await self._claim_from_store(wanted)

    async def _claim_handed_over(self, wanted: Claim, ids: Sequence[JobId], refused: set[JobId]) -> Sequence[Job]:
        """Lease what was handed over. From the store's answer on its lease protects a job, and no entry needs to.

        If we die before that, someone else is handed the same ids, and finds the same.
        """
        try:
            jobs = await self._claim_from_store(replace(wanted, ids=tuple(ids)))
        except BaseException:
            # Nobody knows whether it happened. If it did, the next one who tries them is refused.
            await self._parts.broker.hand_back(ids)
            raise
        await self._parts.broker.acknowledge(ids)
        not_had = set(ids).difference(job.id for job in jobs)
        if not_had:
            refused |= not_had
            # They may be dispatched again. If this fails or we die here, the audit finds them in no line and recalls.
            with suppress(Unavailable):
                await self._parts.store.recall(sorted(not_had))
        return jobs

    async def _claim_from_store(self, wanted: Claim) -> Sequence[Job]:
        begun = time.perf_counter()
        jobs = await self._parts.store.claim(wanted)
        return self._taken_on(jobs, time.perf_counter() - begun) if jobs else jobs

    def _taken_on(self, jobs: Sequence[Job], seconds: float) -> Sequence[Job]:
        """Note that somebody has these jobs now."""
        self._remember(jobs)
        self._parts.telemetry.emit(JobsClaimed(jobs, seconds))
        return jobs

    def _remember(self, jobs: Iterable[Job]) -> None:
        self._leased.update((job.id, job) for job in jobs)
        while len(self._leased) > REMEMBERED:
            self._leased.popitem(last=False)

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Keep leases; those absent from the answer are lost."""
        return await self._parts.store.renew(renewals)

    async def settle(self, reports: Sequence[Report]) -> Sequence[JobId]:
        """Write down what attempts yielded; those absent from the answer were refused."""
        jobs = await self._jobs_of(reports)
        applied = await self._apply(jobs, reports)
        late = [one for one in reports if one.job_id not in applied] if len(applied) < len(reports) else ()
        if late:
            # A job that was asked to stop meanwhile still holds its fence but must be decided anew.
            fresh = {job.id: job for job in await self._parts.store.get([report.job_id for report in late])}
            applied |= await self._apply(fresh, late)
            refused = [report.job_id for report in late if report.job_id not in applied]
            if refused:
                self._parts.telemetry.emit(SettlementsRefused(refused))
        for report in reports:
            self._leased.pop(report.job_id, None)
        return [report.job_id for report in reports if report.job_id in applied]

    async def _jobs_of(self, reports: Sequence[Report]) -> dict[JobId, Job]:
        """Find the jobs that reports are about, at hand or in the store."""
        jobs: dict[JobId, Job] = {}
        for report in reports:
            job = self._leased.get(report.job_id)
            if job is not None and job.fence == report.fence:
                jobs[report.job_id] = job
        missing = [one.job_id for one in reports if one.job_id not in jobs] if len(jobs) < len(reports) else ()
        if missing:
            jobs.update((job.id, job) for job in await self._parts.store.get(missing))
        return jobs

    async def _apply(self, jobs: dict[JobId, Job], reports: Iterable[Report]) -> set[JobId]:
        held = [
            (job, report)
            for report in reports
            if (job := jobs.get(report.job_id)) is not None and job.fence == report.fence and job.state is _RUNNING
        ]
        now = await self._time_for(held)
        return await self.write_back([job for job, _ in held], [self._decided(job, one, now) for job, one in held])

    async def _time_for(self, held: Iterable[tuple[Job, Report]]) -> datetime:
        """Ask the store for the time where something will be due by it: our own clock may be an hour off.

        What simply ended needs no time, and no round trip for it.
        """
        is_needed = any(
            (isinstance(one.outcome, _UNDONE) and (isinstance(one.outcome, _TIMED) or job.starts_on_time))
            or _has_heirs(job)
            for job, one in held
        )
        return await self._parts.store.time() if is_needed else self._parts.clock()

    def _decided(self, job: Job, report: Report, now: datetime) -> Settlement:
        settlement = decide(job, report.outcome, self._means_for(job, now))
        return settlement if report.log_tail is None else replace(settlement, log_tail=report.log_tail)

    def _means_for(self, job: Job, now: datetime) -> Means:
        """Bring what a decision about a job needs."""
        return Means(now, self._parts.dice(), self._parts.fresh_id() if _has_heirs(job) else None)

    async def write_back(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> set[JobId]:
        """Settle, and tell whoever waits for what comes of it."""
        if not settlements:
            return set()
        if any(one.reason is _CANCELLED for one in settlements):
            settlements = await self._told_apart(jobs, settlements)
        begun = time.perf_counter()
        applied = set(await self._parts.store.settle(settlements))
        seconds = time.perf_counter() - begun
        if len(applied) < len(settlements):
            pairs = [(job, one) for job, one in zip(jobs, settlements, strict=True) if one.job_id in applied]
            jobs, settlements = [job for job, _ in pairs], [one for _, one in pairs]
        if applied:
            self._parts.telemetry.emit(JobsSettled(jobs, settlements, seconds))
            await self._announce(jobs, settlements)
        return applied

    async def _told_apart(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        """Tell jobs that their schedule replaced, by `cancel_previous`, from those that somebody cancelled."""
        ids = {job.schedule_id for job in jobs if job.schedule_id is not None}
        found = {one.id: one for one in await self._parts.store.schedules(sorted(ids))} if ids else {}
        return [
            replace(one, reason=Reason.REPLACED)
            if one.reason is _CANCELLED and _is_replaced(job, found.get(job.schedule_id or ScheduleId(0)))
            else one
            for job, one in zip(jobs, settlements, strict=True)
        ]

    async def _announce(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> None:
        places = set()
        for job, settlement in zip(jobs, settlements, strict=True):
            target = settlement.target
            if target is _COMPLETED and settlement.follow_up is None:
                continue
            if target is State.PENDING:
                places.add(job.queue)
            elif target in TIMED:
                places.add(TIMETABLE)
            if settlement.follow_up is not None:
                places.update((settlement.follow_up.queue, TIMETABLE))
        if places:
            await self._parts.broker.announce(places)

    async def reap(self, limit: int) -> int:
        """Take jobs from workers that did not renew, once their leases have lapsed by our steady clock as well."""
        # Leases that are held come first, since they lapsed first by the store's clock: look past them.
        found = await self._parts.store.lost(limit + self._held)
        if not found:
            self._held = 0
            return 0
        asked_at = self._parts.store_clock.steady()
        now = await self._parts.store.time()
        # Read after the leases: if the store's clock was set ahead before they were judged, it shows here.
        self._parts.store_clock.note(now, asked_at)
        jobs = await self._lapsed(found, now)
        self._held = len(found) - len(jobs)
        # A worker may renew between our look and our word: then the job is not lost after all.
        settlements = [replace(decide(job, Lost(), self._means_for(job, now)), if_lapsed=True) for job in jobs]
        applied = await self.write_back(jobs, settlements)
        taken = [job for job in jobs if job.id in applied]
        if taken:
            self._parts.telemetry.emit(LeasesExpired(taken))
        return len(jobs)

    async def _lapsed(self, jobs: Sequence[Job], now: datetime) -> Sequence[Job]:
        """Leave out jobs whose leases have not lapsed by our steady clock."""
        clock = self._parts.store_clock
        # The longest lapsed comes first.
        clock.note_lapsed(jobs[0].lease_until or now, now)
        if clock.earlier_starts is None:
            schedulers = await self._parts.store.members(role=Role.SCHEDULER)
            clock.earlier_starts = [one.started_at for one in schedulers if one.started_at is not None]
        return [job for job in jobs if clock.has_lapsed(job, now)]


def _is_replaced(job: Job, schedule: Schedule | None) -> bool:
    """Say whether a schedule that cancels its previous job has made another one since."""
    return (
        schedule is not None
        and job.state is _RUNNING
        and schedule.overlap is Overlap.CANCEL_PREVIOUS
        and schedule.last_fire_at is not None
        and job.fire_time is not None
        and schedule.last_fire_at > job.fire_time
    )


def _has_heirs(job: Job) -> bool:
    return job.on_success is not None or job.on_failure is not None
