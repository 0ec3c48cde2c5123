"""A load that uses a store the way its clients do, and records its requests and the answers.

Single submits by many tasks at once, batches, idempotency keys that come again and again, workflows, claims that are
settled, abandoned, reaped or repeated, steps, a schedule, operators' acts, pruning. Every choice is drawn from one
seed. Several loads may share a database, one after the other or at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, TypeVar

from crash.acknowledgements import AGAIN, Line
from rota.core.decision import DecisionInputs, cancel, decide
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, WorkerId
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Succeeded
from rota.core.retry import Backoff, Growth
from rota.core.schedule import CatchUp, Fate, Schedule, plan
from rota.core.settlement import JobError, Settlement
from rota.core.submission import Dependency, IdempotencyKey, NewJob, Template, request_hash
from rota.core.time import to_micros
from rota.ports.store import JobQuery, Retention, Store

Note = Callable[[Line], None]
Answer = TypeVar("Answer")

#: Long past, so that what is fired is due at once.
FIRST_FIRE: Final = datetime(2020, 1, 1, tzinfo=UTC)
SCHEDULE_ID: Final = ScheduleId(1)
TYPES: Final = ("plain", "heir", "report")
LEASE: Final = timedelta(milliseconds=200)
MOMENT: Final = timedelta(milliseconds=5)
_BACKOFF: Final = Backoff(growth=Growth.CONSTANT, base=MOMENT, cap=MOMENT)
_RETENTION: Final = Retention(completed=timedelta(milliseconds=100), cancelled=None, dead=None, history=None)
#: How many jobs one start of one writer can number, and how many writers one generation can have.
_NUMBER_BITS: Final = 20
_WRITER_BITS: Final = 6


@dataclass(frozen=True, slots=True)
class Identity:
    """Which writer this is, and how often it has been started: nothing it makes may look like another's."""

    number: int
    generation: int

    @property
    def name(self) -> str:
        return f"writer-{self.number}-{self.generation}"

    @property
    def first_id(self) -> int:
        """Ids of later generations are greater, as the product's are."""
        return ((self.generation + 1) << _WRITER_BITS | self.number) << _NUMBER_BITS


class TickingClock:
    """A clock that moves a little at every read, so that leases lapse without waiting."""

    def __init__(self) -> None:
        self._moment = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self._moment += timedelta(milliseconds=5)
        return self._moment


@dataclass(slots=True)
class Workload:
    """Works on a store. `note` is called before and after every verb."""

    store: Store
    identity: Identity
    note: Note
    rng: random.Random
    #: By which the load decides; the store has its own.
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    #: From how many idempotency keys the load draws: with few, they come again soon.
    keys: int = 3000
    #: Refusals are part of the plan; without this they are errors.
    may_fail: bool = False
    failures: list[StoreUnavailable] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def fresh_id(self) -> JobId:
        return JobId(self.identity.first_id + next(self.numbers))

    async def settle_in(self, unanswered: Sequence[str] = ()) -> None:
        """Make sure that the schedule is there, and repeat the claims whose answers an earlier start never got."""
        await self.make_schedule()
        for claim_id in unanswered:
            worker = WorkerId(self.identity.name, AGAIN + claim_id)
            await self._claim(Claim(worker, 5, claim_id=claim_id, lease=LEASE, types=TYPES))

    async def run(self, tasks: int, is_over: Callable[[], bool]) -> None:
        """Do this and that in many tasks at once until it is over."""
        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(self._go_on(is_over))

    async def _go_on(self, is_over: Callable[[], bool]) -> None:
        verbs = list(_SHARES)
        shares = list(_SHARES.values())
        while not is_over():
            (verb,) = self.rng.choices(verbs, shares)
            await verb(self)

    async def submit(self) -> None:
        await self.insert([self._job()])

    async def submit_keyed(self) -> None:
        await self.insert([self._keyed_job()])

    async def submit_batch(self) -> None:
        size = self.rng.randint(2, 40)
        await self.insert([self._job() if self.rng.random() < 0.8 else self._keyed_job() for _ in range(size)])

    async def submit_workflow(self) -> None:
        """Submit a job with an heir, and another that waits for it."""
        parent = self._job(on_success=Template("heir", backoff=_BACKOFF), tags=("workflow",))
        await self.insert([parent, self._job(after=(Dependency(parent.id),))])

    async def insert(self, jobs: list[NewJob]) -> None:
        self.note(["try", "insert", [job.id for job in jobs]])
        began = time.monotonic()
        answers = await self._call(self.store.insert(jobs))
        if answers is not None:
            keys = [None if job.idempotency is None else job.idempotency.key for job in jobs]
            answer = [[key, one.receipt.value, one.job_id] for key, one in zip(keys, answers, strict=True)]
            self._tell(began, "insert", answer)

    async def work(self) -> None:
        """Claim a few jobs and settle them one way or another, or not at all."""
        claim_id = f"{self.identity.name}-{next(self.numbers)}"
        worker = WorkerId(self.identity.name, claim_id)
        jobs = await self._claim(Claim(worker, self.rng.randint(1, 10), claim_id=claim_id, lease=LEASE, types=TYPES))
        for job in jobs:
            if self.rng.random() < 0.1:
                await self._step(job)
        kept = [job for job in jobs if self.rng.random() < 0.9]
        if kept and self.rng.random() < 0.5:
            await self.settle([self._decided(job, self._outcome()) for job in kept])
        else:
            await asyncio.gather(*(self.settle([self._decided(job, self._outcome())]) for job in kept))

    async def _claim(self, claim: Claim) -> Sequence[Job]:
        self.note(["try", "claim", claim.claim_id])
        began = time.monotonic()
        jobs = await self._call(self.store.claim(claim))
        if jobs is None:
            return []
        self._tell(began, "claim", claim.claim_id, [[job.id, job.fence] for job in jobs])
        return jobs

    async def settle(self, settlements: list[Settlement]) -> None:
        answer = [
            [one.job_id, one.fence, one.target.value, None if one.follow_up is None else one.follow_up.id]
            for one in settlements
        ]
        self.note(["try", "settle", answer])
        began = time.monotonic()
        applied = await self._call(self.store.settle(settlements))
        if applied is not None:
            self._tell(began, "settle", [one for one in answer if one[0] in set(applied)])

    async def reap(self) -> None:
        """Take the jobs whose worker has gone silent away from it."""
        jobs = await self._call(self.store.lost(20))
        if jobs:
            await self.settle([self._decided(job, Lost()) for job in jobs])

    async def cancel(self) -> None:
        """Cancel a few waiting jobs, as an operator does."""
        jobs = await self._call(self.store.find(JobQuery(states=(State.PENDING, State.BLOCKED), limit=2)))
        settlements = [one for one in map(cancel, jobs or ()) if one is not None]
        if settlements:
            await self.settle(settlements)

    async def renew(self) -> None:
        jobs = await self._call(self.store.find(JobQuery(states=(State.RUNNING,), limit=5)))
        await self._call(self.store.renew([Renewal(job.id, job.fence, MOMENT, progress="0.5") for job in jobs or ()]))

    async def promote(self) -> None:
        await self._call(self.store.promote(50))

    async def fire(self) -> None:
        """Fire the schedule for the next few of its fire times, or lose against another that does."""
        found = await self._call(self.store.schedules(ids=[SCHEDULE_ID]))
        if not found or found[0].next_fire_at is None:
            return
        (schedule,) = found
        assert schedule.next_fire_at is not None
        now = schedule.next_fire_at + timedelta(minutes=self.rng.randint(0, 3))
        firing = plan(schedule, now, previous_is_active=False, fresh_id=self.fresh_id)
        self.note(["try", "fire", [job.id for job in firing.jobs]])
        began = time.monotonic()
        made = await self._call(self.store.fire([firing], now=now))
        if made is not None:
            fired = [one for one in firing.occurrences if one.fate is Fate.FIRED and one.job_id in set(made)]
            self._tell(began, "fire", schedule.id, [[to_micros(one.fire_time), one.job_id] for one in fired])

    async def prune(self) -> None:
        began = time.monotonic()
        pruned = await self._call(self.store.prune(_RETENTION, 30))
        if pruned is not None:
            self._tell(began, "prune", pruned)

    async def lead(self) -> None:
        began = time.monotonic()
        leadership = await self._call(self.store.lead("scheduler", self.identity.name, MOMENT))
        if leadership is not None:
            self._tell(began, "lead", leadership.name, leadership.term)

    async def record(self) -> None:
        detail = f"{self.identity.name}-{next(self.numbers)}"
        began = time.monotonic()
        if await self._call(_true(self.store.record([LedgerEntry("olga", "look", "queue", detail=detail)]))):
            self._tell(began, "record", detail)

    async def look(self) -> None:
        """Read in several ways: a read must never be refused."""
        began = time.monotonic()
        reading: Awaitable[object] = self.rng.choice([self._census, self._newest, self._due, self._watch])()
        if await self._call(_true(reading)):
            self._tell(began, "look")

    async def make_schedule(self) -> None:
        schedule = Schedule(
            id=SCHEDULE_ID,
            name="every-minute",
            rule="@every 1m",
            template=Template("report", backoff=_BACKOFF),
            created_at=FIRST_FIRE,
            updated_at=FIRST_FIRE,
            catch_up=CatchUp.ALL,
            next_fire_at=FIRST_FIRE,
        )
        await self._call(self.store.put_schedules([schedule]))

    async def _step(self, job: Job) -> None:
        key = f"step-{self.rng.randint(1, 3)}"
        began = time.monotonic()
        intended = await self._call(self.store.intend(job.id, job.fence, key))
        if intended is None:
            return
        self._tell(began, "step", job.id, key, intended[0].outcome)
        began = time.monotonic()
        ended = await self._call(self.store.conclude(job.id, job.fence, key, f"by {self.identity.name}"))
        if ended is not None:
            self._tell(began, "step", job.id, key, ended.outcome)

    def _job(
        self,
        *,
        on_success: Template | None = None,
        tags: tuple[str, ...] = (),
        after: tuple[Dependency, ...] = (),
        idempotency: IdempotencyKey | None = None,
    ) -> NewJob:
        is_later = self.rng.random() < 0.1
        return NewJob(
            id=self.fresh_id(),
            type="plain",
            payload='"' + "x" * self.rng.randint(0, 400) + '"',
            run_at=self.clock() + MOMENT if is_later else None,
            backoff=_BACKOFF,
            on_success=on_success,
            tags=tags,
            after=after,
            idempotency=idempotency,
        )

    def _keyed_job(self) -> NewJob:
        key = f"key-{self.rng.randrange(self.keys)}"
        is_other = self.rng.random() < 0.05
        body = b"another body" if is_other else key.encode()
        return self._job(idempotency=IdempotencyKey(key, request_hash(body)))

    def _outcome(self) -> Outcome:
        outcomes: list[Outcome] = [
            Succeeded('"done"'),
            Failed(JobError("OSError", "connection refused")),
            Failed(JobError("ValueError", "no such user"), permanent=True),
            Snoozed(MOMENT),
            Released(),
        ]
        return self.rng.choices(outcomes, [80, 8, 4, 4, 4])[0]

    def _decided(self, job: Job, outcome: Outcome) -> Settlement:
        return decide(
            job, outcome, DecisionInputs(now=self.clock(), rng=self.rng.random(), follow_up_id=self.fresh_id())
        )

    async def _census(self) -> object:
        return await self.store.census()

    async def _newest(self) -> object:
        return await self.store.find(JobQuery(limit=10))

    async def _due(self) -> object:
        return (await self.store.timetable()).first

    async def _watch(self) -> object:
        return await self.store.watch(timedelta(milliseconds=1))

    def _tell(self, began: float, verb: str, *facts: object) -> None:
        milliseconds = round((time.monotonic() - began) * 1000, 1)
        self.note(["ok", milliseconds, verb, *facts])

    async def _call(self, answer: Awaitable[Answer]) -> Answer | None:
        """Wait for an answer; None stands for a refusal where refusals are expected."""
        try:
            return await answer
        except StoreUnavailable as error:
            if not self.may_fail:
                raise
            self.failures.append(error)
            return None


async def _true(answer: Awaitable[object]) -> bool:
    """Distinguish a verb that returns nothing from one that did not answer."""
    await answer
    return True


Verb = Callable[[Workload], Awaitable[None]]

_SHARES: Final[dict[Verb, int]] = {
    Workload.submit: 30,
    Workload.submit_keyed: 15,
    Workload.submit_batch: 8,
    Workload.submit_workflow: 6,
    Workload.work: 30,
    Workload.reap: 4,
    Workload.cancel: 2,
    Workload.renew: 1,
    Workload.promote: 4,
    Workload.fire: 5,
    Workload.prune: 3,
    Workload.lead: 2,
    Workload.record: 2,
    Workload.look: 5,
}
