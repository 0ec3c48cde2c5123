"""Waiting claims: a claim that found nothing waits in the claims file, and a submitter leases its new job to it.

Without this a job for an idle worker is stored, notified and then claimed: two commits, and a claim in between. But an
idle worker has already sent a claim, with an id by which it can be repeated. So a submitter of a single plain job
stores it as leased to the claim that has waited longest, records the leases of that claim as any claim does, both in
one transaction; then it writes the job into the claim's slot of the claims file and wakes the worker's process.

What can go wrong:

- The worker has died. Its socket is gone with it, and the submitter checks that first. A worker that is dying, or
  hangs, may be given one job: its lease keeper repeats the claim by its id and hands that job back; if that has died
  too, the job waits for its lease to lapse, as every job of such a worker. Jobs that must not start twice, or have one
  attempt, are never handed over.
- The claim is answered twice at once, by itself and by a submitter. Both record the leases under the claim's id, one
  after the other; the second finds the record, or violates its primary key.
- The submitter dies after the commit and sends no wake-up. The waiting process notices the write to the log later,
  repeats the claim by its id, and gets the job.
- The worker no longer waits. A claim with another id, or the last claim of a worker, removes the earlier claim from the
  file with the write lock of the database: a submitter has answered it by then, or will not. The answer is returned
  with the new claim, recorded under the new id as well, with a lease that starts now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple

from rota.core.job import Job
from rota.core.lease import Claim, Renewal
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.core.time import from_micros, span_to_micros
from rota.ports.store import Inserted, Receipt
from rota.ports.wakeup import ClaimTopic, OnWake, Wake
from rota.stores.handoff import ClaimRegistry, HandedOffJob, can_hand_off, handoff_wait, job_columns
from rota.stores.limit_memory import LimitMemory
from rota.stores.rows import is_plain, plain_job_row
from rota.stores.sqlite.claim import claim_jobs, leases_text, renew, repeated_claim
from rota.stores.sqlite.driver import ConstraintViolated, DatabaseBusy, DatabaseFailed, SqliteConnection, roll_back
from rota.stores.sqlite.handoff.claims_file import (
    SLOT_BYTES,
    ClaimAnswer,
    ClaimsFile,
    ClaimSlot,
    WaitingClaim,
    monotonic_micros,
)
from rota.stores.sqlite.handoff.wakeup import WakeupReceiver, WakeupSender
from rota.stores.sqlite.statements import statement

_FIRST_FENCE: Final = 1


class _AwaitedClaim:
    """A claim of this process that waits: its slot in the file, and its answer."""

    __slots__ = ("answer", "claim_id", "entry")

    def __init__(self, claim_id: str) -> None:
        self.claim_id = claim_id
        self.entry: ClaimSlot | None = None
        self.answer: HandedOffJob | None = None


class WaitPlan(NamedTuple):
    """What a claim does beside looking for jobs: wait in the file if it finds none, and remove earlier claims."""

    awaited: _AwaitedClaim | None = None
    claim: WaitingClaim | None = None
    since: int = 0
    until: int = 0
    earlier: tuple[_AwaitedClaim, ...] = ()
    #: Whether it is the last claim of a dead worker, whose waiting claim another process has added.
    is_last: bool = False

    @property
    def needs_lock(self) -> bool:
        """Whether the claim needs the write lock from its beginning."""
        return self.is_last or bool(self.earlier)


class ClaimHandoff(ClaimRegistry[_AwaitedClaim]):
    """The waiting claims of this process, and the answering of other processes' claims."""

    def __init__(self, file: ClaimsFile, now: Callable[[], int]) -> None:
        super().__init__()
        self._file = file
        self._now = now
        self.memory = LimitMemory()
        #: The checksums of the used slots; empty if no claim waits. One system call.
        self.used_checksums = file.checksums
        #: The earlier claims of each worker, until they are removed from the file.
        self._earlier: dict[str, tuple[_AwaitedClaim, ...]] = {}
        self._receiver: WakeupReceiver | None = None
        self._sender = WakeupSender()
        #: The callbacks that are called with answers, and their event loops.
        self._callbacks: list[tuple[asyncio.AbstractEventLoop, OnWake]] = []

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.close()
        self._sender.close()
        self._file.close()

    # The waiting side

    def plan(self, claim: Claim) -> WaitPlan:
        """Plan a claim, and expect its answer: it may come before the claim itself returns."""
        boot, awaited = claim.worker.boot, self._by_boot.get(claim.worker.boot)
        waiting, span = self._waiting_claim(claim), handoff_wait(claim)
        earlier = self._earlier.get(boot, ())
        is_repeated = waiting is not None and awaited is not None and awaited.claim_id == waiting.claim_id
        if is_repeated and awaited is not None and awaited.entry is not None:
            return WaitPlan(awaited, earlier=earlier)
        if awaited is not None and not is_repeated:
            earlier = self._earlier[boot] = (*earlier, awaited)
            self.leave(boot)
            awaited = None
        if waiting is None or span is None:
            # A claim for no queue is sent on behalf of a dead worker.
            return WaitPlan(earlier=earlier, is_last=claim.claim_id is not None and not claim.queues)
        if awaited is None:
            # Otherwise the same object: a cancelled call may be about to add it to the file, and it must be found then.
            awaited = _AwaitedClaim(waiting.claim_id)
            self._keep(boot, awaited)
        since = monotonic_micros()
        return WaitPlan(awaited, waiting, since, since + span_to_micros(span), earlier)

    def _waiting_claim(self, claim: Claim) -> WaitingClaim | None:
        if claim.claim_id is None or claim.types is None or handoff_wait(claim) is None:
            return None
        if self._receiver is None:
            self._receiver = WakeupReceiver.open(self._read_answers)
            if self._receiver is None:
                return None
        self._receiver.attach()
        return WaitingClaim(
            claim.claim_id,
            claim.worker.name,
            claim.worker.boot,
            span_to_micros(claim.lease),
            self._receiver.address,
            self._file.database,
            claim.queues,
            claim.types,
        )

    def claim(self, connection: SqliteConnection, claim: Claim, plan: WaitPlan, now: int) -> list[Job]:
        """Lease jobs, or wait in the file. May be run again with its transaction."""
        if plan.is_last and claim.claim_id is not None:
            self._file.remove_claim(claim.claim_id)
        for earlier in plan.earlier:
            self._remove(earlier)
        jobs = claim_jobs(connection, claim, self.memory, now)
        late = self._late(connection, claim, plan, jobs, now)
        if late and claim.claim_id is not None:
            connection.run(statement("replace_claim"), (claim.claim_id, now, leases_text((*jobs, *late))))
        if plan.awaited is not None and (jobs or late or plan.claim is not None):
            self._remove(plan.awaited)
        if plan.awaited is not None and plan.claim is not None and not (jobs or late):
            plan.awaited.entry = self._file.add(plan.claim, plan.since, plan.until)
        return [*jobs, *late]

    def _late(
        self, connection: SqliteConnection, claim: Claim, plan: WaitPlan, jobs: Sequence[Job], now: int
    ) -> Sequence[Job]:
        """Return jobs handed to earlier claims whose answers never arrived here, unless they are among `jobs`."""
        known = {job.id for job in jobs}
        late: list[Job] = []
        for earlier in plan.earlier:
            if earlier.claim_id != claim.claim_id:
                late += [job for job in repeated_claim(connection, earlier.claim_id) or () if job.id not in known]
        return _with_new_leases(connection, late, claim, now) if late else ()

    def note_claimed(self, claim: Claim, plan: WaitPlan, jobs: Sequence[Job]) -> None:
        """Note that a claim has returned: its earlier claims are removed, and after jobs no answer is expected.

        Those jobs came by the claim's id, and must not come once more from the file.
        """
        left = tuple(one for one in self._earlier.pop(claim.worker.boot, ()) if one not in plan.earlier)
        if left:
            self._earlier[claim.worker.boot] = left
        if jobs:
            self.leave(claim.worker.boot)
        elif plan.claim is not None:
            # A quick submitter may have woken this process before the slot of the claim was known here.
            self._read_answers()

    def _remove(self, awaited: _AwaitedClaim) -> None:
        entry, awaited.entry = awaited.entry, None
        if entry is not None:
            self._file.clear(entry)

    @contextmanager
    def reporting_to(self, callback: OnWake | None) -> Iterator[None]:
        """Call a function with the topics of answers, within the block."""
        if callback is None:
            yield
            return
        registered = (asyncio.get_running_loop(), callback)
        self._callbacks.append(registered)
        # Answers that came while no callback was registered.
        topics = {ClaimTopic(one.claim_id) for one in tuple(self._by_claim.values()) if one.answer is not None}
        if topics:
            callback(topics)
        try:
            yield
        finally:
            self._callbacks.remove(registered)

    def _read_answers(self) -> bool:
        """Read the answers to the claims of this process; return whether there are any."""
        answered = []
        for awaited in tuple(self._by_claim.values()):
            if awaited.entry is not None and awaited.answer is None:
                answer = self._file.read_answer(awaited.entry)
                if answer is not None:
                    awaited.answer = HandedOffJob(answer.claim_id, answer.at, answer.job)
                    answered.append(awaited)
        if answered:
            self._report({ClaimTopic(awaited.claim_id) for awaited in answered})
        # Afterwards, because a worker waits for the report.
        for awaited in answered:
            self._remove(awaited)
        return bool(answered)

    def _report(self, wake: Wake) -> None:
        running = asyncio.get_running_loop()
        for loop, callback in tuple(self._callbacks):
            if loop is running:
                callback(wake)
            else:
                # RuntimeError: that loop is closed.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(callback, wake)

    # The submitting side

    def hand_over(
        self, connection: SqliteConnection, job: NewJob, checksums: bytes, now: int | None
    ) -> list[Inserted] | None:
        """Store a job as leased to a waiting claim, one of those whose checksums were just read.

        None, and nothing done, if no claim waits for it, or the job must not be handed over.
        """
        entry = self._longest_waiting(job, checksums)
        if entry is None:
            return None
        connection.run("BEGIN IMMEDIATE")
        try:
            # The time is read with the lock: a lease that began before its claim was sent would end before its worker
            # expects.
            at = self._now() if now is None else now
            if not (self._file.has(entry) and _insert_leased(connection, job, entry.claim, at)):
                roll_back(connection)
                return None
            connection.run("COMMIT")
        except ConstraintViolated:
            # The job's id is taken, or the claim was answered.
            roll_back(connection)
            self._file.remove(entry.slot, entry.checksum)
            return None
        except (DatabaseBusy, DatabaseFailed):
            roll_back(connection)
            raise
        self._deliver(entry, HandedOffJob(entry.claim.claim_id, at, job_columns(job, SLOT_BYTES)))
        # To its submitter the job is pending, as every job that is due.
        return [Inserted(job.id, Receipt.CREATED, State.PENDING, from_micros(at))]

    def _longest_waiting(self, job: NewJob, checksums: bytes) -> ClaimSlot | None:
        """Return the claim of a living process to which a job may be handed."""
        if not is_plain(job) or not can_hand_off(job):
            return None
        for entry in self._file.waiting(job.queue, job.type, checksums):
            if self._sender.connect(entry.claim.address):
                return entry
        return None

    def _deliver(self, entry: ClaimSlot, answer: HandedOffJob) -> None:
        if self.deliver(answer) and self._receiver is not None:
            # The claim is of this process.
            self._file.remove(entry.slot, entry.checksum)
            self._receiver.call_soon(self._report, {ClaimTopic(answer.claim_id)})
            return
        if not self._file.write_answer(entry, ClaimAnswer(*answer)):
            # Too long for a slot: the worker reads the job from the database.
            self._file.write_answer(entry, ClaimAnswer(answer.claim_id, answer.at, None))
        self._sender.send()


def _insert_leased(connection: SqliteConnection, job: NewJob, claim: WaitingClaim, now: int) -> bool:
    """Store a job as leased to a claim, with the record of the claim; return whether its queue allows it."""
    lease = (_FIRST_FENCE, 1, claim.worker, claim.boot, now, now + claim.lease)
    if not connection.run(statement("insert_leased_job"), plain_job_row(job, now) + lease):
        return False
    connection.run(statement("save_claim"), (claim.claim_id, now, f"[[{job.id}, {_FIRST_FENCE}]]"))
    return True


def _with_new_leases(connection: SqliteConnection, jobs: Sequence[Job], claim: Claim, now: int) -> list[Job]:
    """Renew the leases of jobs handed to an earlier claim: the worker counts them from this claim."""
    renewals = renew(connection, [Renewal(job.id, job.fence, claim.lease) for job in jobs], now)
    return [
        replace(job, lease_until=renewed.until)
        for job, renewed in zip(jobs, renewals, strict=True)
        if renewed is not None
    ]
