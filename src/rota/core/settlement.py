"""Settlements: what is written when a job leaves a state.

A settlement is a compare-and-set: it is applied only while the job is still in `source` under `fence`. A late one
changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from rota.core.envelope import digest_of, is_encrypted
from rota.core.ids import JobId
from rota.core.lifecycle import FINISHED, Event, State
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.value import value


class Reason(StrEnum):
    """Why a job ended, other than by success."""

    EXHAUSTED = "exhausted"
    PERMANENT = "permanent"
    POISON = "poison"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TOO_LATE = "too_late"
    EXPIRED = "expired"
    DEPENDENCY_FAILED = "dependency_failed"
    #: It waited for the failure of a job that succeeded.
    NOT_NEEDED = "not_needed"
    #: An operator skipped it; the jobs that wait for it go on as if it had succeeded.
    SKIPPED = "skipped"
    #: Another job of its workflow failed, and the workflow is to fail fast.
    WORKFLOW_FAILED = "workflow_failed"
    CANCEL_REQUESTED = "cancel_requested"
    REPLACED = "replaced"
    #: As many jobs of its key ran or waited as may run at once, and the limit says that the newest is cancelled.
    LIMIT_FULL = "limit_full"


@value
class JobError:
    """The error of an attempt, as plain text; it is never turned back into an exception."""

    kind: str
    message: str
    traceback: str = ""

    def fingerprint(self, job_type: str) -> str:
        """Return a hash that is equal for errors of one cause, so that dead letters can be grouped.

        Words with a digit are left out: ids, ports, addresses and amounts differ although the cause is the same.
        """
        # The cause of an encrypted error is known by its keyed digest only.
        words = digest_of(self.message) if is_encrypted(self.message) else self.cause
        return blake2b(f"{job_type}\0{self.kind}\0{words}".encode("utf-8", "replace"), digest_size=8).hexdigest()

    @property
    def cause(self) -> str:
        """The message without words that differ between errors of one cause."""
        return " ".join(map(_without_digits, _WORD.split(self.message[:_LONGEST_MESSAGE])))[:_LONGEST_CAUSE]


#: Separators of words. A split at single characters takes linear time for any input.
_WORD: Final = re.compile(r"[\s'\"()<>,;=]")
_LONGEST_MESSAGE: Final = 4_000
_LONGEST_CAUSE: Final = 500


def _without_digits(word: str) -> str:
    return "#" if any(map(str.isdigit, word)) else word


@value
class Settlement:
    """One job's move from `source` to `target`, valid under `fence` only.

    `result`, `error` and `reason` replace those of the job; the records of earlier attempts stay. Without `run_at` the
    job keeps its time, and with it its place in claim order.
    """

    job_id: JobId
    fence: int
    source: State
    target: State
    event: Event
    run_at: datetime | None = None
    result: str | None = None
    error: JobError | None = None
    reason: Reason | None = None
    #: The attempt does not count and is given back; the fence never is.
    refund: bool = False
    #: The attempt ended in a lapsed lease.
    crash: bool = False
    #: An operator granted a new budget of attempts; an earlier cancel request or expiry no longer applies.
    renew: bool = False
    #: When the lease lapsed, as the reaper read it. Applied only if the worker has not renewed it since.
    lapsed_at: datetime | None = None
    #: The follow-up job for this end, made in the same transaction.
    follow_up: NewJob | None = None
    #: The last lines the attempt logged, see `core/log_lines.py`, and its last report of progress.
    log_tail: str | None = None
    progress: str | None = None
    #: The wait for which the job is blocked. If it has ended meanwhile, the job is pending instead.
    wait: Step | None = None
    #: Jobs that notify webhooks of this end, made in the same transaction.
    events: tuple[NewJob, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether the job is finished."""
        return self.target in FINISHED

    def without_wait(self) -> Settlement:
        """Return the settlement of a job whose wait has ended before it could be suspended."""
        return replace(self, target=State.PENDING, wait=None)

    @property
    def is_failure(self) -> bool:
        """Whether the job ends without success, other than by a request: the jobs after a failure depend on it."""
        return self.target is State.DEAD or (self.target is State.CANCELLED and self.reason in FAILURES)


#: Reasons for which a cancelled job counts as failed: its end was not requested.
FAILURES: Final = frozenset({Reason.EXPIRED, Reason.DEPENDENCY_FAILED})
