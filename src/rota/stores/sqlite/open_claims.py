"""Open claims on SQLite: a claim that found nothing waits on the board, and whoever brings a job answers it.

A job that came to an idle worker was stored, knocked for, and then claimed: two commits, and between them a claim that
another thread has to look for. But who waits has asked already, under a name that can be repeated. So who submits a
single plain job stores it as leased to who has waited longest, writes down what that claim gave as any claim does, both
in one transaction; then it writes the job on the board in the place of the claim, and pokes whose it is.

What can go wrong, and what we do:

- The worker has died. Its letterbox goes with it, and who brings a job looks for that first. One that is dying, or
  hangs, may be given one job. Its companion asks for that by the claim's name and gives it back; where that has died
  too the job waits for its lease to run out, as every job of such a worker does. Jobs that must not begin twice, or
  have one attempt only, are brought to nobody.
- The same claim is answered twice at once, by itself and by who brings a job: both write down what it gave under its
  name, one after the other, and the second finds that, or cannot.
- Nobody is poked, since who brought the job died after the commit. The write to the log rings for who waits, a little
  later; it asks by the same name, and is given what was brought.
- Nobody waits for it any more. Who asks under another name, or for the last time, takes the last claim off the board
  with the lock of the database in its hand: whoever was answering it has done so by then, or will not. What it gave
  comes along, under the new name as well, with a lease that begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple

from rota.core.instant import from_micros, span_to_micros
from rota.core.job import Job
from rota.core.lease import Claim, Renewal
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.ports.places import answer_to
from rota.ports.store import Heed, Inserted, Receipt
from rota.stores.open_claims import Answer, Awaited, may_be_brought, stay_of, told_of
from rota.stores.rows import is_plain, plain_job_row
from rota.stores.sqlite import leasing
from rota.stores.sqlite.board import PLACE_BYTES, Board, Brought, Notice, OpenClaim, steady_micros
from rota.stores.sqlite.driver import Broken, Busy, Clash, Connection
from rota.stores.sqlite.letterbox import Letterbox, Postman
from rota.stores.sqlite.operations import roll_back
from rota.stores.sqlite.statements import statement

_FIRST_FENCE: Final = 1


class _Kept:
    """A claim that waits, where on the board, and what came for it."""

    __slots__ = ("answer", "claim_id", "notice")

    def __init__(self, claim_id: str) -> None:
        self.claim_id = claim_id
        self.notice: Notice | None = None
        self.answer: Answer | None = None


class Stay(NamedTuple):
    """What a claim does beside looking: what waits where there is nothing and until when, and what it takes off."""

    kept: _Kept | None = None
    claim: OpenClaim | None = None
    since: int = 0
    until: int = 0
    formers: tuple[_Kept, ...] = ()
    #: Whether it speaks for a worker that is dead, whose claim another process has put up.
    is_last: bool = False

    @property
    def needs_lock(self) -> bool:
        """Whether the claim has to have the lock of the database from its beginning."""
        return self.is_last or bool(self.formers)


class OpenClaims(Awaited[_Kept]):
    """The claims of this process that wait on a board, and how others' claims are answered."""

    def __init__(self, board: Board, now: Callable[[], int]) -> None:
        super().__init__()
        self._board = board
        self._now = now
        #: What the board shows at a glance: nothing if nobody waits. A call to the kernel and nothing else.
        self.glance = board.marks
        #: The former claims of each worker, until they are off the board.
        self._formers: dict[str, tuple[_Kept, ...]] = {}
        self._letterbox: Letterbox | None = None
        self._postman = Postman()
        #: Who is told that something has come, on which loop.
        self._heeds: list[tuple[asyncio.AbstractEventLoop, Heed]] = []

    def close(self) -> None:
        """Let go of the board. Nobody brings anything or asks any more."""
        if self._letterbox is not None:
            self._letterbox.close()
        self._postman.close()
        self._board.close()

    # Who waits

    def stay(self, wanted: Claim) -> Stay:
        """Say what a claim does beside looking, and expect an answer: it may come before the claim is done."""
        boot, kept = wanted.worker.boot, self._by_boot.get(wanted.worker.boot)
        claim, span = self._open_claim(wanted), stay_of(wanted)
        formers = self._formers.get(boot, ())
        is_asked_again = claim is not None and kept is not None and kept.claim_id == claim.claim_id
        if is_asked_again and kept is not None and kept.notice is not None:
            return Stay(kept, formers=formers)
        if kept is not None and not is_asked_again:
            formers = self._formers[boot] = (*formers, kept)
            self.leave(boot)
            kept = None
        if claim is None or span is None:
            # Who asks for nothing new speaks for a worker that is dead.
            return Stay(formers=formers, is_last=wanted.claim_id is not None and not wanted.queues)
        if kept is None:
            # Otherwise the same: it may be about to be put up for one who was called off, and has to be found then.
            kept = _Kept(claim.claim_id)
            self._keep(boot, kept)
        since = steady_micros()
        return Stay(kept, claim, since, since + span_to_micros(span), formers)

    def _open_claim(self, wanted: Claim) -> OpenClaim | None:
        if wanted.claim_id is None or wanted.types is None or stay_of(wanted) is None:
            return None
        if self._letterbox is None:
            self._letterbox = Letterbox.open(self._look)
            if self._letterbox is None:
                return None
        self._letterbox.attend()
        return OpenClaim(
            wanted.claim_id,
            wanted.worker.name,
            wanted.worker.boot,
            span_to_micros(wanted.lease),
            self._letterbox.address,
            self._board.file,
            wanted.queues,
            wanted.types,
        )

    def claim(self, connection: Connection, wanted: Claim, stay: Stay, now: int) -> list[Job]:
        """Lease jobs, or wait on the board. May be run again, if the transaction that it is part of is."""
        if stay.is_last and wanted.claim_id is not None:
            self._board.take_off_named(wanted.claim_id)
        for former in stay.formers:
            self._take_off(former)
        jobs = leasing.claim(connection, wanted, now)
        late = self._late(connection, wanted, stay, jobs, now)
        if late and wanted.claim_id is not None:
            leases = str([[job.id, job.fence] for job in (*jobs, *late)])
            connection.run(statement("remember_claim_again"), (wanted.claim_id, now, leases))
        if stay.kept is not None and (jobs or late or stay.claim is not None):
            self._take_off(stay.kept)
        if stay.kept is not None and stay.claim is not None and not (jobs or late):
            stay.kept.notice = self._board.put_up(stay.claim, stay.since, stay.until)
        return [*jobs, *late]

    def _late(self, connection: Connection, wanted: Claim, stay: Stay, jobs: Sequence[Job], now: int) -> Sequence[Job]:
        """Give what was brought to former claims and nobody heard of, unless it is known by this name by now."""
        known = {job.id for job in jobs}
        late: list[Job] = []
        for former in stay.formers:
            if former.claim_id != wanted.claim_id:
                late += [job for job in leasing.recall(connection, former.claim_id) or () if job.id not in known]
        return _renewed(connection, late, wanted, now) if late else ()

    def note_done(self, wanted: Claim, stay: Stay, found: Sequence[Job]) -> None:
        """Note that a claim is done: what it took off is off, and if it found something, nothing more will come.

        It came by name then, and must not come once more from the board.
        """
        left = tuple(one for one in self._formers.pop(wanted.worker.boot, ()) if one not in stay.formers)
        if left:
            self._formers[wanted.worker.boot] = left
        if found:
            self.leave(wanted.worker.boot)
        elif stay.claim is not None:
            # Who was quick to answer it may have poked us before we knew where it stands.
            self._look()

    def _take_off(self, kept: _Kept) -> None:
        notice, kept.notice = kept.notice, None
        if notice is not None:
            self._board.clear(notice)

    @contextmanager
    def heeded(self, heed: Heed | None) -> Iterator[None]:
        """Tell somebody of answers, for a block."""
        if heed is None:
            yield
            return
        known = (asyncio.get_running_loop(), heed)
        self._heeds.append(known)
        # What came while there was nobody, and lies here yet.
        places = {answer_to(kept.claim_id) for kept in tuple(self._by_claim.values()) if kept.answer is not None}
        if places:
            heed(places)
        try:
            yield
        finally:
            self._heeds.remove(known)

    def _look(self) -> bool:
        """Look what has come for the claims of this process; say whether anything has."""
        answered = []
        for kept in tuple(self._by_claim.values()):
            if kept.notice is not None and kept.answer is None:
                brought = self._board.answer_to(kept.notice)
                if brought is not None:
                    kept.answer = Answer(brought.claim_id, brought.at, brought.job)
                    answered.append(kept)
        if answered:
            self._tell({answer_to(kept.claim_id) for kept in answered})
        # Only now: somebody waits for it.
        for kept in answered:
            self._take_off(kept)
        return bool(answered)

    def _tell(self, places: set[str]) -> None:
        running = asyncio.get_running_loop()
        for loop, heed in tuple(self._heeds):
            if loop is running:
                heed(places)
            else:
                # Closed: nobody is told there any more.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(heed, places)

    # Who brings

    def answer(self, connection: Connection, job: NewJob, marks: bytes, now: int | None) -> list[Inserted] | None:
        """Store a job as leased to who waits for it, of those whom a glance at the board has just shown.

        None, and nothing done, if none of them does, or it is not for this.
        """
        notice = self._longest_waiting(job, marks)
        if notice is None:
            return None
        connection.run("BEGIN IMMEDIATE")
        try:
            # The time only now: a lease that began before its claim was sent would end before its worker thinks.
            at = self._now() if now is None else now
            if not (self._board.has(notice) and _lease(connection, job, notice.claim, at)):
                roll_back(connection)
                return None
            connection.run("COMMIT")
        except Clash:
            # Its id is taken, or that claim was answered.
            roll_back(connection)
            self._board.take_off(notice.place, notice.mark)
            return None
        except (Busy, Broken):
            roll_back(connection)
            raise
        self._bring(notice, Answer(notice.claim.claim_id, at, told_of(job, PLACE_BYTES)))
        # To whoever submits it, it was made pending, as every job that is due.
        return [Inserted(job.id, Receipt.CREATED, State.PENDING, from_micros(at))]

    def _longest_waiting(self, job: NewJob, marks: bytes) -> Notice | None:
        """Give the claim that a job may be brought to, of one who is there."""
        if not is_plain(job) or not may_be_brought(job):
            return None
        for notice in self._board.waiting(job.queue, job.type, marks):
            if self._postman.finds(notice.claim.address):
                return notice
        return None

    def _bring(self, notice: Notice, answer: Answer) -> None:
        if self.bring(answer) and self._letterbox is not None:
            # Who asked is in this process.
            self._board.take_off(notice.place, notice.mark)
            self._letterbox.soon(self._tell, {answer_to(answer.claim_id)})
            return
        if not self._board.put_answer(notice, Brought(*answer)):
            # Too long for the board: it is looked up.
            self._board.put_answer(notice, Brought(answer.claim_id, answer.at, None))
        self._postman.poke()


def _lease(connection: Connection, job: NewJob, claim: OpenClaim, now: int) -> bool:
    """Store a job as leased to a claim, and what that gave; say whether its queue lets it."""
    leased = (_FIRST_FENCE, 1, claim.worker, claim.boot, now, now + claim.lease)
    if not connection.run(statement("insert_brought"), plain_job_row(job, now) + leased):
        return False
    connection.run(statement("remember_claim"), (claim.claim_id, now, f"[[{job.id}, {_FIRST_FENCE}]]"))
    return True


def _renewed(connection: Connection, jobs: Sequence[Job], wanted: Claim, now: int) -> list[Job]:
    """Begin the leases of jobs anew that were brought to a former claim: the worker counts them from this one."""
    answers = leasing.renew(connection, [Renewal(job.id, job.fence, wanted.lease) for job in jobs], now)
    return [
        replace(job, lease_until=answer.until) for job, answer in zip(jobs, answers, strict=True) if answer is not None
    ]
