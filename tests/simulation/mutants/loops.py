"""Bugs in Rota's own loops: the worker, the engine, the scheduler."""

# ruff: noqa: ANN401 - what is wrapped here has many signatures, and the wrong one has the right one's

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Any
from unittest.mock import patch

from rota.backoff import JitteredBackoff
from rota.core import schedule as schedule_module
from rota.core.errors import InvalidRequest, Unavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.outcome import Failed, Outcome, Released
from rota.core.schedule import Fate, Firing, Schedule
from rota.core.settlement import JobError, Settlement
from rota.core.submission import NewJob
from rota.engine.jobs import Jobs
from rota.engine.leases import Leases
from rota.engine.schedules import Schedules
from rota.engine.store_clock import StoreClock
from rota.ports.client import AttemptReport
from rota.ports.store import Inserted
from rota.scheduler import loop
from rota.scheduler.upkeep import Expirer, Promoter, Reaper
from rota.worker import attempt as attempt_module
from rota.worker.attempt import RunningAttempt
from rota.worker.deadlines import Stopper
from rota.worker.drain import Drain
from rota.worker.fetcher import Fetcher
from rota.worker.heartbeat import LoopHeartbeat
from rota.worker.intake import EarlyJobs, Intake
from rota.worker.outcomes import StopReason
from rota.worker.worker import WorkerParts
from simulation.mutants.planting import Planting, instead, mutant
from simulation.variants import LOOPS

# The worker


@mutant("I3", LOOPS, first=296)
def begun_after_the_lease_lapsed() -> Planting:
    """Whether the lease is still valid is not checked when the handler begins."""

    def extend(right: Any, attempt: RunningAttempt, sent: float, lease: float) -> None:
        right(attempt, sent, lease)
        attempt.start_before = inf

    with instead(RunningAttempt, "extend", extend):
        yield


@mutant("I3", LOOPS, first=313)
def lease_counted_from_the_answer() -> Planting:
    """The lease is counted from when the claim was answered, not from when it was sent."""

    def accept(right: Any, intake: Intake, jobs: Sequence[Job], sent: float) -> None:
        del sent
        right(intake, jobs, asyncio.get_running_loop().time())

    with instead(Intake, "accept", accept):
        yield


@mutant("G4", LOOPS, first=4)
def nothing_renewed() -> Planting:
    """No lease is renewed: what takes longer than a lease is started again and again."""

    async def beat(right: Any, heartbeat: LoopHeartbeat) -> bool:
        del right, heartbeat
        return True

    with instead(LoopHeartbeat, "beat", beat):
        yield


@mutant("G4", LOOPS, first=919)
def renewals_stop_with_the_first_signal() -> Planting:
    """A worker that drains renews no leases, though its handlers run on."""

    async def close(right: Any, parts: WorkerParts, announcing: Any) -> None:
        parts._tasks["heartbeat"].cancel()
        parts._tasks["watchdog"].cancel()
        await right(parts, announcing)

    with instead(WorkerParts, "close", close):
        yield


@mutant("I12", LOOPS, first=29)
def drain_burns_an_attempt() -> Planting:
    """A job that a shutdown interrupts has failed."""

    def outcome(right: Any, why: StopReason, *rest: Any) -> Outcome | None:
        if why is StopReason.DRAIN:
            return Failed(JobError("Interrupted", "the worker was stopped"))
        given: Outcome | None = right(why, *rest)
        return given

    with instead(attempt_module, "outcome_of_stop", outcome):
        yield


@mutant("I4", LOOPS, first=78)
def interrupted_taken_for_unbegun() -> Planting:
    """A job whose handler was interrupted is handed back as if it had never begun."""

    def outcome(right: Any, why: StopReason, *rest: Any) -> Outcome | None:
        given: Outcome | None = right(why, *rest)
        return Released(started=False) if isinstance(given, Released) else given

    with instead(attempt_module, "outcome_of_stop", outcome):
        yield


@mutant("I12", LOOPS, first=100)
def nothing_handed_back() -> Planting:
    """A worker that is asked to end waits for its handlers, and leaves what is still running to its lease."""

    async def finish(right: Any, drain: Drain) -> None:
        del right
        await drain._wait_for_attempts(drain._reserve)
        drain._reporter.close()

    with instead(Drain, "finish", finish):
        yield


@mutant("I12", LOOPS, first=10)
def claims_while_draining() -> Planting:
    """The fetcher goes on while the worker drains, and uses the time of the handlers."""

    async def close(right: Any, parts: WorkerParts, announcing: Any) -> None:
        try:
            await asyncio.wait([parts._tasks["fetcher"]], timeout=2)
        except asyncio.CancelledError:
            announcing.close()
            raise
        await right(parts, announcing)

    with instead(WorkerParts, "close", close):
        yield


@mutant("I12", LOOPS, first=10)
def overstays_its_grace() -> Planting:
    """The time for handlers and the time for writing back are counted apart, and both are used up."""

    async def finish(right: Any, drain: Drain) -> None:
        await right(drain)
        await asyncio.sleep(drain._seconds + 3)

    with instead(Drain, "finish", finish):
        yield


@mutant("I7", LOOPS, first=47)
def cancel_not_obeyed() -> Planting:
    """The request to stop a job arrives, and is not passed on to the handler."""

    def stop(right: Any, stopper: Stopper, attempt: RunningAttempt, why: StopReason) -> None:
        if why is not StopReason.CANCEL:
            right(stopper, attempt, why)

    with instead(Stopper, "stop", stop):
        yield


@mutant("I12", LOOPS, first=10)
def last_claim_not_handed_back() -> Planting:
    """What the last claim brought while the worker was told to end is not handed back."""

    async def close(right: Any, fetcher: Fetcher, seconds: float) -> None:
        del right, fetcher, seconds

    with instead(Fetcher, "close", close):
        yield


@mutant("I9", LOOPS)
def held_job_begun_early() -> Planting:
    """What was claimed ahead of its time is begun at once."""

    def hold(right: Any, early_jobs: EarlyJobs, attempts: Sequence[RunningAttempt]) -> None:
        del right
        early_jobs._start(attempts)

    with instead(EarlyJobs, "hold", hold):
        yield


# The engine


@mutant("I3", LOOPS, first=56)
def refused_report_decided_anew_without_its_fence() -> Planting:
    """A report that came too late is looked at again, and written under the fence of whoever runs the job now."""

    async def apply(right: Any, work: Leases, jobs: dict[JobId, Job], reports: Sequence[AttemptReport]) -> Any:
        current = [
            replace(report, fence=jobs[report.job_id].fence) if report.job_id in jobs else report for report in reports
        ]
        return await right(work, jobs, current)

    with instead(Leases, "_apply", apply):
        yield


@mutant("I3", LOOPS, first=124)
def reaper_takes_live_leases() -> Planting:
    """The reaper takes leases that were renewed since it read them."""

    async def write_back(right: Any, work: Leases, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> Any:
        return await right(work, jobs, [replace(one, lapsed_at=None) for one in settlements])

    with instead(Leases, "write_back", write_back):
        yield


@mutant("I1", LOOPS, first=39)
def retries_reckoned_by_the_hosts_clock() -> Planting:
    """When a failed job is due again is reckoned by a clock that may be an hour off. (A bug that Rota had.)"""

    async def time_for(right: Any, work: Leases, held: Any) -> datetime:
        del right, held
        return work._deps.clock()

    with instead(Leases, "_time_for", time_for):
        yield


@mutant("I2", LOOPS)
def repeated_submission_not_recognised() -> Planting:
    """A submission that is repeated meets its own id, takes it for another's, and makes a second job. (Rota had it.)"""

    async def recognise(right: Any, jobs: Jobs, asked: Sequence[NewJob], answers: list[Inserted]) -> None:
        del right, jobs, asked, answers

    with instead(Jobs, "_recognise", recognise):
        yield


@mutant("I6", LOOPS)
def operations_not_in_the_ledger() -> Planting:
    """What operators do is written like everything else, without an entry in the ledger."""

    async def write(right: Any, jobs: Jobs, found: Sequence[Job], settlements: Sequence[Settlement], *by: Any) -> Any:
        del right, by
        return tuple(await Leases(jobs._deps).write_back(found, settlements))

    with instead(Jobs, "_write", write):
        yield


# The scheduler


@mutant("I8", LOOPS, first=17)
def fire_times_planned_by_the_hosts_clock() -> Planting:
    """A scheduler whose clock is ahead plans past fire times that have not come yet. (A bug that Rota had.)"""

    async def planned(right: Any, schedules: Schedules, schedule: Schedule, now: datetime) -> Firing:
        del now
        firing: Firing = await right(schedules, schedule, schedules._deps.clock())
        return firing

    with instead(Schedules, "_planned", planned):
        yield


@mutant("I8", LOOPS, first=184)
def outage_sets_a_schedule_aside() -> Planting:
    """A schedule that could not be planned because the store was away is paused. (A bug that Rota had.)"""

    async def planned(right: Any, schedules: Schedules, schedule: Schedule, now: datetime) -> Firing:
        try:
            firing: Firing = await right(schedules, schedule, now)
        except Unavailable as error:
            raise InvalidRequest(str(error)) from error
        return firing

    with instead(Schedules, "_planned", planned):
        yield


@mutant("I8", LOOPS)
def fired_apart_from_its_plan() -> Planting:
    """The jobs of a fire time are submitted, and then the fire time is written down: two schedulers make two."""

    async def told(right: Any, schedules: Schedules, firings: Any, made: set[JobId], now: datetime) -> None:
        unmade = [job for _, firing in firings for job in firing.jobs if job.id not in made]
        if unmade:
            await schedules._deps.store.insert(unmade)
        await right(schedules, firings, made, now)

    with instead(Schedules, "_announce_fired", told):
        yield


@mutant("I8", LOOPS, first=17)
def every_missed_fire_time_made_up_for() -> Planting:
    """A catch-up leaves nothing out, whatever its policy. (A bug that Rota had.)"""
    with patch.object(schedule_module, "_missed", lambda *_: frozenset()):
        yield


@mutant("I8", LOOPS, first=6)
def missed_fire_times_unrecorded() -> Planting:
    """What a catch-up leaves out is on no record. (A bug that Rota had.)"""

    async def planned(right: Any, schedules: Schedules, schedule: Schedule, now: datetime) -> Firing:
        firing: Firing = await right(schedules, schedule, now)
        return replace(firing, occurrences=tuple(one for one in firing.occurrences if one.fate is not Fate.MISSED))

    with instead(Schedules, "_planned", planned):
        yield


@mutant("G5", LOOPS, first=8)
def leases_taken_by_the_stores_clock_alone() -> Planting:
    """The reaper does not ask whether the store's clock was set. (A bug that Rota had.)"""
    with patch.object(StoreClock, "has_lapsed", lambda *_: True):
        yield


@mutant("G6", LOOPS, first=39)
def schedules_never_armed_again() -> Planting:
    """When the store's clock is set back, schedules wait for a time that has moved away. (A bug that Rota had.)"""

    async def rearm(right: Any, schedules: Schedules) -> int:
        del right, schedules
        return 0

    with instead(Schedules, "rearm", rearm):
        yield


@mutant("I1", LOOPS)
def promoter_skips() -> Planting:
    """Due jobs are not made pending."""
    with patch.object(Promoter, "tick", _nothing_done):
        yield


@mutant("I1", LOOPS)
def reaper_skips() -> Planting:
    """Jobs are not taken from workers that are gone."""
    with patch.object(Reaper, "tick", _nothing_done):
        yield


@mutant("I1", LOOPS, first=3)
def expirer_skips() -> Planting:
    """Expired jobs are not cancelled."""
    with patch.object(Expirer, "tick", _nothing_done):
        yield


async def _nothing_done(duty: object) -> int:
    del duty
    return 0


@mutant("I8", LOOPS)
def scheduler_waits_too_long_after_a_failure() -> Planting:
    """A scheduler that has failed once tries again much later: in ten minutes, in an hour."""

    class LongBackoff(JitteredBackoff):
        def next(self) -> float:
            return super().next() * 10_000

    with patch.object(loop, "JitteredBackoff", LongBackoff):
        yield
