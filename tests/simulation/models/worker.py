"""Model of a worker: it claims for its free slots, runs handlers, renews leases, settles, and releases at the end.

Three tasks beside the handlers: one fetches, one beats, one settles. What matters:

- **Its own time.** A lease is counted from the moment the claim was *sent*, on the monotonic clock, and only four
  fifths of it. A reply may take longer than the lease lasts; by then the job may have been leased to another worker,
  or cancelled. So whether the lease can still be good is asked in the very step in which the handler
  begins.
- **The same claim again.** When no answer to a claim came, it is repeated under the same claim id: whatever the first
  one took comes back, still counted from the first sending.
- **The beat** renews all that is held, running or waiting to be settled. What is missing from the answer is lost: the
  handler is stopped and nothing is settled. (Some workers run on and settle late, which must not matter.)
- **SIGTERM**: no more claims, handlers may finish for two thirds of the grace, the rest is handed back.
- **A crash** at any moment leaves leases and nothing else; they lapse.
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
from simulation.models.environment import Environment
from simulation.models.scripts import Ending, input_in, result_of, step_of, waited_value, waits_of
from simulation.models.source import StoreSource

#: The part of a lease that a worker trusts: clocks differ, and starting a handler takes time.
MARGIN: Final = 0.8
LONGEST_POLL_SECONDS: Final = 9.0


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of one worker."""

    slots: int
    queues: tuple[str, ...]
    types: tuple[str, ...] | None
    lease: timedelta
    #: Its drain timeout. (The model goes by the grace of the SIGTERM.)
    drain: timedelta
    poll_seconds: float
    #: Goes on with a job whose lease is lost, and reports its outcome late.
    settles_late: bool


@dataclass(slots=True, eq=False)
class Held:
    """A job that this worker holds, and until when the lease is certain."""

    job: Job
    sent_at: float
    sure_until: float
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: Outcome | None = None
    is_done: bool = False

    def interrupt(self, outcome: Outcome | None) -> None:
        """Ask the handler to stop. Without an outcome nothing is reported."""
        self.outcome = outcome
        self.interrupted.set()


class WorkerModel:
    """One worker process."""

    def __init__(self, environment: Environment, config: WorkerConfig, source: StoreSource) -> None:
        self._environment = environment
        self._source = source
        self._config = config
        self._held: dict[JobId, Held] = {}
        self._unsent: list[tuple[Held, Outcome]] = []
        self._has_reports = asyncio.Event()
        self._changed = asyncio.Event()
        self._lease_seconds = config.lease.total_seconds()

    async def run(self) -> None:
        """Work until asked to stop, then come to an end within the grace."""
        helpers = [asyncio.create_task(self._beat(), name="beat"), asyncio.create_task(self._settle(), name="settle")]
        fetching = asyncio.create_task(self._fetch(), name="fetch")
        await self._environment.host.stopping.wait()
        self._changed.set()
        await self._drain(fetching, self._environment.host.exit_by)
        for task in (fetching, *helpers):
            task.cancel()

    # Fetching

    async def _fetch(self) -> None:
        stopping = self._environment.host.stopping
        pause = self._config.poll_seconds
        while not stopping.is_set():
            free = self._config.slots - len(self._held)
            taken = await self._claim(free) if free > 0 else 0
            # Empty claims are slowed down, since the model gets no wake-ups.
            pause = self._config.poll_seconds if taken else min(pause * 1.5, LONGEST_POLL_SECONDS)
            if not taken:
                await self._idle(pause)

    async def _idle(self, pause: float) -> None:
        """Wait for the next poll, or for something to change."""
        self._changed.clear()
        if not self._environment.host.stopping.is_set():
            waiting = pause * (0.5 + self._environment.rng.random())
            alarm = asyncio.get_running_loop().call_later(waiting, self._changed.set)
            await self._changed.wait()
            alarm.cancel()

    async def _claim(self, limit: int) -> int:
        environment, config = self._environment, self._config
        claim_id = f"{environment.host.boot}/{environment.rng.getrandbits(40):010x}"
        worker = WorkerId(environment.host.name, environment.host.boot)
        wanted = Claim(worker, limit, config.queues, config.types, config.lease, claim_id)
        sent_at = environment.now()
        jobs = await environment.call_repeatedly(lambda: self._source.claim(wanted), tries=3)
        await environment.failpoint("worker.claimed")
        for job in jobs or ():
            held = Held(job, sent_at, sent_at + self._lease_seconds * MARGIN)
            self._held[job.id] = held
            asyncio.create_task(self._run_job(held), name=f"job {job.id}")  # noqa: RUF006 - the process keeps its tasks
        return len(jobs or ())

    # Running

    async def _run_job(self, held: Held) -> None:
        """Run one handler, if the lease is still certain in the very step that begins it."""
        outcome: Outcome | None = Released(started=False)
        refusal = None if takes_of(held.job) is Takes.NOTHING else await self._read_input(held)
        if refusal is not None:
            outcome = refusal
        elif self._environment.now() < held.sure_until and not self._environment.host.stopping.is_set():
            self._note("start", held, **input_in(held.job))
            outcome = await self._perform(held)
            came_to = "aborted" if outcome is None else type(outcome).__name__.lower()
            self._note("end", held, outcome=came_to, deaf=step_of(held.job).is_deaf)
            await self._environment.failpoint("worker.ended")
        if outcome is None:
            self._forget(held)
            return
        self._unsent.append((held, outcome))
        self._has_reports.set()

    async def _read_input(self, held: Held) -> Outcome | None:
        """Read what the job takes from others; if that cannot be, return with what the attempt ends."""
        job = held.job
        try:
            value = await self._environment.call_repeatedly(lambda: self._source.input_of(job.id, job.fence), tries=4)
        except InvalidRequest as refusal:
            return Failed(JobError("InvalidRequest", str(refusal)), permanent=True)
        if value is None or held.interrupted.is_set():
            return held.outcome or Released(started=False)
        held.job = replace(held.job, payload=with_input(held.job.payload, value))
        return None

    async def _wait(self, held: Held) -> tuple[Outcome | None] | None:
        """Pass through the waits of the job; if one is not over, return with what the attempt ends."""
        for wait in waits_of(held.job):
            job = held.job
            begin = partial(self._source.begin_wait, job.id, job.fence, wait)
            try:
                step = await self._environment.call_repeatedly(begin, tries=4)
            except InvalidRequest as refusal:
                # The child of a call was pruned before an operator had the job run again.
                return (Failed(JobError("InvalidRequest", str(refusal))),)
            if held.interrupted.is_set():
                return (held.outcome,)
            if step is None or self._environment.now() > held.sure_until:
                return (Released(started=True),)
            if not step.is_done:
                return (Suspended(wait.key),)
            self._note("waited", held, key=wait.key, value=waited_value(wait, step.outcome))
        return None

    async def _perform(self, held: Held) -> Outcome | None:
        await self._environment.failpoint("worker.started")
        step = step_of(held.job)
        interrupted = await self._wait(held)
        if interrupted is not None:
            return interrupted[0]
        try:
            async with asyncio.timeout(step.seconds):
                await held.interrupted.wait()
        except TimeoutError:
            if step.ending is Ending.CRASH and self._environment.can_poison:
                self._environment.poison()
                await asyncio.Event().wait()  # never: the process is dead
            return step.outcome(json.dumps(result_of(held.job)))
        return held.outcome

    def _note(self, kind: str, held: Held, **more: object) -> None:
        host = self._environment.host
        self._environment.history.note(
            kind, host=host.name, boot=host.boot, job=held.job.id, fence=held.job.fence, **more
        )

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
        sent_at = self._environment.now()
        renewals = [Renewal(one.job.id, one.job.fence, self._config.lease) for one in held]
        try:
            answers = await self._source.renew(renewals)
        except StoreUnavailable:
            return  # the next beat may get through; until then the local deadline holds
        kept = {answer.job_id: answer for answer in answers}
        for one in held:
            if not one.is_done:
                self._hear(one, kept.get(one.job.id), sent_at)

    def _hear(self, held: Held, answer: Renewed | None, sent_at: float) -> None:
        if answer is None:
            if not self._config.settles_late:
                held.interrupt(None)
            return
        held.sure_until = sent_at + self._lease_seconds * MARGIN
        if answer.cancel and held.job.cancel_requested_at is None:
            held.job = replace(held.job, cancel_requested_at=answer.until)
            if not step_of(held.job).is_deaf:
                held.interrupt(Stopped())

    # Settling

    async def _settle(self) -> None:
        """Settle whatever has ended since the last time, all at once, until an answer comes."""
        while True:
            await self._has_reports.wait()
            self._has_reports.clear()
            batch, self._unsent = self._unsent, []
            reports = [AttemptReport(held.job.id, held.job.fence, outcome) for held, outcome in batch]
            await self._environment.call_repeatedly(lambda: self._source.settle(reports), tries=6)  # noqa: B023 - awaited here
            await self._environment.failpoint("worker.settled")
            for held, _ in batch:
                self._forget(held)

    # Ending

    async def _drain(self, fetching: asyncio.Task[None], deadline: float) -> None:
        """Let handlers finish, then take back what is left; leave when all is settled or the grace is over.

        A claim may be under way: what it brings must be handed back, so its answer is awaited, again and again.
        """
        now = self._environment.now()
        await asyncio.wait({fetching}, timeout=deadline - now)
        await self._until_empty(now + (deadline - now) * 2 / 3)
        for held in list(self._held.values()):
            held.interrupt(Released(started=True))
        await self._until_empty(deadline - 0.1)

    async def _until_empty(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while self._held:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return
