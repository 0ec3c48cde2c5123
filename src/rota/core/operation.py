"""Operations: one action on all jobs of a selection, done in batches by any scheduler.

An operation is a stored row. A scheduler that finds it due plans a batch: it writes the ids and fences of the next jobs
and where the list continues, and only then acts on them. If the process dies in between, another scheduler repeats the
planned batch. A job whose fence has grown since was claimed after it was retried, so it is not retried again: each job
is acted on once. The version of the row makes sure that one scheduler at a time goes on: `due_at` is also the end of
its time for a batch.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Final, NamedTuple, NewType

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.value import value

OperationId = NewType("OperationId", int)

#: The most jobs of a batch, and of its refusals that are kept.
MOST_IN_BATCH: Final = 200
MOST_REFUSALS: Final = 20
#: How long a scheduler has for a batch before another one repeats it.
BATCH_TIME: Final = timedelta(seconds=30)
#: How often the first jobs are looked at while an operation waits for them.
CANARY_INTERVAL: Final = timedelta(seconds=1)
MOST_CANARIES: Final = 100


class OperationAction(StrEnum):
    """What is done to each job."""

    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"
    RUN_NOW = "run_now"


class OperationState(StrEnum):
    """The state of an operation."""

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    #: A canary did not succeed: the rest was left alone.
    STOPPED = "stopped"


ENDED: Final = frozenset({OperationState.COMPLETED, OperationState.CANCELLED, OperationState.STOPPED})
#: Actions after which a job runs, so that its end can be waited for.
RUNS: Final = frozenset({OperationAction.RETRY, OperationAction.RUN_NOW})


class PlannedJob(NamedTuple):
    """A job of a batch, as it was when the batch was planned."""

    id: JobId
    fence: int
    state: State


class Refusal(NamedTuple):
    """A job that was not acted on, and why."""

    id: JobId
    reason: str


@value
class Operation:
    """An operation. `due_at` is None when it has ended."""

    id: OperationId
    action: OperationAction
    created_at: datetime
    due_at: datetime | None
    by: str = ""
    origin: str = ""
    q: str | None = None
    ids: tuple[JobId, ...] = ()
    rate: float | None = None
    canary: int = 0
    state: OperationState = OperationState.WAITING
    matched: int = 0
    is_exact: bool = True
    done: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""
    #: Where the list continues, and whether it has ended.
    after_id: JobId | None = None
    after_finished_at: datetime | None = None
    is_list_read: bool = False
    batch: tuple[PlannedJob, ...] = ()
    canary_ids: tuple[JobId, ...] = ()
    version: int = 0

    @property
    def batch_size(self) -> int:
        """How many jobs the next batch has at most; as many canaries as are missing, first."""
        if self.canary:
            return min(self.canary - len(self.canary_ids), MOST_IN_BATCH)
        return MOST_IN_BATCH if self.rate is None else min(max(ceil(self.rate / 2), 1), MOST_IN_BATCH)

    @property
    def awaits_canaries(self) -> bool:
        """Whether the first jobs were started and have to succeed before the others are."""
        return bool(self.canary_ids) and (len(self.canary_ids) >= self.canary or self.is_list_read)

    def ended(self, state: OperationState, now: datetime, reason: str = "") -> Operation:
        return replace(self, state=state, ended_at=now, due_at=None, reason=reason)

    def with_results(
        self, done: tuple[JobId, ...], refusals: tuple[Refusal, ...], refused: int, now: datetime
    ) -> Operation:
        """Add the results of the planned batch; the rate decides when the next one is due."""
        pause = timedelta(0) if self.rate is None else timedelta(seconds=len(done) / self.rate)
        added = replace(
            self,
            batch=(),
            done=self.done + len(done),
            refused=self.refused + refused,
            refusals=(*self.refusals, *refusals)[:MOST_REFUSALS],
            canary_ids=(*self.canary_ids, *done) if self.canary else (),
        )
        if self.state in ENDED:
            return added
        return replace(added, due_at=now + pause)


def check_operation(operation: Operation) -> None:
    """Refuse an operation that has no or two selections, or options without effect."""
    if (operation.q is None) == (not operation.ids):
        raise InvalidRequest("q: select jobs by 'q', by 'ids' or by 'fingerprint', and by one of them only", field="q")
    if operation.q is not None and not operation.q.strip():
        raise InvalidRequest("q: an empty search selects every job; write status:any if you mean that", field="q")
    if operation.canary and operation.action not in RUNS:
        problem = f"canary: {operation.action} runs no jobs whose end could be waited for; leave this out"
        raise InvalidRequest(problem, field="arguments.canary")
    if not 0 <= operation.canary <= MOST_CANARIES:
        raise InvalidRequest(f"canary: must lie between 1 and {MOST_CANARIES}", field="arguments.canary")
