"""Open claims on SQLite: a claim that found nothing waits on the board, and whoever brings a job answers it.

A job that came to an idle worker was stored, knocked for, and then claimed: two commits, and between them a claim that
another thread has to look for. But who waits has asked already, under a name that can be repeated. So who submits a
single plain job stores it as leased to who has waited longest, writes down what that claim gave as any claim does, both
in one transaction, and brings the job by a letter.

What can go wrong, and what we do:

- The worker has died. Its letterbox went with it, and who brings a job looks for that first. One that dies at this very
  moment, or hangs, is given one job at most, which waits for its lease to run out as every job of such a worker does.
  Jobs that must not begin twice, or have one attempt only, are brought to nobody.
- The same claim is answered twice at once, by itself and by who brings a job: both write down what it gave under its
  name, one after the other, and the second finds that, or cannot.
- The letter is lost, since who wrote it died after the commit. The write to the log rings for who waits, a little
  later; it asks by the same name, and is given what was brought.
- Nobody waits for it any more. Who asks under another name, or for the last time, takes the last claim off the board
  with the lock of the database in its hand: whoever was answering it has done so by then, or will not. What it gave
  comes along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from rota.core.instant import span_to_micros
from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.ports.places import answer_to
from rota.ports.store import Heed, Inserted, Receipt
from rota.stores.open_claims import (
    HEARING,
    LONGEST_STAY,
    SHORTEST_STAY,
    Answer,
    Awaited,
    may_be_brought,
    told_of,
)
from rota.stores.rows import is_plain, plain_job_row
from rota.stores.sqlite import leasing
from rota.stores.sqlite.board import Board, Notice, OpenClaim, steady_micros
from rota.stores.sqlite.driver import Broken, Busy, Clash, Connection
from rota.stores.sqlite.letterbox import LONGEST_LETTER, Letterbox, Postman, letter_of
from rota.stores.sqlite.operations import roll_back
from rota.stores.sqlite.statements import statement

_FIRST_FENCE: Final = 1


class _Kept:
    """The last claim of a worker that waits, where on the board, and what came for it."""

    __slots__ = ("answer", "claim_id", "place")

    def __init__(self, claim_id: str) -> None:
        self.claim_id = claim_id
        self.place: int | None = None
        self.answer: Answer | None = None


class Stay(NamedTuple):
    """What a claim does beside looking for jobs: what it puts up where there are none, and whose place it takes."""

    kept: _Kept | None = None
    notice: OpenClaim | None = None
    former: _Kept | None = None


GOES_AWAY: Final = Stay()


class OpenClaims(Awaited[_Kept]):
    """The claims of this process that wait on a board, and how others' claims are answered."""

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board
        #: What the board shows at a glance: nothing if nobody waits. A call to the kernel and nothing else.
        self.glance = board.marks
        self._letterbox: Letterbox | None = None
        self._postman = Postman()
        #: Who is told that something has come, on which loop; and what came while there was nobody.
        self._heeds: list[tuple[asyncio.AbstractEventLoop, Heed]] = []
        self._untold: set[str] = set()

    def close(self) -> None:
        """Let go of the board. Nobody brings anything or asks any more."""
        if self._letterbox is not None:
            self._letterbox.close()
        self._postman.close()
        self._board.close()

    # Who waits

    def stay(self, wanted: Claim) -> Stay:
        """Say what a claim does beside looking, and expect an answer: it may come before the claim is done."""
        former = self._by_boot.get(wanted.worker.boot)
        notice = self._notice(wanted)
        if notice is None:
            self.leave(wanted.worker.boot)
            return GOES_AWAY if former is None else Stay(former=former)
        if former is not None and former.claim_id == wanted.claim_id:
            # It is on the board.
            return Stay(kept=former)
        kept = _Kept(notice.claim_id)
        self._keep(wanted.worker.boot, kept)
        return Stay(kept, notice, former)

    def _notice(self, wanted: Claim) -> OpenClaim | None:
        span = min(wanted.stays, LONGEST_STAY)
        if wanted.claim_id is None or wanted.types is None or wanted.limit == 1 or span < SHORTEST_STAY:
            return None
        if self._letterbox is None:
            self._letterbox = Letterbox.open(self._hear)
            if self._letterbox is None:
                return None
        self._letterbox.attend()
        since = steady_micros()
        return OpenClaim(
            wanted.claim_id,
            wanted.worker.name,
            wanted.worker.boot,
            span_to_micros(wanted.lease),
            since,
            since + span_to_micros(span - HEARING),
            self._letterbox.address,
            self._letterbox.secret,
            wanted.queues,
            wanted.types,
        )

    def claim(self, connection: Connection, wanted: Claim, stay: Stay, now: int) -> list[Job]:
        """Lease jobs, or wait on the board. Under the lock if there is a former claim to be taken off."""
        late: Sequence[Job] = ()
        if stay.former is not None:
            self._take_off(stay.former)
            if stay.former.claim_id != wanted.claim_id:
                late = leasing.recall(connection, stay.former.claim_id) or ()
        jobs = [*leasing.claim(connection, wanted, now), *late]
        if jobs and stay.kept is not None:
            self._take_off(stay.kept)
        elif stay.kept is not None and stay.notice is not None:
            stay.kept.place = self._board.put_up(stay.notice)
        return jobs

    def _take_off(self, kept: _Kept) -> None:
        if kept.place is not None:
            self._board.take_off(kept.place)
            kept.place = None

    @contextmanager
    def heeded(self, heed: Heed | None) -> Iterator[None]:
        """Tell somebody of answers, for a block."""
        if heed is None:
            yield
            return
        known = (asyncio.get_running_loop(), heed)
        self._heeds.append(known)
        if self._untold:
            places, self._untold = self._untold, set()
            heed(places)
        try:
            yield
        finally:
            self._heeds.remove(known)

    def _hear(self, answer: Answer) -> None:
        if not self.bring(answer):
            return
        places = {answer_to(answer.claim_id)}
        running = asyncio.get_running_loop()
        if not self._heeds:
            self._untold |= places
        for loop, heed in tuple(self._heeds):
            if loop is running:
                heed(places)
            else:
                loop.call_soon_threadsafe(heed, places)

    def brought(self, wanted: Claim) -> tuple[str | None, Sequence[Job]]:
        """Give what has come for a worker, once: for which claim, and the job unless that has to be looked up."""
        answer = self.take(wanted.worker)
        return (None, ()) if answer is None else (answer.claim_id, answer.jobs(wanted))

    # Who brings

    def answer(self, connection: Connection, job: NewJob, marks: bytes, now: int) -> list[Inserted] | None:
        """Store a job as leased to who waits for it, of those whom a glance at the board has just shown.

        None, and nothing done, if none of them does, or it is not for this.
        """
        notice = self._longest_waiting(job, marks)
        if notice is None:
            return None
        connection.run("BEGIN IMMEDIATE")
        try:
            if not (self._board.has(notice) and _lease(connection, job, notice.claim, now)):
                roll_back(connection)
                return None
            connection.run("COMMIT")
        except Clash:
            # Its id is taken, or that claim was answered.
            roll_back(connection)
            self._board.take_off(notice.place)
            return None
        except (Busy, Broken):
            roll_back(connection)
            raise
        self._tell(notice, Answer(notice.claim.claim_id, now, told_of(job, LONGEST_LETTER)))
        # To whoever submits it, it was made pending, as every job that is due.
        return [Inserted(job.id, Receipt.CREATED, State.PENDING)]

    def _longest_waiting(self, job: NewJob, marks: bytes) -> Notice | None:
        """Give the claim that a job may be brought to, of one who is there."""
        if not is_plain(job) or not may_be_brought(job):
            return None
        for notice in self._board.waiting(job.queue, job.type, marks):
            if self._postman.finds(notice.claim.address):
                return notice
        return None

    def _tell(self, notice: Notice, answer: Answer) -> None:
        self._postman.deliver(notice.claim.secret, letter_of(answer))
        # Who asked may be in this process, and need not wait for the letter.
        self.bring(answer)
        self._board.take_off(notice.place)


def _lease(connection: Connection, job: NewJob, claim: OpenClaim, now: int) -> bool:
    """Store a job as leased to a claim, and what that gave; say whether its queue lets it."""
    leased = (_FIRST_FENCE, 1, claim.worker, claim.boot, now, now + claim.lease)
    if not connection.run(statement("insert_brought"), plain_job_row(job, now) + leased):
        return False
    connection.run(statement("remember_claim"), (claim.claim_id, now, f"[[{job.id}, {_FIRST_FENCE}]]"))
    return True
