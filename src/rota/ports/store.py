"""The store port: the durable source of truth. Verbs on jobs are here, all others in `system_store`.

The store decides what is due and which lease is valid, by its own clock; it decides nothing else. Every verb takes a
batch, and each call is one transaction: all of it is on stable storage when the call returns, or none of it happened. A
call that raises `StoreUnavailable` may have been committed (the reply can be lost), so every verb is safe to repeat.

`now=None` means the store's own clock. Tests pass `now`, so nothing sleeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from rota.core.graph import NewWorkflow, Node, Rerun, StoredWorkflow, WorkflowId
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Attempt, Job
from rota.core.job_edit import JobChange
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry
from rota.core.queue import Lane
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
from rota.core.waiting import Emission, Emitted, EmittedEvent, Wait
from rota.ports.store_values import (
    ANSWERED,
    CALL_POSITION,
    CLOCK_SLACK,
    LATEST_COMMIT,
    Ahead,
    AllCreated,
    Census,
    CompletedCount,
    DeadGroup,
    DeadNote,
    DeathCount,
    Dispatched,
    Edge,
    Inserted,
    JobQuery,
    JobSlice,
    Position,
    Receipt,
    Retention,
    StoreCondition,
    TableSize,
    Timetable,
)
from rota.ports.system_store import (
    BreakerStore,
    ClusterStore,
    HistoryStore,
    LedgerStore,
    LimitStore,
    NamespaceStore,
    OperationStore,
    SavedViewStore,
    WebhookStore,
)
from rota.ports.wakeup import OnWake, Wake

__all__ = [
    "ANSWERED",
    "CALL_POSITION",
    "CLOCK_SLACK",
    "LATEST_COMMIT",
    "Ahead",
    "AllCreated",
    "Census",
    "CompletedCount",
    "DeadGroup",
    "DeadNote",
    "DeathCount",
    "DispatchStore",
    "Dispatched",
    "Edge",
    "EventStore",
    "Inserted",
    "JobQuery",
    "JobSlice",
    "JobStore",
    "OnWake",
    "Position",
    "Receipt",
    "Retention",
    "ScheduleStore",
    "StepStore",
    "Store",
    "StoreCondition",
    "TableSize",
    "Timetable",
    "WorkflowStore",
]


class JobStore(Protocol):
    """Jobs."""

    async def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        """Store new jobs and answer each submission, in order.

        A refused submission does not affect the others. An idempotency key makes one job, however often and however
        concurrently it is used, also within one batch, until its retention has passed and its job has ended.
        A job without `run_at`, or with a past one, is pending; with a later one scheduled; with unfinished parents
        blocked. A job whose parents have already failed it is stored as cancelled.

        A job that would be pending is refused while as many jobs are pending or queued in its queue as that queue's
        `max_depth` says, or `bound` if the queue has none. The bound holds under concurrency; a key that was used
        before is answered all the same.

        A submission with a unique key (`core/unique_keys.py`) makes no job if `decide` says that the job which has
        this key counts: it is answered with that job, and a debounced one gives it its payload. Of concurrent
        submissions with one key exactly one makes a job. The idempotency key of such a submission belongs to the job
        of the answer from then on. A job that holds a key is kept for the key's period, whatever its retention.

        In the same transaction `entry` is written to the ledger if any job was made.
        """
        ...

    async def claim(self, claim: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        """Lease up to `claim.limit` due jobs to a worker, most urgent first, oldest first among equals.

        Never waits for a row that another worker has locked. Never gives a job before its `run_at` (but see below),
        after its `expires_at`, from a paused queue, or of another type or queue; such jobs do not hide later ones.
        Each job has a fence greater than any before and one attempt more. A repeated `claim_id` gives the jobs of the
        first time that are still leased under it, and no new ones.

        A claim with `ahead` that finds nothing due leases scheduled and retrying jobs whose time comes in that span:
        the earliest first, of equal times the most urgent, then the lowest id, and none that expires before its time.
        Such a job is stored as starting at its `run_at`; its `updated_at` is the moment of the claim; the worker starts
        it no earlier. Jobs that were due before are left to the promoter. An at-most-once job is never claimed ahead:
        if its worker died before it started, it would have to end as dead.

        A claim that `waits` and finds nothing may be kept for at most that span, and be given the first due
        job that is stored meanwhile, in the transaction that stores it: one that matches the claim, and neither an
        at-most-once job nor one with a single attempt. Then `watch` reports the claim's topic (`ClaimTopic`), and the
        repeated claim returns the job. Claims with `limit=1` are never answered this way, because a more urgent job may
        be committing.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        """Extend the leases whose fence is still valid, and return those.

        A lapsed lease that was not reaped is still valid: its worker is late, not dead. The answer says whether the job
        was asked to stop. Progress and log are stored with the attempt.
        """
        ...

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Apply the settlements whose job is still in `source` under `fence`, and return their ids.

        A stale one is no error: its id is absent from the answer, and nothing of it is written, its follow-up included.
        Neither is a settlement applied that would run a job again after it was asked to stop, nor one with `lapsed_at`
        if the lease does not end then, or has not lapsed: it was renewed meanwhile. `result`, `error` and `reason`
        replace the job's former ones. A job with a `wait` is blocked until that step ends; if it has ended already, the
        job is pending. In the same transaction the follow-up is made, the attempt is recorded, the jobs that waited for
        this one are unblocked or cancelled, and `entry` is written to the ledger if anything was applied.
        """
        ...

    async def edit(self, change: JobChange, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        """Change a waiting job if it is still as it was read, and return whether it was changed.

        Its place in claim order follows a changed time or priority; otherwise it keeps it. Its tags are replaced. In
        the same transaction `entry` is written to the ledger if it was changed.
        """
        ...

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Ask the jobs that run under these fences to stop, and return the ids of those that were marked."""
        ...

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        """Make up to `limit` jobs whose time has come pending, the earliest first; return their number by queue."""
        ...

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Return up to `limit` running jobs whose lease has lapsed, the longest lapsed first. Changes nothing."""
        ...

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Return up to `limit` waiting jobs whose `expires_at` has passed. Changes nothing."""
        ...

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Return the jobs with these ids, in the order of `ids`; unknown ones are absent."""
        ...

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Return the jobs of a query, newest first. A page never skips a job that existed all the time.

        This may take long; use `find_some` where a user waits for the answer.
        """
        ...

    async def find_some(self, query: JobQuery) -> JobSlice:
        """Return jobs as `find` does, but only those found with bounded work, possibly none.

        If `resume` is set, there may be more, and the list continues there.
        """
        ...

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        """Return a job's attempts, oldest first, including the running one."""
        ...

    async def census(self, known: CompletedCount | None = None) -> Census:
        """Count all jobs. Submitted = counted + pruned, always.

        Given the completed jobs of an earlier census, only those that ended since are read: the cost does not grow with
        the history. `known` must be younger than the retention of completed jobs, and a job that is stored as completed
        later than `LATEST_COMMIT` after its end is missed until a count without `known`.
        """
        ...

    async def timetable(self) -> Timetable:
        """Return the store's time, and when upkeep of each kind is needed next."""
        ...

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete up to `limit` finished jobs past their retention, with all their records, and count them.

        A store with daily partitions may drop a whole day beyond the limit. Never deletes an unfinished job, nor one
        that an unfinished job waited for (it may need the result), nor one whose idempotency key is still kept. Such a
        job does not hide those after it. Old history is deleted too: fire times, ledger entries, records of stopped
        processes, claims and keys.
        """
        ...

    async def discard(
        self, ids: Sequence[JobId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Delete dead and cancelled jobs for an operator, and return the ids of those deleted.

        They count as pruned. A job that an unfinished job waited for, or whose idempotency key is still kept, stays.
        """
        ...

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        """Return up to `limit` of the jobs that a job still waits for, oldest first."""
        ...

    async def ahead(self, job_id: JobId, types: Sequence[str], limit: int) -> Ahead:
        """Count the pending jobs that a claim takes before a pending one: those of some types in its queue.

        At most `limit` are counted. Jobs with a concurrency key take turns and have no place: they are not counted, and
        nothing is ahead of one; nor of a job that is not pending.
        """
        ...

    async def edges(self, *, children: Sequence[JobId] = (), parents: Sequence[JobId] = ()) -> Sequence[Edge]:
        """Return the dependencies of `children`, or those on `parents`.

        The dependencies of a child come in the order in which it named them; those on jobs that it called are left out.
        """
        ...

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        """Return the dead jobs grouped by type and cause, the largest groups first."""
        ...

    async def dead_trend(self, since: datetime, step: timedelta) -> Sequence[DeathCount]:
        """Count the dead jobs that died since a moment, by type, cause and step of time; none for empty steps."""
        ...

    async def put_dead_note(
        self, note: DeadNote, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        """Set the note on a type and cause at the store's time, or remove it; False if there was none to remove.

        The last note counts. The ledger's entry is written with it.
        """
        ...

    async def dead_notes(self) -> Sequence[DeadNote]:
        """Return all notes, by type and fingerprint, also those on causes of which no job is dead any more."""
        ...


class DispatchStore(Protocol):
    """Jobs that an external broker hands to workers."""

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        """Make due jobs queued, in each lane as many as there is room for, most urgent first, and return them.

        Only jobs that could be claimed: none before its `run_at`, after its `expires_at`, or from a paused queue. Never
        waits for a locked row. The lanes come in the order of `room`.
        """
        ...

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        """Make queued jobs pending again, with their former place in claim order, and return their ids.

        Jobs that are not queued stay as they are; so do jobs that are being claimed at this moment.
        """
        ...

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        """Return up to `limit` jobs that have been queued for at least that long, by id, those after `after`."""
        ...


class ScheduleStore(Protocol):
    """Schedules and the record of their fire times."""

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Create (version 0) or replace schedules whose version is current, and return the ids of those written.

        Names are unique: a new schedule with a taken name is absent from the answer. The version written is one
        greater. Fire times already recorded stay recorded.
        """
        ...

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        """Return schedules by id or by name; with neither, all of them ordered by name, those after `after`."""
        ...

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        """Return up to `limit` schedules that are due and not paused, the earliest first."""
        ...

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Apply firings, each whole or not at all, and return the ids of the jobs made.

        A firing is applied only while the schedule is as it was planned from. A fire time makes at most one job, ever:
        one that is already recorded makes none, unless it was recorded as missed. The next fire time is written in the
        same transaction. Jobs in `cancels` are cancelled, or asked to stop if they run, unless no job was made to
        replace them. In the same transaction `entry` is written to the ledger if any job was made.
        """
        ...

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Delete schedules and their fire times; jobs they made stay. Return the ids deleted."""
        ...

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        """Return a schedule's recorded fire times, newest first."""
        ...


class StepStore(Protocol):
    """Guarded steps."""

    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        """Record that a step begins, and return whether it is new.

        An existing step is returned as it is. None if the fence is no longer valid: nothing was written.
        """
        ...

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        """Record that a step's effect happened; None if the fence is no longer valid.

        A step that is done keeps its first outcome.
        """
        ...

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        """Delete the record of a step whose effect certainly did not happen, and return whether it was deleted.

        Only under a valid fence. A step that is done stays done.
        """
        ...

    async def begin_wait(
        self, job_id: JobId, fence: int, wait: Wait, *, child: NewJob | None = None, now: datetime | None = None
    ) -> Step | None:
        """Record a wait of a running job, or find the one of this key; None if the fence is no longer valid.

        A step of another kind is returned as it is. The end of a sleep, and of the longest wait, is counted from the
        moment of the first call. A wait that is over is ended: a sleep by its time, a wait for an event by the event,
        with its payload as the outcome, or by its time, with null. A call makes its `child` once.
        """
        ...

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Return one step of a job; None if there is none of this key."""
        ...

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        """Apply an operator's resolution of a step in doubt, and return whether it was applied.

        Only of an effect, and only while its job does not run: the attempt would decide by itself. A step that is done
        stays done.
        """
        ...

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        """Return a job's steps in the order in which they began."""
        ...


class EventStore(Protocol):
    """Events that jobs wait for."""

    async def emit(
        self, emission: Emission, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Emitted:
        """Store an event, end the waits for it and make their jobs pending.

        The first emission of a name counts until it expires; a later one changes nothing, and the first is returned.
        No wake-up is lost: a wait that begins at the same moment finds the event, or is found by it. Very many waits
        are made due instead, and ended by `end_waits`.
        """
        ...

    async def event(self, name: str, *, now: datetime | None = None) -> EmittedEvent | None:
        """Return an event that has not expired; None if there is none."""
        ...

    async def end_waits(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        """End up to `limit` waits for events that are due, by their event or by their time, the longest due first.

        Their jobs become pending; return the number of those by queue.
        """
        ...


class WorkflowStore(Protocol):
    """Workflows: graphs of jobs that are stored, shown and acted on as one."""

    async def put_workflow(
        self,
        workflow: NewWorkflow,
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        """Store a workflow with its jobs as `insert` does, but all of them or none, and answer each, in order.

        If one job is refused or replayed, nothing is stored: neither jobs, nor nodes, nor the entry.
        """
        ...

    async def rerun(self, again: Rerun, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        """Let nodes run again with new jobs, in one transaction: True if it was done, False if nothing was.

        It is done only while the jobs in `replaces` are the current ones of their nodes and the new ids are free. Old
        jobs that wait are cancelled as replaced; those that run are asked to stop.
        """
        ...

    async def workflows(
        self, ids: Sequence[WorkflowId] | None = None, *, before: WorkflowId | None = None, limit: int = 100
    ) -> Sequence[StoredWorkflow]:
        """Return workflows by id, or those before an id, newest first, with the counts of their current nodes."""
        ...

    async def nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        """Return the nodes of a workflow by position; of a node that ran again, the oldest first."""
        ...

    async def nodes_of_jobs(self, ids: Sequence[JobId]) -> Sequence[Node]:
        """Return the nodes of some jobs, by job; jobs that belong to no workflow have none."""
        ...


class Store(
    JobStore,
    DispatchStore,
    ScheduleStore,
    StepStore,
    EventStore,
    ClusterStore,
    LimitStore,
    BreakerStore,
    LedgerStore,
    OperationStore,
    WebhookStore,
    NamespaceStore,
    SavedViewStore,
    WorkflowStore,
    HistoryStore,
    Protocol,
):
    """The whole port, as an adapter implements it."""

    @property
    def blocking(self) -> Store | None:
        """The same store for callers without an event loop: its verbs block the calling thread and never suspend.

        It may be used from any thread and any loop at once, and concurrent calls still share a commit. None if the
        store needs an event loop.
        """
        ...

    @property
    def keeps_waiting_claims(self) -> bool:
        """Whether a job may be leased to a claim while it waits, see `claim`."""
        ...

    def leased_meanwhile(self, claim: Claim) -> Sequence[Job]:
        """Return the job leased to a waiting claim, once, if it is known here; `claim` returns it anyway."""
        ...

    async def close(self) -> None:
        """Finish the calls that were begun and close the database."""
        ...

    async def time(self) -> datetime:
        """Return the time by the store's clock; due times are computed from it on every host."""
        ...

    def watch_for_work(self) -> None:
        """Make `watch` report new work too from now on."""
        ...

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Wake:
        """Wait until another process may have changed something, at most for a while; return the topics, or none.

        Topics are queues that may have work, and those of `rota.ports.wakeup`. New work need not be reported before the
        first claim on this store, or before `watch_for_work`. A store that is notified at once may call `on_wake`
        instead, on the caller's loop and as often as needed meanwhile, and does not return those topics as well.
        `on_wake` neither waits nor raises.
        """
        ...

    async def condition(self, retention: Retention, *, now: datetime | None = None) -> StoreCondition:
        """Return the condition of the store itself; cheap enough to be called every second.

        Of the jobs past their retention only the oldest are looked at, some hundred of each state.
        """
        ...

    async def sizes(self) -> Sequence[TableSize]:
        """Return the sizes of the store's tables, or of its files, the largest first. Reads no rows."""
        ...

    async def check(self) -> Sequence[str]:
        """Check the stored data for damage; return one sentence per finding."""
        ...
