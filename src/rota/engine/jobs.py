"""Job verbs over a store: submit, read, wait for the end, and operators' actions (cancel, retry, run now, discard)."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from rota.core.bulk import check_all, parents_of, representatives
from rota.core.decision import cancel, retry, run_now
from rota.core.errors import IllegalTransition, InvalidRequest, JobNotFound, QueueFull, StoreUnavailable, Unavailable
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, State
from rota.core.limit import refuse_keys
from rota.core.settlement import Settlement
from rota.core.submission import NewJob, unknown_parent
from rota.engine.deps import EngineDeps
from rota.ports.client import ActionResult, Actor, Deed
from rota.ports.store import AllCreated, Census, DeadGroup, Inserted, JobQuery, JobSlice, Receipt
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.events import Acted, CancelAsked, Event, JobsSettled, JobsSubmitted

#: How often a decision is repeated when the job changes meanwhile, and how often other ids are tried.
MOST_TRIES: Final = 10
#: How many submissions whose commit is unknown to remember, in case they are repeated.
MOST_UNCONFIRMED: Final = 10_000
#: How long `wait` goes without reading the job: at first, as a share of the time waited so far, and at most.
SHORTEST_PAUSE_SECONDS: Final = 0.02
PAUSE_SHARE: Final = 1 / 4
LONGEST_PAUSE_SECONDS: Final = 1.0

#: Compared by identity: hashing a member of an enumeration costs a call.
_CREATED: Final = Receipt.CREATED

Decision = Callable[[Job], Settlement | None]


class Jobs:
    """Submit, read, wait, cancel, retry, run now, discard."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._unconfirmed: OrderedDict[JobId, NewJob] = OrderedDict()

    async def submit(self, jobs: Sequence[NewJob], *, entry: LedgerEntry | None = None) -> Sequence[Inserted]:
        """Store jobs; they are on stable storage when this returns, with the ledger's `entry` if there is one."""
        check_all(jobs)
        deps, made = self._deps, jobs
        if not deps.store.supports_limits:
            refuse_keys(representatives(jobs))
        # A single job without parents, as most are, needs no look for parents.
        if (len(jobs) != 1 or jobs[0].after) and (missing := await self.unknown_parents(jobs)):
            raise unknown_parent(min(missing))
        begun = time.perf_counter()
        try:
            answers = await deps.store.insert(jobs, bound=deps.queue_bound, entry=entry)
        except Unavailable:
            self._note_unconfirmed(jobs)
            raise
        if self._unconfirmed or not _are_created(answers):
            answers = list(answers)
            await self._recognise(jobs, answers)
            await self._take_other_ids(jobs, answers, entry)
            made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
        if made:
            if deps.telemetry.has_listeners:
                deps.telemetry.emit(JobsSubmitted(made, time.perf_counter() - begun))
            if deps.broker.has_subscribers:
                await deps.broker.announce(_topics(made))
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
            found = {job.id: job for job in await self._deps.store.get(list(repeated.values()))}
            for place, job_id in repeated.items():
                if job_id in found:
                    answers[place] = Inserted(job_id, Receipt.REPLAYED, found[job_id].state)
        for job in jobs:
            self._unconfirmed.pop(job.id, None)

    async def _take_other_ids(self, jobs: Sequence[NewJob], answers: list[Inserted], entry: LedgerEntry | None) -> None:
        """Submit jobs whose ids belong to jobs of other processes again, under new ids."""
        for _ in range(MOST_TRIES):
            taken = [place for place, answer in enumerate(answers) if answer.receipt is Receipt.ID_TAKEN]
            if not taken:
                return
            again = [replace(jobs[place], id=self._deps.fresh_id()) for place in taken]
            try:
                found = await self._deps.store.insert(again, bound=self._deps.queue_bound, entry=entry)
            except Unavailable:
                self._note_unconfirmed(again)
                raise
            for place, answer in zip(taken, found, strict=True):
                answers[place] = answer
        raise StoreUnavailable("no free id was found; is this host's clock far behind the others'?")

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self._deps.store.get(ids)

    async def one(self, job_id: JobId) -> Job:
        """Return a job; raise `JobNotFound` if there is none of this id."""
        found = await self._deps.store.get([job_id])
        if not found:
            raise unknown_job(job_id)
        return found[0]

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await self._deps.store.find(query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        return await self._deps.store.find_some(query)

    async def census(self) -> Census:
        return await self._deps.store.census()

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

    async def discard(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        """Delete dead and cancelled jobs."""
        found = {job.id: job for job in await self._deps.store.get(ids)}
        entry = _entry(by, "discard", list(found.values()))
        deleted = set(await self._deps.store.discard(list(found), entry=entry))
        if deleted:
            self._deps.telemetry.emit(Acted(entry))
        return [_discarded(job_id, found.get(job_id), is_gone=job_id in deleted) for job_id in ids]

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        return await self._deps.store.dead_groups(limit)

    async def _act(
        self, ids: Sequence[JobId], by: Actor, action: str, decision: Decision, deed: Deed
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
        self, ids: Sequence[JobId], by: Actor, action: str, decision: Decision, deed: Deed
    ) -> dict[JobId, ActionResult]:
        found = {job.id: job for job in await self._deps.store.get(ids)}
        answers = {job_id: ActionResult(job_id, refusal=unknown_job(job_id)) for job_id in ids if job_id not in found}
        settlements: list[Settlement] = []
        running: list[Job] = []
        for job in found.values():
            try:
                settlement = decision(job)
            except InvalidRequest as refusal:
                answers[job.id] = ActionResult(job.id, refusal=refusal)
                continue
            if settlement is None:
                running.append(job)
            else:
                settlements.append(settlement)
        for job_id in await self._write([found[one.job_id] for one in settlements], settlements, by, action):
            answers[job_id] = ActionResult(job_id, deed)
        for job_id in await self._ask(running, by, action):
            answers[job_id] = ActionResult(job_id, Deed.ASKED_TO_STOP)
        return answers

    async def _write(
        self, jobs: Sequence[Job], settlements: Sequence[Settlement], by: Actor, action: str
    ) -> Sequence[JobId]:
        if not settlements:
            return ()
        entry = _entry(by, action, jobs)
        begun = time.perf_counter()
        applied = set(await self._deps.store.settle(settlements, entry=entry))
        pairs = [(job, one) for job, one in zip(jobs, settlements, strict=True) if one.job_id in applied]
        if pairs:
            settled = JobsSettled([job for job, _ in pairs], [one for _, one in pairs], time.perf_counter() - begun)
            self._deps.telemetry.emit(settled)
            self._deps.telemetry.emit(Acted(entry))
            queues = {job.queue for job, one in pairs if one.target is State.PENDING}
            await self._deps.broker.announce({*queues, TIMETABLE})
        return tuple(applied)

    async def _ask(self, jobs: Sequence[Job], by: Actor, action: str) -> Sequence[JobId]:
        if not jobs:
            return ()
        entry = _entry(by, action, jobs)
        asked = set(await self._deps.store.ask_cancel([(job.id, job.fence) for job in jobs], entry=entry))
        if asked:
            self._deps.telemetry.emit(CancelAsked([job for job in jobs if job.id in asked]))
            self._deps.telemetry.emit(Acted(entry))
        return tuple(asked)


def _are_created(answers: Sequence[Inserted]) -> bool:
    if type(answers) is AllCreated:
        return True
    # Not with `all`: most callers submit one job, and the generator would cost more than the rest.
    for answer in answers:  # noqa: SIM110
        if answer.receipt is not _CREATED:
            return False
    return True


def _topics(jobs: Sequence[NewJob]) -> set[str]:
    """Return the wake-up topics of new jobs."""
    # A time in the past counts too: the store's clock decides what it means.
    pairs = {(job.queue, job.run_at is not None or job.expires_at is not None) for job in representatives(jobs)}
    queues = {queue for queue, _ in pairs}
    return {*queues, TIMETABLE} if any(has_time for _, has_time in pairs) else queues


def full(queue: str) -> QueueFull:
    """Make the error for a queue that has reached its bound."""
    return QueueFull(f"queue {queue!r} is full: as many jobs wait in it as may")


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
    return LedgerEntry(actor=by.name, action=f"jobs.{action}", target=" ".join(shown), origin=by.origin, detail=detail)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for whichever comes first, and cancel the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
