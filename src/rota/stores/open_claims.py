"""Open claims: questions that stay where there was nothing, and are answered by whoever brings a job.

What the stores that keep claims have in common: which jobs may be brought, how they are told of, and which questions of
this process are open. Where claims are kept and who is told how is each store's own, see their `open_claims`.
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

#: By how much shorter a claim stays than who asked: for what is under way to be heard.
HEARING: Final = timedelta(milliseconds=500)
#: Who stays for less is not worth the while.
SHORTEST_STAY: Final = 2 * HEARING
#: Nobody stays for longer, so that what is older need not be looked at.
LONGEST_STAY: Final = timedelta(seconds=5)
#: How many workers to keep in mind.
MOST: Final = 10_000

#: A job as it is told: id, type, queue, priority, max_attempts, delivery, payload.
Told: TypeAlias = tuple[int, str, str, int, int, str, str]


class Answer(NamedTuple):
    """What came for a claim: when, by the store's clock, and the job as it was stored, unless that is too long."""

    claim_id: str
    at: int
    job: Told | None

    def jobs(self, wanted: Claim) -> Sequence[Job]:
        """Give the job as a claim would; none if it has to be looked up."""
        if self.job is None:
            return ()
        job_id, type_, queue, priority, max_attempts, delivery, payload = self.job
        at = self.at
        # In the order of claim_columns.sql.
        row = job_id, type_, payload, queue, priority, at, at, 1, 1, 0, max_attempts, delivery, at, None, 0
        return leased_jobs([row], wanted, _never)


def _never(_row: Row) -> Job:
    raise AssertionError("what is brought sets nothing beyond what every job sets")


_READER: Final = msgspec.json.Decoder(Answer)


def stay_of(wanted: Claim) -> timedelta | None:
    """Say for how long a claim is left where others may answer it; None if it is not."""
    span = min(wanted.stays, LONGEST_STAY) - HEARING
    # Who has room for one gets the most urgent, which may be on its way.
    is_one_of_many = wanted.claim_id is not None and wanted.limit > 1
    return span if is_one_of_many and span >= SHORTEST_STAY - HEARING else None


def may_be_brought(job: NewJob) -> bool:
    """Whether a job may be leased to somebody who is only believed to be there."""
    return job.run_at is None and job.delivery is Delivery.AT_LEAST_ONCE and job.max_attempts > 1


def told_of(job: NewJob, longest: int) -> Told | None:
    """Give what is told of a job, unless it is long."""
    if len(job.payload) > longest:
        return None
    return job.id, job.type, job.queue, job.priority, job.max_attempts, job.delivery._value_, job.payload


def read_answer(text: str | bytes | memoryview) -> Answer:
    """Read a word that is an answer."""
    return _READER.decode(text)


class Kept(Protocol):
    """The last claim of a worker that stayed, and what came for it."""

    claim_id: str
    answer: Answer | None


K = TypeVar("K", bound=Kept)


class Awaited(Generic[K]):
    """The claims of this process that others may answer: the last one of each worker."""

    def __init__(self) -> None:
        self._by_boot: dict[str, K] = {}
        self._by_claim: dict[str, K] = {}

    def bring(self, answer: Answer) -> bool:
        """Keep an answer if somebody here waits for it, and say whether."""
        kept = self._by_claim.get(answer.claim_id)
        if kept is None:
            return False
        kept.answer = answer
        return True

    def take(self, wanted: Claim) -> Answer | None:
        """Give the answer that has come for a claim, once."""
        kept = self._by_boot.get(wanted.worker.boot)
        # One to a former claim has to be looked up: its lease began before this one was sent, and may be over.
        if kept is None or kept.answer is None or kept.claim_id != wanted.claim_id:
            return None
        self.leave(wanted.worker.boot)
        return kept.answer

    def at_hand(self, wanted: Claim) -> Sequence[Job]:
        """Give the job that has come for a worker, once, unless it has to be looked up."""
        kept = self._by_boot.get(wanted.worker.boot)
        if kept is None or kept.answer is None or kept.answer.job is None or kept.claim_id != wanted.claim_id:
            return ()
        self.leave(wanted.worker.boot)
        return kept.answer.jobs(wanted)

    def leave(self, boot: str) -> None:
        """Expect nothing more for a worker: it has found something, or goes away."""
        kept = self._by_boot.pop(boot, None)
        if kept is not None:
            # Two workers may have asked by the same name.
            self._by_claim.pop(kept.claim_id, None)

    def _keep(self, boot: str, kept: K) -> None:
        if boot not in self._by_boot and len(self._by_boot) >= MOST:
            self.leave(next(iter(self._by_boot)))
        self.leave(boot)
        self._by_boot[boot] = self._by_claim[kept.claim_id] = kept
