"""Job verbs over a store: submit, read, wait for the end, and operators' actions (cancel, retry, run now, discard)."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rota.core.bulk import check_all, parents_of, representatives
from rota.core.decision import cancel, retry, run_now
from rota.core.envelope import is_encrypted
from rota.core.errors import (
    IllegalTransition,
    InvalidRequest,
    JobNotFound,
    KeyReused,
    StoreUnavailable,
    Unavailable,
)
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.job_edit import JobEdit, change_of, copy_of
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Settlement
from rota.core.submission import IdempotencyKey, NewJob, unknown_parent
from rota.engine.deps import EngineDeps
from rota.ports.client import ActionResult, Actor, Deed
from rota.ports.store import AllCreated, Census, CompletedCount, DeadGroup, Inserted, JobQuery, JobSlice, Receipt
from rota.ports.wakeup import TIMETABLE, Topic
from rota.telemetry.events import Acted, CancelAsked, Event, JobsSettled, JobsSubmitted

#: How often a decision is repeated when the job changes meanwhile, and how often other ids are tried.
MOST_TRIES: Final = 10
#: How many submissions whose commit is unknown to remember, in case they are repeated.
MOST_UNCONFIRMED: Final = 10_000
#: How long `wait` goes without reading the job: at first, as a share of the time waited so far, and at most.
SHORTEST_PAUSE_SECONDS: Final = 0.02
PAUSE_SHARE: Final = 1 / 4
LONGEST_PAUSE_SECONDS: Final = 1.0
#: How often completed jobs are all counted: jobs that were not counted because the clock was set back are counted then.
RECOUNT_EVERY: Final = timedelta(minutes=10)

#: Compared by identity: hashing a member of an enumeration costs a call.
_CREATED: Final = Receipt.CREATED

Decision = Callable[[Job], Settlement | None]


class Jobs:
    """Submit, read, wait, cancel, retry, run now, discard."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._unconfirmed: OrderedDict[JobId, NewJob] = OrderedDict()
        self._completed: CompletedCount | None = None
        self._recounted_at = datetime.min.replace(tzinfo=UTC)

    async def submit(self, jobs: Sequence[NewJob], *, entry: LedgerEntry | None = None) -> Sequence[Inserted]:
        """Store jobs; they are on stable storage when this returns, with the ledger's `entry` if there is one."""
        check_all(jobs)
        deps, made = self._deps, jobs
        # A single job without parents, as most are, needs no query for parents.
        if (len(jobs) != 1 or jobs[0].after) and (missing := await self.unknown_parents(jobs)):
            raise unknown_parent(min(missing))
        begun = time.perf_counter()
        is_limited = deps.waiting_limit.most is not None
        if is_limited:
            await deps.waiting_limit.admit(len(jobs))
        try:
            answers = await deps.store.insert(jobs, bound=deps.queue_bound, entry=entry)
        except Unavailable:
            self._note_unconfirmed(jobs)
            raise
        finally:
            if is_limited:
                deps.waiting_limit.finish(len(jobs))
        if self._unconfirmed or not _are_created(answers):
            answers = list(answers)
            await self._recognise(jobs, answers)
            await self._take_other_ids(jobs, answers, entry)
            made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
        if made:
            if deps.telemetry.has_listeners:
                deps.telemetry.emit(JobsSubmitted(made, time.perf_counter() - begun))
            if deps.broker.has_subscribers:
                await deps.broker.announce(topics_of(made))
        return answers

    async def unknown_parents(self, jobs: Sequence[NewJob]) -> set[JobId]:
        """Return the parent ids that no job has: a job that waits for one would be cancelled at once."""
        parents = parents_of(jobs)
        if parents:
            parents -= {job.id for job in await self._deps.store.get(sorted(parents))}
        return parents

    def _note_unconfirmed(self, jobs: Sequence[NewJob]) -> None:
        """Remember jobs that may have been stored although the store did not answer."""
        self._unconfirmed.update((job.id, job) for job in jobs)
        while len(self._unconfirmed) > MOST_UNCONFIRMED:
            self._unconfirmed.popitem(last=False)

    async def _recognise(self, jobs: Sequence[NewJob], answers: list[Inserted]) -> None:
        """Answer a repeated submission whose first answer was lost with the job that it made.

        Without this it would find its own id taken, take another id, and make a second job.
        """
        repeated = {
            place: jobs[place].id
            for place, answer in enumerate(answers)
            if answer.receipt is Receipt.ID_TAKEN and self._unconfirmed.get(jobs[place].id) == jobs[place]
        }
        if repeated:
            by_id = {job.id: job for job in await self._deps.store.get(list(repeated.values()))}
            for place, job_id in repeated.items():
                if job_id in by_id:
                    answers[place] = Inserted(job_id, Receipt.REPLAYED, by_id[job_id].state)
        for job in jobs:
            self._unconfirmed.pop(job.id, None)

    async def _take_other_ids(self, jobs: Sequence[NewJob], answers: list[Inserted], entry: LedgerEntry | None) -> None:
        """Submit jobs whose ids belong to jobs of other processes again, under new ids."""
        for _ in range(MOST_TRIES):
            taken = [
                place
                for place, answer in enumerate(answers)
                # An encrypted payload is bound to its id: its submitter takes another one.
                if answer.receipt is Receipt.ID_TAKEN and not is_encrypted(jobs[place].payload)
            ]
            if not taken:
                return
            again = [replace(jobs[place], id=self._deps.fresh_id()) for place in taken]
            try:
                inserted = await self._deps.store.insert(again, bound=self._deps.queue_bound, entry=entry)
            except Unavailable:
                self._note_unconfirmed(again)
                raise
            for place, answer in zip(taken, inserted, strict=True):
                answers[place] = answer
        raise StoreUnavailable("no free id was found; is this host's clock far behind the others'?")

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self._deps.store.get(ids)

    async def one(self, job_id: JobId) -> Job:
        """Return a job; raise `JobNotFound` if there is none of this id."""
        jobs = await self._deps.store.get([job_id])
        if not jobs:
            raise unknown_job(job_id)
        return jobs[0]

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await self._deps.store.find(query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        return await self._deps.store.find_some(query)

    async def census(self) -> Census:
        """Count all jobs; of the completed ones those that ended since the last count."""
        now = self._deps.clock()
        if not timedelta(0) <= now - self._recounted_at < RECOUNT_EVERY:
            self._completed, self._recounted_at = None, now
        census = await self._deps.store.census(self._completed)
        self._completed = census.completed
        return census

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        """Wait until a job has ended, at most for a while, and return it as it is then.

        A store on a server sends no wake-up when a job ends in another process, so the job is read now and then.
        """
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        give_up_at = begun + at_most.total_seconds()

        def listen(event: Event) -> None:
            if isinstance(event, JobsSettled) and any(one.job_id == job_id for one in event.settlements):
                ended.set()

        leave = self._deps.telemetry.listen(listen)
        try:
            with self._deps.broker.subscribe((TIMETABLE,)) as subscription:
                while True:
                    job = await self.one(job_id)
                    left = give_up_at - loop.time()
                    if job.state in FINISHED or left <= 0:
                        return job
                    pause = max((loop.time() - begun) * PAUSE_SHARE, SHORTEST_PAUSE_SECONDS)
                    longest = timedelta(seconds=min(left, pause, LONGEST_PAUSE_SECONDS))
                    await _first(ended.wait(), subscription.wait(longest))
                    ended.clear()
        finally:
            leave()

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        return await self._act(ids, by, "cancel", cancel, Deed.CANCELLED)

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        now = await self._deps.store.time()
        return await self._act(ids, by, "retry", lambda job: retry(job, now), Deed.RETRIED)

    async def run_now(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        """Make scheduled and retrying jobs due at once."""
        now = await self._deps.store.time()
        return await self._act(ids, by, "run_now", lambda job: run_now(job, now), Deed.STARTED)

    async def edit(self, job_id: JobId, edit: JobEdit, by: Actor, *, read_as: Job | None = None) -> Job:
        """Change a waiting job, and return it; with `read_as` only if it is still as it was read then."""
        for _ in range(MOST_TRIES):
            job = await self.one(job_id) if read_as is None else read_as
            change = change_of(job, edit, await self._deps.store.time())
            entry = _entry(by, "edit", [job])
            entry = replace(entry, detail=", ".join(edit.names))
            if await self._deps.store.edit(change, entry=entry):
                self._deps.telemetry.emit(Acted(entry))
                await self._deps.broker.announce({change.queue, TIMETABLE})
                return await self.one(job_id)
            if read_as is not None:
                break
        raise IllegalTransition(f"job {to_text(job_id)}: it was changed meanwhile; read it and try again")

    async def copy(
        self,
        job: Job,
        edit: JobEdit,
        by: Actor,
        *,
        action: str = "duplicate",
        key: IdempotencyKey | None = None,
        needs_end: bool = False,
    ) -> Inserted:
        """Submit a new job made from one, with changes; with `needs_end` only from a finished one."""
        made = copy_of(job, edit, self._deps.fresh_id(), key=key, needs_end=needs_end)
        entry = replace(_entry(by, action, [job]), detail=", ".join(edit.names))
        (inserted,) = await self.submit([made], entry=entry)
        if inserted.receipt is Receipt.KEY_REUSED:
            message = "idempotency_key: it came before with another request; take a new key, or send the same request"
            raise KeyReused(message, field="idempotency_key")
        return inserted

    async def discard(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        """Delete dead and cancelled jobs."""
        by_id = {job.id: job for job in await self._deps.store.get(ids)}
        entry = _entry(by, "discard", list(by_id.values()))
        deleted = set(await self._deps.store.discard(list(by_id), entry=entry))
        if deleted:
            self._deps.telemetry.emit(Acted(entry))
        return [_discarded(job_id, by_id.get(job_id), is_gone=job_id in deleted) for job_id in ids]

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        return await self._deps.store.dead_groups(limit)

    async def act_once_each(self, ids: Sequence[JobId], decision: Decision, deed: Deed) -> Sequence[ActionResult]:
        """Act on jobs for an operation, which has its own entry in the ledger."""
        return await self._act(ids, None, "", decision, deed)

    async def delete(self, ids: Sequence[JobId]) -> Sequence[ActionResult]:
        """Delete dead and cancelled jobs for an operation, which has its own entry in the ledger."""
        by_id = {job.id: job for job in await self._deps.store.get(ids)}
        deleted = set(await self._deps.store.discard(list(by_id)))
        return [_discarded(job_id, by_id.get(job_id), is_gone=job_id in deleted) for job_id in ids]

    async def _act(
        self, ids: Sequence[JobId], by: Actor | None, action: str, decision: Decision, deed: Deed
    ) -> Sequence[ActionResult]:
        """Decide about jobs and settle them; repeat it for those that changed meanwhile."""
        answers: dict[JobId, ActionResult] = {}
        for _ in range(MOST_TRIES):
            open_ids = [job_id for job_id in dict.fromkeys(ids) if job_id not in answers]
            if not open_ids:
                break
            answers |= await self._act_once(open_ids, by, action, decision, deed)
        unsettled = IllegalTransition("the job keeps changing; try again")
        return [answers.get(job_id, ActionResult(job_id, refusal=unsettled)) for job_id in ids]

    async def _act_once(
        self, ids: Sequence[JobId], by: Actor | None, action: str, decision: Decision, deed: Deed
    ) -> dict[JobId, ActionResult]:
        by_id = {job.id: job for job in await self._deps.store.get(ids)}
        answers = {job_id: ActionResult(job_id, refusal=unknown_job(job_id)) for job_id in ids if job_id not in by_id}
        settlements: list[Settlement] = []
        running: list[Job] = []
        for job in by_id.values():
            try:
                settlement = decision(job)
            except InvalidRequest as refusal:
                answers[job.id] = ActionResult(job.id, refusal=refusal)
                continue
            if settlement is None:
                running.append(job)
            else:
                settlements.append(settlement)
        for job_id in await self._write([by_id[one.job_id] for one in settlements], settlements, by, action):
            answers[job_id] = ActionResult(job_id, deed)
        for job_id in await self._ask(running, by, action):
            answers[job_id] = ActionResult(job_id, Deed.ASKED_TO_STOP)
        return answers

    async def _write(
        self, jobs: Sequence[Job], settlements: Sequence[Settlement], by: Actor | None, action: str
    ) -> Sequence[JobId]:
        if not settlements:
            return ()
        entry = None if by is None else _entry(by, action, jobs)
        settlements = await self._deps.webhook_events.attached(jobs, settlements)
        begun = time.perf_counter()
        applied = set(await self._deps.store.settle(settlements, entry=entry))
        pairs = [(job, one) for job, one in zip(jobs, settlements, strict=True) if one.job_id in applied]
        if pairs:
            settled = JobsSettled([job for job, _ in pairs], [one for _, one in pairs], time.perf_counter() - begun)
            self._deps.telemetry.emit(settled)
            self._emit_act(entry)
            queues = {job.queue for job, one in pairs if one.target is State.PENDING}
            queues.update(made.queue for _, one in pairs for made in one.events)
            await self._deps.broker.announce({*queues, TIMETABLE})
        return tuple(applied)

    def _emit_act(self, entry: LedgerEntry | None) -> None:
        if entry is not None:
            self._deps.telemetry.emit(Acted(entry))

    async def _ask(self, jobs: Sequence[Job], by: Actor | None, action: str) -> Sequence[JobId]:
        if not jobs:
            return ()
        entry = None if by is None else _entry(by, action, jobs)
        requested = set(await self._deps.store.ask_cancel([(job.id, job.fence) for job in jobs], entry=entry))
        if requested:
            self._deps.telemetry.emit(CancelAsked([job for job in jobs if job.id in requested]))
            self._emit_act(entry)
        return tuple(requested)


def _are_created(answers: Sequence[Inserted]) -> bool:
    if type(answers) is AllCreated:
        return True
    # Not with `all`: most callers submit one job, and the generator would cost more than the rest.
    for answer in answers:  # noqa: SIM110
        if answer.receipt is not _CREATED:
            return False
    return True


def topics_of(jobs: Sequence[NewJob]) -> set[Topic]:
    """Return the wake-up topics of new jobs."""
    # A time in the past counts too: the store's clock decides what it means.
    pairs = {(job.queue, job.run_at is not None or job.expires_at is not None) for job in representatives(jobs)}
    queues: set[Topic] = {queue for queue, _ in pairs}
    return {*queues, TIMETABLE} if any(has_time for _, has_time in pairs) else queues


def unknown_job(job_id: JobId) -> JobNotFound:
    """Make the error for an id that no job has."""
    return JobNotFound(f"job {to_text(job_id)}: unknown; it was never submitted here, or it was pruned", field="id")


def _discarded(job_id: JobId, job: Job | None, *, is_gone: bool) -> ActionResult:
    if job is None:
        return ActionResult(job_id, refusal=unknown_job(job_id))
    if is_gone:
        return ActionResult(job_id, Deed.DISCARDED)
    if job.state not in {State.DEAD, State.CANCELLED}:
        why = f"only a dead or cancelled job can be discarded; this one is {job.state}"
    else:
        why = "it is still needed: a job waits for it, or its idempotency key is still kept"
    return ActionResult(job_id, refusal=IllegalTransition(f"{job.name}: {why}"))


def _entry(by: Actor, action: str, jobs: Sequence[Job]) -> LedgerEntry:
    shown = [to_text(job.id) for job in jobs[:20]]
    detail = f"and {len(jobs) - len(shown)} more" if len(jobs) > len(shown) else ""
    return LedgerEntry(by.name, f"jobs.{action}", " ".join(shown), by.origin, detail, surface=by.surface)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for whichever comes first, and cancel the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
