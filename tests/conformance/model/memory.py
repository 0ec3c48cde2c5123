"""The state of the reference model: plain dictionaries, one for each kind of record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from rota.core.access import Token
from rota.core.cluster import Leadership, Lock, Member
from rota.core.graph import Node, StoredWorkflow, WorkflowId
from rota.core.history import Merged
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Attempt, Job
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.namespace import Namespace
from rota.core.operation import Operation, OperationId
from rota.core.payload_schema import PayloadSchema
from rota.core.queue import Queue
from rota.core.saved_view import SavedView
from rota.core.schedule import Occurrence, Schedule
from rota.core.step import Step
from rota.core.submission import Dependency, Need
from rota.core.waiting import EmittedEvent
from rota.core.webhook import Webhook
from rota.ports.store import DeadNote


@dataclass(frozen=True, slots=True)
class KeptKey:
    """An idempotency key and the job it made."""

    request: bytes
    job_id: JobId
    until: datetime


@dataclass(kw_only=True)
class Memory:
    """All there is, in the open."""

    clock: Callable[[], datetime]
    jobs: dict[JobId, Job] = field(default_factory=dict)
    #: For each job the moment it became due, which gives it its place.
    due_since: dict[JobId, datetime] = field(default_factory=dict)
    #: For each blocked job the parents whose end it has not seen yet.
    waits: dict[JobId, dict[JobId, Need]] = field(default_factory=dict)
    #: The dependencies of each job, as it named them.
    named: dict[JobId, tuple[Dependency, ...]] = field(default_factory=dict)
    #: For each job all the parents it ever named.
    parents: dict[JobId, set[JobId]] = field(default_factory=dict)
    keys: dict[tuple[str, str], KeptKey] = field(default_factory=dict)
    #: For each claim id the jobs it was given, with the fences it was given them under.
    claims: dict[str, list[tuple[JobId, int]]] = field(default_factory=dict)
    runs: dict[JobId, list[Attempt]] = field(default_factory=dict)
    pruned: Counter[State] = field(default_factory=Counter)
    plans: dict[ScheduleId, Schedule] = field(default_factory=dict)
    fired: dict[tuple[ScheduleId, datetime], Occurrence] = field(default_factory=dict)
    #: When a fire time was written down, which is not when it was.
    fired_at: dict[tuple[ScheduleId, datetime], datetime] = field(default_factory=dict)
    guarded: dict[tuple[JobId, str], Step] = field(default_factory=dict)
    events: dict[str, EmittedEvent] = field(default_factory=dict)
    fleet: dict[str, Member] = field(default_factory=dict)
    leads: dict[str, Leadership] = field(default_factory=dict)
    held_locks: dict[str, Lock] = field(default_factory=dict)
    configured: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    last_fence: int = 0
    settings: dict[str, Queue] = field(default_factory=dict)
    book: list[LedgerEntry] = field(default_factory=list)
    access: dict[str, Token] = field(default_factory=dict)
    hooks: dict[str, Webhook] = field(default_factory=dict)
    dead_texts: dict[tuple[str, str], DeadNote] = field(default_factory=dict)
    saved: dict[tuple[str, str], SavedView] = field(default_factory=dict)
    spaces: dict[str, Namespace] = field(default_factory=dict)
    acts: dict[OperationId, Operation] = field(default_factory=dict)
    graphs: dict[WorkflowId, StoredWorkflow] = field(default_factory=dict)
    #: The nodes of workflows, by job.
    nodes_by_job: dict[JobId, Node] = field(default_factory=dict)
    buckets: Merged = field(default_factory=dict)
    schemas: dict[str, PayloadSchema] = field(default_factory=dict)
    #: For each writer of the history the number of its last counts.
    flushed: dict[str, int] = field(default_factory=dict)

    def at(self, now: datetime | None) -> datetime:
        return self.clock() if now is None else now

    def write(self, entry: LedgerEntry | None, now: datetime) -> None:
        """Append to the ledger."""
        if entry is not None:
            previous = self.book[-1].digest if self.book else ""
            number = self.book[-1].number + 1 if self.book else 1
            self.book.append(entry.chained(number, now, previous))

    def holds(self, job_id: JobId, fence: int) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and job.state is State.RUNNING and job.fence == fence
