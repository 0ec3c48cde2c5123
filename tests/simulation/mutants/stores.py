"""Bugs in the store, in a decision, or in a model; found by the models.

They work through the port wherever they can, so that they do not depend on how the store is made.
"""

# ruff: noqa: ANN401 - what is wrapped here has many signatures, and the wrong one has the right one's

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from rota.core import decision
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import FINISHED, Event, State
from rota.core.outcome import Failed, Outcome
from rota.core.schedule import Firing
from rota.core.settlement import JobError, Settlement
from rota.core.submission import Delivery, IdempotencyKey, NewJob
from rota.ports.store import Census, CompletedCount, Inserted, JobQuery, Receipt, Retention
from rota.stores.sqlite import SqliteStore
from simulation.models import scheduler as scheduler_model
from simulation.models import source as source_model
from simulation.models import worker as worker_model
from simulation.models.worker import Held, WorkerModel
from simulation.mutants.planting import Planting, instead, mutant
from simulation.scenario import raw_connection


async def _rewritten(
    store: SqliteStore, settlements: Sequence[Settlement], is_wrong: Callable[[Settlement, Job], bool]
) -> list[Settlement]:
    """Make settlements fit the job as it is now, whatever they were decided from."""
    jobs = {job.id: job for job in await store.get([one.job_id for one in settlements])}
    return [
        replace(one, fence=jobs[one.job_id].fence, source=jobs[one.job_id].state)
        if one.job_id in jobs and is_wrong(one, jobs[one.job_id])
        else one
        for one in settlements
    ]


# Fences and ends


@mutant("I3", first=19)
def unfenced_settle() -> Planting:
    """Whichever attempt finishes first settles, also without its lease."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        def is_wrong(one: Settlement, job: Job) -> bool:
            return one.source is State.RUNNING and job.state is State.RUNNING

        return await right(store, await _rewritten(store, settlements, is_wrong), **options)

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I6")
def reaper_revives_completed() -> Planting:
    """The reaper works from an old snapshot and overwrites what has been completed since (River #1302)."""
    snapshot: dict[JobId, Job] = {}

    async def claim(right: Any, store: SqliteStore, claim: Claim, **options: Any) -> Any:
        jobs = await right(store, claim, **options)
        snapshot.update((job.id, job) for job in jobs)
        return jobs

    async def lost(right: Any, store: SqliteStore, limit: int, **options: Any) -> Any:
        now = store._clock()
        stale = [job for job in snapshot.values() if job.lease_until is not None and job.lease_until < now]
        for job in stale:
            del snapshot[job.id]
        found = await right(store, limit, **options)
        return [*found, *(job for job in stale if job.id not in {one.id for one in found})]

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        def is_wrong(one: Settlement, job: Job) -> bool:
            return one.crash and job.state is State.COMPLETED

        blind = [replace(one, lapsed_at=None) for one in settlements]
        return await right(store, await _rewritten(store, blind, is_wrong), **options)

    with (
        instead(SqliteStore, "claim", claim),
        instead(SqliteStore, "lost", lost),
        instead(SqliteStore, "settle", settle),
    ):
        yield


@mutant("I6", first=17)
def cancel_overwrites_any_end() -> Planting:
    """An operator's cancel is written whatever the job has become since it was looked at."""

    async def get(right: Any, store: SqliteStore, ids: Sequence[JobId]) -> Any:
        # The operator looks at a page that is some time old.
        return [
            replace(job, state=State.PENDING) if job.state is State.COMPLETED else job
            for job in await right(store, ids)
        ]

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        def is_wrong(one: Settlement, job: Job) -> bool:
            return one.event is Event.CANCEL and job.state in FINISHED

        return await right(store, await _rewritten(store, settlements, is_wrong), **options)

    with instead(SqliteStore, "get", get), instead(SqliteStore, "settle", settle):
        yield


@mutant("I6")
def operators_leave_no_trace() -> Planting:
    """What operators do is not written to the ledger."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        return await right(store, settlements, **(options | {"entry": None}))

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I3")
def stale_renewals_accepted() -> Planting:
    """Every renewal is answered as if the lease held."""

    async def renew(right: Any, store: SqliteStore, renewals: Sequence[Renewal], **options: Any) -> list[Renewed]:
        answers = list(await right(store, renewals, **options))
        kept = {answer.job_id for answer in answers}
        until = store._clock() + timedelta(seconds=5)
        return answers + [
            Renewed(one.job_id, one.fence, until, cancel=False) for one in renewals if one.job_id not in kept
        ]

    with instead(SqliteStore, "renew", renew):
        yield


@mutant("I3", first=393)
def live_lease_taken() -> Planting:
    """The reaper takes a job although its worker has renewed the lease since the reaper looked."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        return await right(store, [replace(one, lapsed_at=None) for one in settlements], **options)

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I3", first=3)
def repeated_claim_takes_more() -> Planting:
    """A claim whose answer was lost is repeated and takes other jobs than the first time."""

    async def claim(right: Any, store: SqliteStore, claim: Claim, **options: Any) -> Any:
        return await right(store, replace(claim, claim_id=None), **options)

    with instead(SqliteStore, "claim", claim):
        yield


@mutant("I3")
def claimed_by_two() -> Planting:
    """A claim that finds nothing is given what another worker runs."""
    shared: set[JobId] = set()

    async def claim(right: Any, store: SqliteStore, claim: Claim, **options: Any) -> Any:
        jobs = await right(store, claim, **options)
        if jobs:
            return jobs
        running = await store.find(JobQuery(states=(State.RUNNING,), limit=1))
        again = [job for job in running if job.boot != claim.worker.boot and job.id not in shared]
        shared.update(job.id for job in again)
        return again

    with instead(SqliteStore, "claim", claim):
        yield


@mutant("I3", first=59)
def lease_counted_from_the_reply() -> Planting:
    """The worker counts its lease from when the answer came; the job may be another worker's by then."""

    class LateHeld(Held):
        def __init__(self, job: Job, sent_at: float, sure_until: float) -> None:
            late = asyncio.get_running_loop().time() - sent_at
            super().__init__(job, sent_at, sure_until + late)

    with patch.object(worker_model, "Held", LateHeld):
        yield


# Counting


@mutant("I4")
def at_most_once_sent_back() -> Planting:
    """A lost job is sent back although it must not start twice."""

    def lost(right: Any, job: Job, error: JobError | None, means: decision.DecisionInputs) -> Settlement:
        settlement: Settlement = right(replace(job, delivery=Delivery.AT_LEAST_ONCE), error, means)
        return settlement

    with instead(decision, "_lost", lost):
        yield


@mutant("I4", first=4)
def at_most_once_retried() -> Planting:
    """An operator may retry what may have run already."""

    def retry(right: Any, job: Job, now: datetime) -> Settlement:
        settlement: Settlement = right(replace(job, delivery=Delivery.AT_LEAST_ONCE), now)
        return settlement

    with instead(decision, "retry", retry):
        yield


@mutant("I5")
def lost_attempts_uncounted() -> Planting:
    """A lost lease gives the attempt back: poison runs for ever."""

    def lost(right: Any, job: Job, error: JobError | None, means: decision.DecisionInputs) -> Settlement:
        settlement: Settlement = right(job, error, means)
        if job.delivery is Delivery.AT_MOST_ONCE:
            return settlement
        return replace(job.settled(Event.LAPSE, error=error), refund=True, crash=True)

    with instead(decision, "_lost", lost):
        yield


@mutant("I5", first=15)
def poison_not_recognised() -> Planting:
    """However often a job takes its worker down, it is tried again."""
    with patch.object(decision, "MAX_CRASHES", 1000):
        yield


@mutant("I5")
def given_up_early() -> Planting:
    """The last attempt is never made."""

    def failed(right: Any, job: Job, outcome: Failed, means: decision.DecisionInputs) -> Settlement:
        settlement: Settlement = right(replace(job, attempts=job.attempts + 1), outcome, means)
        return settlement

    with instead(decision, "_failed", failed):
        yield


@mutant("I12")
def attempt_not_refunded() -> Planting:
    """What is handed back has cost an attempt."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        return await right(store, [replace(one, refund=False) for one in settlements], **options)

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I12")
def released_and_gone() -> Planting:
    """To hand back is to delete and to insert again, and the second half does not happen (laravel/ideas#1364)."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        applied = await right(store, settlements, **options)
        for one in settlements:
            if one.event is Event.RELEASE and one.job_id in applied:
                raw_connection().run("DELETE FROM rota_job WHERE id = ? AND idempotency_key IS NULL", (one.job_id,))
        return applied

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I12", first=10)
def sigterm_drops_everything() -> Planting:
    """A worker that is asked to end just ends."""

    async def drain(right: Any, worker: WorkerModel, *arguments: Any) -> None:
        del right, worker, arguments

    with instead(WorkerModel, "_drain", drain):
        yield


@mutant("G4", first=4)
def leases_not_renewed() -> Planting:
    """No lease is renewed: every handler that takes longer than a lease is started twice."""

    async def beat(right: Any, worker: WorkerModel) -> None:
        del right, worker
        await asyncio.Event().wait()

    with instead(WorkerModel, "_beat", beat):
        yield


# Submissions


@mutant("I2")
def idempotency_ignored() -> Planting:
    """A repeated request makes a second job."""

    async def insert(right: Any, store: SqliteStore, jobs: Sequence[NewJob], **options: Any) -> Any:
        return await right(store, [replace(job, idempotency=None) for job in jobs], **options)

    with instead(SqliteStore, "insert", insert):
        yield


@mutant("I2")
def body_not_compared() -> Planting:
    """The same key with another body is answered as if it were the same request."""

    def blurred(key: IdempotencyKey | None) -> IdempotencyKey | None:
        return None if key is None else replace(key, request=b"")

    async def insert(right: Any, store: SqliteStore, jobs: Sequence[NewJob], **options: Any) -> Any:
        return await right(store, [replace(job, idempotency=blurred(job.idempotency)) for job in jobs], **options)

    with instead(SqliteStore, "insert", insert):
        yield


@mutant("I1")
def acknowledged_and_not_stored() -> Planting:
    """Now and then a submission is acknowledged and not written."""

    async def insert(right: Any, store: SqliteStore, jobs: Sequence[NewJob], **options: Any) -> Any:
        answers: list[Inserted] = list(await right(store, jobs, **options))
        for answer in answers:
            if answer.receipt is Receipt.CREATED and answer.job_id % 5 == 0:
                raw_connection().run("DELETE FROM rota_job WHERE id = ? AND idempotency_key IS NULL", (answer.job_id,))
        return answers

    with instead(SqliteStore, "insert", insert):
        yield


@mutant("I1")
def retrying_never_due() -> Planting:
    """Jobs that wait for another attempt are not promoted."""

    async def promote(right: Any, store: SqliteStore, limit: int, **options: Any) -> Any:
        raw_connection().run("UPDATE rota_job SET run_at = run_at + 1e15 WHERE state = 'retrying' AND run_at < 1.9e15")
        return await right(store, limit, **options)

    with instead(SqliteStore, "promote", promote):
        yield


# Cancelling


@mutant("I7", first=23)
def cancel_forgotten_on_retry() -> Planting:
    """A job that was asked to stop fails, is tried again, and the request is forgotten."""

    def decide(right: Any, job: Job, outcome: Outcome, means: decision.DecisionInputs) -> Settlement:
        settlement: Settlement = right(replace(job, cancel_requested_at=None), outcome, means)
        return settlement

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        for one in settlements:
            if not one.is_final:
                raw_connection().run("UPDATE rota_job SET cancel_requested_at = NULL WHERE id = ?", (one.job_id,))
        return await right(store, settlements, **options)

    with ExitStack() as stack:
        stack.enter_context(instead(source_model, "decide", decide))
        stack.enter_context(instead(scheduler_model, "decide", decide))
        stack.enter_context(instead(SqliteStore, "settle", settle))
        yield


@mutant("I7", first=23)
def cancel_not_passed_on() -> Planting:
    """The worker is never told that its job is to stop."""

    async def renew(right: Any, store: SqliteStore, renewals: Sequence[Renewal], **options: Any) -> list[Renewed]:
        return [replace(answer, cancel=False) for answer in await right(store, renewals, **options)]

    with instead(SqliteStore, "renew", renew):
        yield


@mutant("I7", first=3)
def cancelled_job_comes_back() -> Planting:
    """A cancel is acknowledged and undone by the next promotion."""

    async def promote(right: Any, store: SqliteStore, limit: int, **options: Any) -> Any:
        revived = "UPDATE rota_job SET state = 'pending', finished_at = NULL"
        raw_connection().run(f"{revived} WHERE state = 'cancelled' AND reason = 'cancel_requested'")
        return await right(store, limit, **options)

    with instead(SqliteStore, "promote", promote):
        yield


# Schedules


@mutant("I8", first=7)
def fired_twice() -> Planting:
    """Every scheduler fires: what another one has made is made again (dkron#541)."""

    async def fire(right: Any, store: SqliteStore, firings: Sequence[Firing], **options: Any) -> Any:
        made = list(await right(store, firings, **options))
        again = [job for firing in firings for job in firing.jobs if job.id not in made]
        answers = await store.insert(again) if again else []
        return made + [answer.job_id for answer in answers if answer.receipt is Receipt.CREATED]

    with instead(SqliteStore, "fire", fire):
        yield


@mutant("I8")
def fire_time_skipped() -> Planting:
    """Of several fire times that are owed, the last is passed over."""

    async def fire(right: Any, store: SqliteStore, firings: Sequence[Firing], **options: Any) -> Any:
        def shortened(firing: Firing) -> Firing:
            kept = firing.occurrences[:-1]
            ids = {one.job_id for one in kept}
            return replace(firing, occurrences=kept, jobs=tuple(job for job in firing.jobs if job.id in ids))

        return await right(store, [shortened(firing) for firing in firings], **options)

    with instead(SqliteStore, "fire", fire):
        yield


# Time and turn


@mutant("I9")
def started_early() -> Planting:
    """Whatever is due within the next ten seconds is taken for due."""

    async def promote(right: Any, store: SqliteStore, limit: int, **options: Any) -> Any:
        return await right(store, limit, **(options | {"now": store._clock() + timedelta(seconds=10)}))

    async def claim(right: Any, store: SqliteStore, claim: Claim, **options: Any) -> Any:
        return await right(store, claim, **(options | {"now": store._clock() + timedelta(seconds=10)}))

    with instead(SqliteStore, "promote", promote), instead(SqliteStore, "claim", claim):
        yield


@mutant("I9", first=6)
def expired_jobs_given() -> Planting:
    """A job is given out however late it is."""

    async def claim(right: Any, store: SqliteStore, claim: Claim, **options: Any) -> Any:
        raw_connection().run("UPDATE rota_job SET expires_at = NULL WHERE state = 'pending'")
        return await right(store, claim, **options)

    with instead(SqliteStore, "claim", claim):
        yield


@mutant("I9")
def latest_first() -> Planting:
    """A stack instead of a queue: of those that are due, the one whose turn is last."""

    async def claim(right: Any, store: SqliteStore, claim: Claim, **options: Any) -> Any:
        connection = raw_connection()
        connection.run("UPDATE rota_job SET turn = -turn WHERE state = 'pending'")
        jobs = await right(store, claim, **options)
        connection.run("UPDATE rota_job SET turn = -turn WHERE state = 'pending'")
        connection.run("UPDATE rota_job SET turn = -turn WHERE turn > 0 AND state = 'running'")
        return jobs

    with instead(SqliteStore, "claim", claim):
        yield


# What follows, and what is left


@mutant("I10", first=4)
def follow_up_made_twice() -> Planting:
    """The follow-up is made with the end of its parent, and once more (celery#1700)."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        applied = await right(store, settlements, **options)
        again = [one.follow_up for one in settlements if one.follow_up is not None and one.job_id in applied]
        if again:
            await store.insert([replace(job, id=JobId(job.id + 1)) for job in again])
        return applied

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I10")
def follow_up_forgotten() -> Planting:
    """The parent ends and its follow-up is never made (celery#3538)."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        return await right(store, [replace(one, follow_up=None) for one in settlements], **options)

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I10")
def waiting_jobs_not_released() -> Planting:
    """A parent's end is not told to those who wait for it."""

    async def settle(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        raw_connection().run("UPDATE rota_dependency SET met = 1")
        return await right(store, settlements, **options)

    with instead(SqliteStore, "settle", settle):
        yield


@mutant("I10")
def waits_ignored() -> Planting:
    """Dependencies are ignored."""

    async def insert(right: Any, store: SqliteStore, jobs: Sequence[NewJob], **options: Any) -> Any:
        return await right(store, [replace(job, after=()) for job in jobs], **options)

    with instead(SqliteStore, "insert", insert):
        yield


@mutant("I11")
def living_job_pruned() -> Planting:
    """Retention looks at the age of a job and not at its state."""

    async def prune(right: Any, store: SqliteStore, retention: Retention, limit: int, **options: Any) -> int:
        pruned: int = await right(store, retention, limit, **options)
        connection = raw_connection()
        victims = connection.rows("SELECT id FROM rota_job WHERE state IN ('pending', 'scheduled') ORDER BY id LIMIT 1")
        for (job_id,) in victims:
            connection.run("DELETE FROM rota_job WHERE id = ?", (job_id,))
            counted = "INSERT INTO rota_pruned (state, count) VALUES ('completed', 1)"
            connection.run(f"{counted} ON CONFLICT (state) DO UPDATE SET count = count + 1")
        return pruned + len(victims)

    with instead(SqliteStore, "prune", prune):
        yield


@mutant("I11")
def pruned_jobs_uncounted() -> Planting:
    """What was pruned is not counted: it cannot be told from lost jobs."""

    async def prune(right: Any, store: SqliteStore, retention: Retention, limit: int, **options: Any) -> int:
        pruned: int = await right(store, retention, limit, **options)
        raw_connection().run("DELETE FROM rota_pruned")
        return pruned

    with instead(SqliteStore, "prune", prune):
        yield


@mutant("I11")
def census_counts_badly() -> Planting:
    """The count of all jobs leaves one out."""

    async def census(right: Any, store: SqliteStore, known: CompletedCount | None = None) -> Census:
        counted: Census = await right(store, known)
        return replace(counted, finished={state: max(count - 1, 0) for state, count in counted.finished.items()})

    with instead(SqliteStore, "census", census):
        yield
