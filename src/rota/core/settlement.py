"""What is written back when a job leaves a state.

A settlement is a compare-and-set: it holds only while the job is still in `source` under `fence`. Whoever settles
late changes nothing.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from rota.core.identity import JobId
from rota.core.lifecycle import FINISHED, Event, State
from rota.core.submission import NewJob
from rota.core.value import value


class Reason(StrEnum):
    """Why a job ended, or was sent back, other than by plain success."""

    EXHAUSTED = "exhausted"
    PERMANENT = "permanent"
    POISON = "poison"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TOO_LATE = "too_late"
    EXPIRED = "expired"
    DEPENDENCY_FAILED = "dependency_failed"
    CANCEL_REQUESTED = "cancel_requested"
    REPLACED = "replaced"


@value
class JobError:
    """What went wrong in an attempt, as plain text: nothing here is ever revived into an exception."""

    kind: str
    message: str
    traceback: str = ""

    def fingerprint(self, job_type: str) -> str:
        """Give errors of one cause one name, so that dead letters can be grouped.

        Whatever holds a digit is left out: ids, ports, addresses and amounts differ where the cause is the same.
        """
        words = " ".join(map(_without_digits, _WORD.split(self.message[:_LONGEST_MESSAGE])))[:_LONGEST_CAUSE]
        return blake2b(f"{job_type}\0{self.kind}\0{words}".encode("utf-8", "replace"), digest_size=8).hexdigest()


#: Where one word of a message ends and the next begins. A split at single characters: linear, whatever comes.
_WORD: Final = re.compile(r"[\s'\"()<>,;=]")
_LONGEST_MESSAGE: Final = 4_000
_LONGEST_CAUSE: Final = 500


def _without_digits(word: str) -> str:
    return "#" if any(map(str.isdigit, word)) else word


@value
class Settlement:
    """One job's move from `source` to `target`, valid under `fence` only.

    `result`, `error` and `reason` replace what the job showed before; what an earlier attempt left stays with it.
    Without `run_at` the job keeps its time and with it its place.
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
    #: The attempt was no fault of the job's and is given back; the fence never is.
    refund: bool = False
    #: The attempt ended in a lost lease.
    crash: bool = False
    #: An operator granted a fresh budget of attempts; what the job was asked before, to stop or to expire, is void.
    renew: bool = False
    #: Holds only if the lease has run out: said by whoever takes jobs from silent workers, who may yet be heard.
    if_lapsed: bool = False
    #: What the job asked to be submitted at this end, made in the same transaction.
    follow_up: NewJob | None = None
    #: The last lines the attempt logged.
    log_tail: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether the job's life ends here."""
        return self.target in FINISHED
