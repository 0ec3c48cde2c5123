"""Hand-over of a new job to a waiting claim, in the submitter's transaction.

Without it, a job for an idle worker is stored, notified of, and then claimed: two commits, one after the other. But the
waiting worker has sent a claim already. So its claim is left open in the table rota_open_claim: a submitter of a single
job leases it to an open claim in the statement that stores it, and its notification carries the job. One commit, and no
other worker is woken needlessly.

What can go wrong:

- Other roles of the database may listen and notify on any channel, but have to know its name. Each process gets its
  answers on a channel of its own with a secret name, which is in a table that only Rota's role can read.
- The worker has died. The connection on which its process listens holds an advisory lock, which goes with it; a
  submitter tries that lock first. A process that dies at this very moment, hangs, or is cut off gets one job at most:
  its lease keeper hands that back, and without one the job waits until its lease lapses. At-most-once jobs and jobs
  with a single attempt are never handed over.
- The same claim is answered twice at once, by itself and by a submitter: both record under the claim's id what it
  leased, and the second fails on the unique key. The claim then finds the job that was handed over; the submitter
  retries, and finds the claim answered.
- The answer comes late, because a commit takes long, or is lost, because the listener lost its connection. An open
  claim ends a little before its worker's request, which is enough for nearly all. The worker's next claim deletes the
  open one, and waits for a submitter that is just answering it: if it is gone, its leases are looked up by its id and
  returned along with those of the next claim, renewed. A worker that stops claims by the same id once more; for a
  worker that has died its lease keeper does, for no queue. That deletes the open claim too, and waits likewise.
- Many dead rows are in the table, because some session keeps an old transaction open. Only rows of the last seconds
  count, and older ones are not read.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from rota.core.lease import Claim
from rota.core.time import span_to_micros
from rota.stores.handoff import ClaimRegistry, HandedOffJob, JobColumns, handoff_wait

#: Bits of the random numbers of the advisory locks: enough that no two are the same.
_LOCK_BITS: Final = 62
#: A notification may have 8000 bytes. A larger job is looked up.
LONGEST_ANSWER: Final = 7_000
_SECRET_BYTES: Final = 16


_encode: Final = msgspec.json.Encoder().encode


def lane_key(queue: str, job_type: str) -> str:
    """Return one text for a lane, and for no other."""
    return f"{len(queue)} {queue}{job_type}"


def text_of(job: JobColumns | None) -> str:
    """Write the job of an answer as JSON; the server puts the rest before it."""
    text = _encode(job)
    return text.decode() if len(text) <= LONGEST_ANSWER else "null"


class Address(NamedTuple):
    """How a process is reached: on this channel, while an advisory lock of this number is held."""

    sign: int
    channel: str


def new_address() -> Address:
    """Make an address that is unique and cannot be guessed."""
    return Address(secrets.randbits(_LOCK_BITS), f"rota_{secrets.token_hex(_SECRET_BYTES)}")


class _OpenClaim:
    """The last open claim of a worker."""

    __slots__ = ("address", "answer", "claim_id")

    def __init__(self, claim_id: str, address: Address) -> None:
        self.claim_id = claim_id
        #: The address of this process when the claim was left open.
        self.address: Address | None = address
        self.answer: HandedOffJob | None = None


class OpenTerms(NamedTuple):
    """Parameters of a claim's statement: how long it stays open, at which address, and which claim it replaces."""

    micros: int | None
    sign: int | None
    channel: str | None
    former: str | None


#: The claim is not left open, and replaces none.
NOT_OPEN: Final = OpenTerms(None, None, None, None)


class OpenClaims(ClaimRegistry[_OpenClaim]):
    """The open claims of this process: the last one of each worker."""

    def __init__(self) -> None:
        super().__init__()
        #: The address of this process; None while it does not listen.
        self.address: Address | None = None
        #: The former claims of each worker whose leases are not known yet.
        self._unsettled: dict[str, tuple[str, ...]] = {}

    def terms(self, claim: Claim) -> OpenTerms:
        """Return the parameters for a claim, and expect an answer: it may come before the statement is done."""
        former = self._by_boot.get(claim.worker.boot)
        span = handoff_wait(claim)
        if self.address is None or claim.claim_id is None or span is None:
            # A claim that is not left open deletes the former one.
            self._give_up(claim)
            return NOT_OPEN if former is None else NOT_OPEN._replace(former=former.claim_id)
        terms = OpenTerms(span_to_micros(span), *self.address, None)
        if former is not None and former.claim_id == claim.claim_id:
            return terms
        self._give_up(claim)
        self._keep(claim.worker.boot, _OpenClaim(claim.claim_id, self.address))
        return terms if former is None else terms._replace(former=former.claim_id)

    def is_last(self, claim: Claim) -> bool:
        """Whether a claim only reads what it leased: its worker stops, or has died and its lease keeper repeats the
        claim. A lease keeper names no queue. All other claims that are not kept here were never open: of workers over
        HTTP.
        """
        if claim.is_new or claim.waits:
            return False
        kept = self._by_boot.get(claim.worker.boot)
        return not claim.queues or (kept is not None and kept.claim_id == claim.claim_id)

    def unsettled(self, claim: Claim) -> tuple[str, ...]:
        """Return the ids of a worker's former claims whose leases have to be looked up."""
        kept = self._by_boot.get(claim.worker.boot)
        if kept is not None and kept.answer is not None:
            self._give_up(claim)
        return self._unsettled.get(claim.worker.boot, ())

    def note_settled(self, boot: str, claim_ids: Collection[str]) -> None:
        """Note that the leases of former claims are known and were given to the worker."""
        left = tuple(claim_id for claim_id in self._unsettled.pop(boot, ()) if claim_id not in claim_ids)
        if left:
            self._unsettled[boot] = left

    def _give_up(self, claim: Claim) -> None:
        """Expect no answer to the last claim of a worker; it is remembered until its leases are known."""
        boot = claim.worker.boot
        kept = self._by_boot.get(boot)
        if kept is not None:
            self.leave(boot)
            if kept.claim_id != claim.claim_id:
                self._unsettled[boot] = (*self._unsettled.get(boot, ()), kept.claim_id)

    def may_have_missed_answer(self, claim: Claim) -> bool:
        """Whether an answer may have been missed because the listener lost its connection meanwhile. True once."""
        kept = self._by_boot.get(claim.worker.boot)
        if kept is None or kept.claim_id != claim.claim_id or kept.address == self.address:
            return False
        kept.address = self.address
        return True
