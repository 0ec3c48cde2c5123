"""Handoff: a new job is leased to a waiting worker's claim in the transaction that stores it.

Shared by the stores that have a handoff: which jobs qualify, how a job is sent to the worker, and which claims of this
process wait. Where waiting claims are stored and how they are notified is in each store's own `handoff` module.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.submission import Delivery, NewJob
from rota.stores.rows import Row, leased_jobs

#: A claim waits that much shorter than its worker, so that a notification on its way still arrives.
DELIVERY_MARGIN: Final = timedelta(milliseconds=500)
#: A shorter wait is not worth registering.
SHORTEST_WAIT: Final = 2 * DELIVERY_MARGIN
#: No claim waits longer, so older ones need not be read.
LONGEST_WAIT: Final = timedelta(seconds=5)
#: How many waiting claims to remember.
MOST: Final = 10_000

#: A job as it is sent: id, type, queue, priority, max_attempts, delivery, payload.
JobColumns: TypeAlias = tuple[int, str, str, int, int, str, str]


class HandedOffJob(NamedTuple):
    """A job leased to a waiting claim: the time by the store's clock, and its columns unless they are too long."""

    claim_id: str
    at: int
    job: JobColumns | None

    def jobs(self, claim: Claim) -> Sequence[Job]:
        """Return the job as a claim would; empty if it must be read from the store."""
        if self.job is None:
            return ()
        job_id, type_, queue, priority, max_attempts, delivery, payload = self.job
        at = self.at
        # In the order of claim_columns.sql.
        row = job_id, type_, payload, queue, priority, at, at, 1, 1, 0, max_attempts, delivery, at, None, 0
        return leased_jobs([row], claim, _never)


def _never(_row: Row) -> Job:
    raise AssertionError("a job that is handed off has no optional columns")


_READER: Final = msgspec.json.Decoder(HandedOffJob)


def handoff_wait(claim: Claim) -> timedelta | None:
    """Return for how long a claim is registered for a handoff; None if it is not."""
    span = min(claim.waits, LONGEST_WAIT) - DELIVERY_MARGIN
    # Not for `limit=1`, because a more urgent job may be committing.
    is_one_of_many = claim.claim_id is not None and claim.limit > 1
    return span if is_one_of_many and span >= SHORTEST_WAIT - DELIVERY_MARGIN else None


def can_hand_off(job: NewJob) -> bool:
    """Whether a job may be leased to a worker that may have died since it began to wait."""
    return job.run_at is None and job.delivery is Delivery.AT_LEAST_ONCE and job.max_attempts > 1


def job_columns(job: NewJob, longest: int) -> JobColumns | None:
    """Return the columns of a job that are sent to the worker, or None if the payload is too long."""
    if len(job.payload) > longest:
        return None
    return job.id, job.type, job.queue, job.priority, job.max_attempts, job.delivery._value_, job.payload


def decode_handoff(text: str | bytes | memoryview) -> HandedOffJob:
    """Decode a notification."""
    return _READER.decode(text)


class RegisteredClaim(Protocol):
    """The last waiting claim of a worker, and the job handed off to it."""

    claim_id: str
    answer: HandedOffJob | None


K = TypeVar("K", bound=RegisteredClaim)


class ClaimRegistry(Generic[K]):
    """The waiting claims of this process: the last one of each worker."""

    def __init__(self) -> None:
        self._by_boot: dict[str, K] = {}
        self._by_claim: dict[str, K] = {}

    def deliver(self, answer: HandedOffJob) -> bool:
        """Keep a job that was handed off if its claim waits in this process; return whether it does."""
        kept = self._by_claim.get(answer.claim_id)
        if kept is None:
            return False
        kept.answer = answer
        return True

    def take(self, claim: Claim) -> HandedOffJob | None:
        """Return what was handed off to a claim, once."""
        kept = self._by_boot.get(claim.worker.boot)
        # What came for an earlier claim must be read from the store: its lease may have lapsed meanwhile.
        if kept is None or kept.answer is None or kept.claim_id != claim.claim_id:
            return None
        self.leave(claim.worker.boot)
        return kept.answer

    def is_waiting(self, claim: Claim) -> bool:
        """Whether a claim is registered for a handoff."""
        return claim.claim_id in self._by_claim

    def at_hand(self, claim: Claim) -> Sequence[Job]:
        """Return the job that was handed off to a claim, once, unless it must be read from the store."""
        kept = self._by_boot.get(claim.worker.boot)
        if kept is None or kept.answer is None or kept.answer.job is None or kept.claim_id != claim.claim_id:
            return ()
        self.leave(claim.worker.boot)
        return kept.answer.jobs(claim)

    def leave(self, boot: str) -> None:
        """Forget the waiting claim of a worker that has got jobs or stops waiting."""
        kept = self._by_boot.pop(boot, None)
        if kept is not None:
            # Two workers may have used the same claim id.
            self._by_claim.pop(kept.claim_id, None)

    def _keep(self, boot: str, kept: K) -> None:
        if boot not in self._by_boot and len(self._by_boot) >= MOST:
            self.leave(next(iter(self._by_boot)))
        self.leave(boot)
        self._by_boot[boot] = self._by_claim[kept.claim_id] = kept
