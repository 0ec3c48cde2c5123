"""The store port: the durable source of truth.

The store decides what is due and which lease is valid, by its own clock; it decides nothing else. Every verb takes a
batch, and each call is one transaction: all of it is on stable storage when the call returns, or none of it happened. A
call that raises `StoreUnavailable` may have been committed (the reply can be lost), so every verb is safe to repeat.

`now=None` means the store's own clock. Tests pass `now`, so nothing sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from rota.core.cluster import ClusterView, Leadership, Member, MemberHeartbeat, Role
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Attempt, Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry, Token
from rota.core.limit import Limit, LimitUsage
from rota.core.queue import Lane, Queue
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
from rota.ports.store_values import (
    CLOCK_SLACK,
    AllCreated,
    Census,
    DeadGroup,
    Dispatched,
    Inserted,
    JobQuery,
    JobSlice,
    Position,
    Receipt,
    Retention,
    Timetable,
)

__all__ = [
    "CLOCK_SLACK",
    "AllCreated",
    "Census",
    "ClusterStore",
    "DeadGroup",
    "DispatchStore",
    "Dispatched",
    "Inserted",
    "JobQuery",
    "JobSlice",
    "JobStore",
    "LedgerStore",
    "LimitStore",
    "OnWake",
    "Position",
    "Receipt",
    "Retention",
    "ScheduleStore",
    "StepStore",
    "Store",
    "Timetable",
]

#: Called with the topics of a wake-up.
OnWake = Callable[[Collection[str]], None]


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

        In the same transaction `entry` is written to the ledger if any job was made.
        """
        ...

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        """Lease up to `wanted.limit` due jobs to a worker, most urgent first, oldest first among equals.

        Never waits for a row that another worker has locked. Never gives a job before its `run_at` (but see below),
        after its `expires_at`, from a paused queue, or of another type or queue; such jobs do not hide later ones.
        Each job has a fence greater than any before and one attempt more. A repeated `claim_id` gives the jobs of the
        first time that are still leased under it, and no new ones.

        A claim with `ahead` that finds nothing due leases scheduled and retrying jobs whose time comes in that span:
        the earliest first, of equal times the most urgent, then the lowest id, and none that expires before its time.
        Such a job is stored as starting at its `run_at`; its `updated_at` is the moment of the claim; the worker starts
        it no earlier. Jobs that were due before are left to the promoter. An at-most-once job is never claimed ahead:
        if its worker died before it started, it would have to end as dead.

        A claim with a `handoff_wait` that finds nothing may be kept for at most that span, and be given the first due
        job that is stored meanwhile, in the transaction that stores it: one that the claim asks for, and neither an
        at-most-once job nor one with a single attempt. Then `watch` reports the claim's topic (`claim_topic`), and the
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
        Neither is a settlement applied that would run a job again after it was asked to stop, nor one with `if_lapsed`
        while the lease has not lapsed. `result`, `error` and `reason` replace the job's former ones. In the same
        transaction the follow-up is made, the attempt is recorded, the jobs that waited for this one are unblocked or
        cancelled, and `entry` is written to the ledger if anything was applied.
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

        This may take long; use `find_some` for a person who waits.
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

    async def census(self) -> Census:
        """Count all jobs. Submitted = counted + pruned, always."""
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

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        """Return the dead jobs grouped by type and cause, the largest groups first."""
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

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        """Apply an operator's resolution of a step in doubt, and return whether it was applied.

        Only while its job does not run: the attempt would decide by itself. A step that is done stays done.
        """
        ...

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        """Return a job's steps in the order in which they began."""
        ...


class ClusterStore(Protocol):
    """Members, leadership and the settings of queues."""

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        """Record that these processes are alive, with their description."""
        ...

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        """Return the recorded processes of a role, seen at or after `since`; ordered by name and start."""
        ...

    async def leave(self, boots: Iterable[str]) -> None:
        """Delete the records of processes that have stopped."""
        ...

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        """Take or keep the lead if no other holder has it, and return who leads.

        At most one holder at a time by the store's clock; the term grows whenever the holder changes.
        """
        ...

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        """Return who leads; None if no process does. Changes nothing."""
        ...

    async def resign(self, name: str, holder: str) -> None:
        """Give up the lead at once, if `holder` has it."""
        ...

    async def check_in(self, told: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        """Record members as `beat` does, take or keep a lead as `lead` does, and return the view of the cluster.

        Without a `holder` it returns the leader, as `leader` does. If the lead changes at this moment, the answer may
        name no leader, but never one whose term has ended. One statement if the store can do it in one, because every
        process does this every few seconds.
        """
        ...

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        """Write a queue's settings if their version is current; False if they were changed meanwhile."""
        ...

    async def queues(self) -> Sequence[Queue]:
        """Return the queues that have settings, by name."""
        ...


class LimitStore(Protocol):
    """Limits: how many jobs of a queue, task or key may run at once, and how often they may start."""

    @property
    def supports_limits(self) -> bool:
        """Whether the store enforces limits. One that does not refuses them with `InvalidRequest`."""
        ...

    def limit_pause(self, wanted: Claim) -> timedelta | None:
        """Return how soon a claim that found nothing should look again because of a limit, once. Reads nothing."""
        ...

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        """Return whether one of these jobs, which have ended, was claimed here under a limit. Reads nothing."""
        ...

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        """Create or replace limits, and return their names. Whether a limit is closed stays as it is.

        It holds for each claim that begins afterwards. Jobs that run already are not affected.
        """
        ...

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        """Write `closed_until` and `reason` of a limit: no job starts under it until then. What it allows stays."""
        ...

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        """Delete a limit, and return whether there was one."""
        ...

    async def limits(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[Limit]:
        """Return limits by name; without names, all of them ordered by name, those after `after`."""
        ...

    async def limit_usage(self, limit: Limit, *, now: datetime | None = None) -> LimitUsage:
        """Count what runs and waits under a limit. The limit itself is used as it is given."""
        ...


class LedgerStore(Protocol):
    """The ledger of operators' actions, and API tokens."""

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        """Append entries to the ledger, each chained to the one before."""
        ...

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        """Return the ledger's entries, newest first."""
        ...

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        """Create or replace tokens by id."""
        ...

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        """Return tokens by id; without ids, all of them."""
        ...


class Store(JobStore, DispatchStore, ScheduleStore, StepStore, ClusterStore, LimitStore, LedgerStore, Protocol):
    """All of it, as one adapter provides it."""

    @property
    def blocking(self) -> Store | None:
        """The same store for callers without an event loop: its verbs block the calling thread and never suspend.

        It may be used from any thread and any loop at once, and concurrent calls still share a commit. None if the
        store needs an event loop.
        """
        ...

    @property
    def has_handoff(self) -> bool:
        """Whether a waiting claim may be answered by the process that stores a job, see `claim`."""
        ...

    def handed_off(self, wanted: Claim) -> Sequence[Job]:
        """Return the job handed off to a waiting claim, once, if it is known here; `claim` returns it anyway."""
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

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Collection[str]:
        """Wait until another process may have changed something, at most for a while; return the topics, or none.

        Topics are queues that may have work, and those of `rota.ports.wakeup`. New work need not be reported before
        this store was asked for some, by a claim or by `watch_for_work`. A store that is notified at once may call
        `on_wake` instead, on the caller's loop and as often as needed meanwhile, and does not return those topics as
        well. `on_wake` neither waits nor raises.
        """
        ...

    async def check(self) -> Sequence[str]:
        """Check the stored data for damage; return one sentence per finding."""
        ...
