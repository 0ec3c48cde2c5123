"""What everyone else asks for: to submit jobs, look at them, and have something done about them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from rota.core.alike import check_all, kinds_of, parents_of
from rota.core.decision import cancel, expire, retry, run_now
from rota.core.errors import IllegalTransition, InvalidRequest, JobNotFound, QueueFull, StoreUnavailable, Unavailable
from rota.core.identity import JobId, to_text
from rota.core.job import Job
from rota.core.ledger import Entry
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Settlement
from rota.core.submission import NewJob, unknown_parent
from rota.engine.parts import Parts
from rota.engine.work import Work
from rota.ports.faces import Actor, Answer, Deed
from rota.ports.places import TIMETABLE
from rota.ports.store import AllCreated, Census, DeadGroup, Inserted, JobQuery, JobSlice, Receipt
from rota.telemetry.events import Acted, CancelAsked, Event, JobsSettled, JobsSubmitted

#: How often to look again when a job moves while we decide about it.
ROUNDS: Final = 10
#: How many submissions without an answer to remember, in case they come again.
DOUBTED: Final = 10_000
#: How long a wait for the end of a job goes without a look: at first, as a share of how long it lasts, and at most.
SHORTEST_UNSEEN_SECONDS: Final = 0.02
UNSEEN_SHARE: Final = 1 / 4
LONGEST_UNSEEN_SECONDS: Final = 1.0

#: Compared by identity: to hash a member of an enumeration costs a call.
_CREATED: Final = Receipt.CREATED

Decision = Callable[[Job], Settlement | None]


class Jobs:
    """Submit, look, cancel, retry, run now."""

    def __init__(self, parts: Parts, work: Work) -> None:
        self._parts = parts
        self._work = work
        self._doubted: OrderedDict[JobId, NewJob] = OrderedDict()

    async def submit(self, jobs: Sequence[NewJob], *, entry: Entry | None = None) -> Sequence[Inserted]:
        """Store jobs; they are on stable storage when this returns, and with them `entry` if an operator asked."""
        check_all(jobs)
        parts, made = self._parts, jobs
        # One job by itself first: that costs nothing, and most come so.
        if (len(jobs) != 1 or jobs[0].after) and (missing := await self.unknown_parents(jobs)):
            raise unknown_parent(min(missing))
        begun = time.perf_counter()
        try:
            answers = await parts.store.insert(jobs, bound=parts.queue_bound, entry=entry)
        except Unavailable:
            self._doubt(jobs)
            raise
        if self._doubted or not _are_created(answers):
            answers = list(answers)
            await self._recognise(jobs, answers)
            await self._take_other_ids(jobs, answers, entry)
            made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
        if made:
            if parts.telemetry.is_heard:
                parts.telemetry.emit(JobsSubmitted(made, time.perf_counter() - begun))
            if parts.broker.is_attended:
                await parts.broker.announce(_places(made))
        return answers

    async def unknown_parents(self, jobs: Sequence[NewJob]) -> set[JobId]:
        """Give the ids that jobs are to wait for and that no job has: such a job would be cancelled at once."""
        parents = parents_of(jobs)
        if parents:
            parents -= {job.id for job in await self._parts.store.get(sorted(parents))}
        return parents

    def _doubt(self, jobs: Sequence[NewJob]) -> None:
        """Remember what may have been stored although no answer came."""
        self._doubted.update((job.id, job) for job in jobs)
        while len(self._doubted) > DOUBTED:
            self._doubted.popitem(last=False)

    async def _recognise(self, jobs: Sequence[NewJob], answers: list[Inserted]) -> None:
        """Answer a submission that is repeated because no answer came with the job that its first time made.

        Without this it would meet its own id, take it for another's, and make a second job.
        """
        met = {
            place: jobs[place].id
            for place, answer in enumerate(answers)
            if answer.receipt is Receipt.ID_TAKEN and self._doubted.get(jobs[place].id) == jobs[place]
        }
        if met:
            found = {job.id: job for job in await self._parts.store.get(list(met.values()))}
            for place, job_id in met.items():
                if job_id in found:
                    answers[place] = Inserted(job_id, Receipt.REPLAYED, found[job_id].state)
        for job in jobs:
            self._doubted.pop(job.id, None)

    async def _take_other_ids(self, jobs: Sequence[NewJob], answers: list[Inserted], entry: Entry | None) -> None:
        """Submit again, under new ids, what met another process's job of the same id."""
        for _ in range(ROUNDS):
            taken = [place for place, answer in enumerate(answers) if answer.receipt is Receipt.ID_TAKEN]
            if not taken:
                return
            again = [replace(jobs[place], id=self._parts.fresh_id()) for place in taken]
            try:
                found = await self._parts.store.insert(again, bound=self._parts.queue_bound, entry=entry)
            except Unavailable:
                self._doubt(again)
                raise
            for place, answer in zip(taken, found, strict=True):
                answers[place] = answer
        raise StoreUnavailable("no free id was found; is this host's clock far behind the others'?")

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Look at jobs."""
        return await self._parts.store.get(ids)

    async def one(self, job_id: JobId) -> Job:
        """Look at a job that must be there."""
        found = await self._parts.store.get([job_id])
        if not found:
            raise unknown(job_id)
        return found[0]

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Look for jobs."""
        return await self._parts.store.find(query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        """Look for jobs with bounded work; there may be more."""
        return await self._parts.store.find_some(query)

    async def census(self) -> Census:
        """Count the jobs."""
        return await self._parts.store.census()

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        """Wait until a job has ended, at most for a while, and give it as it is then.

        That it ended in another process is told by no store on a server: so we look, too.
        """
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        give_up_at = begun + at_most.total_seconds()

        def listen(event: Event) -> None:
            if isinstance(event, JobsSettled) and any(one.job_id == job_id for one in event.settlements):
                ended.set()

        leave = self._parts.telemetry.listen(listen)
        try:
            with self._parts.broker.attend((TIMETABLE,)) as attendance:
                while True:
                    job = await self.one(job_id)
                    left = give_up_at - loop.time()
                    if job.state in FINISHED or left <= 0:
                        return job
                    unseen = max((loop.time() - begun) * UNSEEN_SHARE, SHORTEST_UNSEEN_SECONDS)
                    pause = timedelta(seconds=min(left, unseen, LONGEST_UNSEEN_SECONDS))
                    await _first(ended.wait(), attendance.wait(pause))
                    ended.clear()
        finally:
            leave()

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Cancel jobs, or ask running ones to stop."""
        return await self._act(ids, by, "cancel", cancel, Deed.CANCELLED)

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Run finished jobs again, and those that wait for their time at once."""
        now = await self._parts.store.time()
        return await self._act(ids, by, "retry", lambda job: retry(job, now), Deed.RETRIED)

    async def run_now(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Start jobs that wait for their time at once."""
        now = await self._parts.store.time()
        return await self._act(ids, by, "run_now", lambda job: run_now(job, now), Deed.STARTED)

    async def discard(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Delete dead and cancelled jobs for good."""
        found = {job.id: job for job in await self._parts.store.get(ids)}
        entry = _entry(by, "discard", list(found.values()))
        deleted = set(await self._parts.store.discard(list(found), entry=entry))
        if deleted:
            self._parts.telemetry.emit(Acted(entry))
        return [_discarded(job_id, found.get(job_id), is_gone=job_id in deleted) for job_id in ids]

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        """Look at the causes that jobs have died of."""
        return await self._parts.store.dead_groups(limit)

    async def expire(self, limit: int) -> int:
        """End waiting jobs whose time to start has passed."""
        jobs = await self._parts.store.expired(limit)
        await self._work.write_back(jobs, [expire(job) for job in jobs])
        return len(jobs)

    async def _act(
        self, ids: Sequence[JobId], by: Actor, action: str, decision: Decision, deed: Deed
    ) -> Sequence[Answer]:
        """Decide about jobs and write it down; look again at those that moved meanwhile."""
        answers: dict[JobId, Answer] = {}
        for _ in range(ROUNDS):
            open_ids = [job_id for job_id in dict.fromkeys(ids) if job_id not in answers]
            if not open_ids:
                break
            answers |= await self._act_once(open_ids, by, action, decision, deed)
        unsettled = IllegalTransition("the job keeps changing; try again")
        return [answers.get(job_id, Answer(job_id, refusal=unsettled)) for job_id in ids]

    async def _act_once(
        self, ids: Sequence[JobId], by: Actor, action: str, decision: Decision, deed: Deed
    ) -> dict[JobId, Answer]:
        found = {job.id: job for job in await self._parts.store.get(ids)}
        answers = {job_id: Answer(job_id, refusal=unknown(job_id)) for job_id in ids if job_id not in found}
        settlements: list[Settlement] = []
        running: list[Job] = []
        for job in found.values():
            try:
                settlement = decision(job)
            except InvalidRequest as refusal:
                answers[job.id] = Answer(job.id, refusal=refusal)
                continue
            if settlement is None:
                running.append(job)
            else:
                settlements.append(settlement)
        for job_id in await self._write([found[one.job_id] for one in settlements], settlements, by, action):
            answers[job_id] = Answer(job_id, deed)
        for job_id in await self._ask(running, by, action):
            answers[job_id] = Answer(job_id, Deed.ASKED_TO_STOP)
        return answers

    async def _write(
        self, jobs: Sequence[Job], settlements: Sequence[Settlement], by: Actor, action: str
    ) -> Sequence[JobId]:
        if not settlements:
            return ()
        entry = _entry(by, action, jobs)
        begun = time.perf_counter()
        applied = set(await self._parts.store.settle(settlements, entry=entry))
        pairs = [(job, one) for job, one in zip(jobs, settlements, strict=True) if one.job_id in applied]
        if pairs:
            told = JobsSettled([job for job, _ in pairs], [one for _, one in pairs], time.perf_counter() - begun)
            self._parts.telemetry.emit(told)
            self._parts.telemetry.emit(Acted(entry))
            queues = {job.queue for job, one in pairs if one.target is State.PENDING}
            await self._parts.broker.announce({*queues, TIMETABLE})
        return tuple(applied)

    async def _ask(self, jobs: Sequence[Job], by: Actor, action: str) -> Sequence[JobId]:
        if not jobs:
            return ()
        entry = _entry(by, action, jobs)
        asked = set(await self._parts.store.ask_cancel([(job.id, job.fence) for job in jobs], entry=entry))
        if asked:
            self._parts.telemetry.emit(CancelAsked([job for job in jobs if job.id in asked]))
            self._parts.telemetry.emit(Acted(entry))
        return tuple(asked)


def _are_created(answers: Sequence[Inserted]) -> bool:
    if type(answers) is AllCreated:
        return True
    # Not by `all`: for the one job that most callers bring, its generator costs more than the rest.
    for answer in answers:  # noqa: SIM110
        if answer.receipt is not _CREATED:
            return False
    return True


def _places(jobs: Sequence[NewJob]) -> set[str]:
    """Say who is to hear of new jobs."""
    # A time in the past is a time too; the store's clock decides what it means.
    found = {(job.queue, job.run_at is not None or job.expires_at is not None) for job in kinds_of(jobs)}
    places = {queue for queue, _ in found}
    return {*places, TIMETABLE} if any(has_time for _, has_time in found) else places


def full(queue: str) -> QueueFull:
    """Say that a queue takes no more."""
    return QueueFull(f"queue {queue!r} is full: as many jobs wait in it as may")


def unknown(job_id: JobId) -> JobNotFound:
    """Say that there is no such job."""
    return JobNotFound(f"job {to_text(job_id)}: unknown; it was never submitted here, or it was pruned", field="id")


def _discarded(job_id: JobId, job: Job | None, *, is_gone: bool) -> Answer:
    if job is None:
        return Answer(job_id, refusal=unknown(job_id))
    if is_gone:
        return Answer(job_id, Deed.DISCARDED)
    if job.state not in {State.DEAD, State.CANCELLED}:
        why = f"only a dead or cancelled job can be discarded; this one is {job.state}"
    else:
        why = "it is still needed: a job waits for it, or its idempotency key is still kept"
    return Answer(job_id, refusal=IllegalTransition(f"{job.name}: {why}"))


def _entry(by: Actor, action: str, jobs: Sequence[Job]) -> Entry:
    shown = [to_text(job.id) for job in jobs[:20]]
    detail = f"and {len(jobs) - len(shown)} more" if len(jobs) > len(shown) else ""
    return Entry(actor=by.name, action=f"jobs.{action}", target=" ".join(shown), origin=by.origin, detail=detail)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for whichever comes first, and leave the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
