"""A worker in small: it claims for its free slots, runs handlers, keeps leases, settles, and hands back at the end.

Three tasks beside the handlers: one fetches, one beats, one settles. What matters:

- **Its own time.** A lease is counted from the moment the claim was *sent*, on the monotonic clock, and only four
  fifths of it. A reply may be on its way for longer than the lease lasts; by then the job may have been given to
  somebody else, or cancelled. So whether the lease can still be good is asked in the very step in which the handler
  begins.
- **The same claim again.** When no answer to a claim came, it is repeated under the same claim id: whatever the first
  one took comes back, still counted from the first sending.
- **The beat** renews all that is held, running or waiting to be settled. What is missing from the answer is lost: the
  handler is stopped and nothing is settled. (A stubborn worker runs on and settles late, which must not matter.)
- **SIGTERM**: no more claims, handlers may finish for two thirds of the grace, the rest is handed back.
- **Dead in the middle** of any of this, it has held leases and nothing else; they run out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from rota.core.dependencies import takes_of
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed, WorkerId
from rota.core.outcome import Failed, Outcome, Released, Stopped, Suspended
from rota.core.settlement import JobError
from rota.core.submission import Takes
from rota.ports.client import AttemptReport
from rota.worker.inputs import with_input
from simulation.models.behaviour import Ending, input_in, result_of, step_of, waited_value, waits_of
from simulation.models.source import StoreSource
from simulation.models.stage import Stage

#: The part of a lease that a worker trusts: clocks differ, and starting a handler takes time.
MARGIN: Final = 0.8
LONGEST_POLL_SECONDS: Final = 9.0


@dataclass(frozen=True, slots=True)
class WorkerHabits:
    """What one worker is like."""

    slots: int
    queues: tuple[str, ...]
    types: tuple[str, ...] | None
    lease: timedelta
    #: Within which it means to be gone once it is asked to end. (The model goes by the grace it is given.)
    drain: timedelta
    poll_seconds: float
    #: Goes on with a job whose lease is lost, and settles it in vain.
    is_stubborn: bool


@dataclass(slots=True, eq=False)
class Held:
    """A job in this worker's hands, and until when it is sure of it."""

    job: Job
    sent_at: float
    sure_until: float
    nudged: asyncio.Event = field(default_factory=asyncio.Event)
    wish: Outcome | None = None
    is_done: bool = False

    def nudge(self, wish: Outcome | None) -> None:
        """Ask the handler to stop. No wish means that nobody wants to hear of it any more."""
        self.wish = wish
        self.nudged.set()


class WorkerModel:
    """One worker process."""

    def __init__(self, stage: Stage, habits: WorkerHabits, source: StoreSource) -> None:
        self._stage = stage
        self._source = source
        self._habits = habits
        self._held: dict[JobId, Held] = {}
        self._outbox: list[tuple[Held, Outcome]] = []
        self._mail = asyncio.Event()
        self._changed = asyncio.Event()
        self._lease_seconds = habits.lease.total_seconds()

    async def run(self) -> None:
        """Work until asked to stop, then come to an end within the grace."""
        helpers = [asyncio.create_task(self._beat(), name="beat"), asyncio.create_task(self._settle(), name="settle")]
        fetching = asyncio.create_task(self._fetch(), name="fetch")
        await self._stage.host.stopping.wait()
        self._changed.set()
        await self._drain(fetching, self._stage.host.exit_by)
        for task in (fetching, *helpers):
            task.cancel()

    # Fetching

    async def _fetch(self) -> None:
        stopping = self._stage.host.stopping
        pause = self._habits.poll_seconds
        while not stopping.is_set():
            free = self._habits.slots - len(self._held)
            taken = await self._claim(free) if free > 0 else 0
            # Asking for nothing again and again is slowed down; nobody here tells us that there is work.
            pause = self._habits.poll_seconds if taken else min(pause * 1.5, LONGEST_POLL_SECONDS)
            if not taken:
                await self._idle(pause)

    async def _idle(self, pause: float) -> None:
        """Wait for the next poll, or for something to change."""
        self._changed.clear()
        if not self._stage.host.stopping.is_set():
            waiting = pause * (0.5 + self._stage.rng.random())
            alarm = asyncio.get_running_loop().call_later(waiting, self._changed.set)
            await self._changed.wait()
            alarm.cancel()

    async def _claim(self, limit: int) -> int:
        stage, habits = self._stage, self._habits
        claim_id = f"{stage.host.boot}/{stage.rng.getrandbits(40):010x}"
        worker = WorkerId(stage.host.name, stage.host.boot)
        wanted = Claim(worker, limit, habits.queues, habits.types, habits.lease, claim_id)
        sent_at = stage.now()
        jobs = await stage.insist(lambda: self._source.claim(wanted), tries=3)
        await stage.reach("worker.claimed")
        for job in jobs or ():
            held = Held(job, sent_at, sent_at + self._lease_seconds * MARGIN)
            self._held[job.id] = held
            asyncio.create_task(self._run_job(held), name=f"job {job.id}")  # noqa: RUF006 - the process keeps its tasks
        return len(jobs or ())

    # Running

    async def _run_job(self, held: Held) -> None:
        """Run one handler, if we can still be sure of the lease in the very step that begins it."""
        outcome: Outcome | None = Released(started=False)
        refusal = None if takes_of(held.job) is Takes.NOTHING else await self._read_input(held)
        if refusal is not None:
            outcome = refusal
        elif self._stage.now() < held.sure_until and not self._stage.host.stopping.is_set():
            self._note("start", held, **input_in(held.job))
            outcome = await self._perform(held)
            came_to = "aborted" if outcome is None else type(outcome).__name__.lower()
            self._note("end", held, outcome=came_to, deaf=step_of(held.job).is_deaf)
            await self._stage.reach("worker.ended")
        if outcome is None:
            self._forget(held)
            return
        self._outbox.append((held, outcome))
        self._mail.set()

    async def _read_input(self, held: Held) -> Outcome | None:
        """Read what the job takes from others; if that cannot be, return with what the attempt ends."""
        job = held.job
        try:
            value = await self._stage.insist(lambda: self._source.input_of(job.id, job.fence), tries=4)
        except InvalidRequest as refusal:
            return Failed(JobError("InvalidRequest", str(refusal)), permanent=True)
        if value is None or held.nudged.is_set():
            return held.wish or Released(started=False)
        held.job = replace(held.job, payload=with_input(held.job.payload, value))
        return None

    async def _wait(self, held: Held) -> tuple[Outcome | None] | None:
        """Pass through the waits of the job; if one is not over, return with what the attempt ends."""
        for wait in waits_of(held.job):
            job = held.job
            begin = partial(self._source.begin_wait, job.id, job.fence, wait)
            step = await self._stage.insist(begin, tries=4)
            if held.nudged.is_set():
                return (held.wish,)
            if step is None or self._stage.now() > held.sure_until:
                return (Released(started=True),)
            if not step.is_done:
                return (Suspended(wait.key),)
            self._note("waited", held, key=wait.key, value=waited_value(wait, step.outcome))
        return None

    async def _perform(self, held: Held) -> Outcome | None:
        await self._stage.reach("worker.started")
        step = step_of(held.job)
        interrupted = await self._wait(held)
        if interrupted is not None:
            return interrupted[0]
        try:
            async with asyncio.timeout(step.seconds):
                await held.nudged.wait()
        except TimeoutError:
            if step.ending is Ending.CRASH and self._stage.can_poison:
                self._stage.poison()
                await asyncio.Event().wait()  # never: the process is dead
            return step.outcome(json.dumps(result_of(held.job)))
        return held.wish

    def _note(self, kind: str, held: Held, **more: object) -> None:
        host = self._stage.host
        self._stage.history.note(kind, host=host.name, boot=host.boot, job=held.job.id, fence=held.job.fence, **more)

    def _forget(self, held: Held) -> None:
        held.is_done = True
        if self._held.get(held.job.id) is held:
            del self._held[held.job.id]
        self._changed.set()

    # Keeping leases

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            if self._held:
                await self._renew(list(self._held.values()))

    async def _renew(self, held: Sequence[Held]) -> None:
        sent_at = self._stage.now()
        renewals = [Renewal(one.job.id, one.job.fence, self._habits.lease) for one in held]
        try:
            answers = await self._source.renew(renewals)
        except StoreUnavailable:
            return  # the next beat may get through; until then our own reckoning holds
        kept = {answer.job_id: answer for answer in answers}
        for one in held:
            if not one.is_done:
                self._hear(one, kept.get(one.job.id), sent_at)

    def _hear(self, held: Held, answer: Renewed | None, sent_at: float) -> None:
        if answer is None:
            if not self._habits.is_stubborn:
                held.nudge(None)
            return
        held.sure_until = sent_at + self._lease_seconds * MARGIN
        if answer.cancel and held.job.cancel_requested_at is None:
            held.job = replace(held.job, cancel_requested_at=answer.until)
            if not step_of(held.job).is_deaf:
                held.nudge(Stopped())

    # Settling

    async def _settle(self) -> None:
        """Settle whatever has ended since the last time, all at once, until an answer comes."""
        while True:
            await self._mail.wait()
            self._mail.clear()
            batch, self._outbox = self._outbox, []
            reports = [AttemptReport(held.job.id, held.job.fence, outcome) for held, outcome in batch]
            await self._stage.insist(lambda: self._source.settle(reports), tries=6)  # noqa: B023 - awaited here
            await self._stage.reach("worker.settled")
            for held, _ in batch:
                self._forget(held)

    # Ending

    async def _drain(self, fetching: asyncio.Task[None], deadline: float) -> None:
        """Let handlers finish, then take back what is left; leave when all is settled or the grace is over.

        A claim may be under way: what it brings must be handed back, so its answer is awaited, again and again.
        """
        now = self._stage.now()
        await asyncio.wait({fetching}, timeout=deadline - now)
        await self._until_empty(now + (deadline - now) * 2 / 3)
        for held in list(self._held.values()):
            held.nudge(Released(started=True))
        await self._until_empty(deadline - 0.1)

    async def _until_empty(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while self._held:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return
