"""The store: the durable truth.

The store judges time and who holds a lease; it decides nothing else. Every verb takes a batch, and each call is one
transaction: all of it is on stable storage when the call returns, or none of it happened. A call that raises
`StoreUnavailable` may have happened (the reply can be lost after the commit), so every verb is safe to repeat.

`now=None` means the store's own clock. Tests pass `now`, so nothing sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import repeat
from typing import Final, Protocol, final, overload

from rota.core.attempt import Attempt
from rota.core.fleet import Bearings, CheckIn, Leadership, Member, Role
from rota.core.identity import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lane import Lane, LaneCount, Queue
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import Entry, Token
from rota.core.lifecycle import FINISHED, State
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
from rota.core.value import value

#: How far the time in an id may be off the time at which the job was stored.
CLOCK_SLACK: Final = timedelta(hours=1)

#: Is told at which places something may have changed.
Heed = Callable[[Collection[str]], None]


class Receipt(StrEnum):
    """What became of a submission."""

    CREATED = "created"
    #: The same idempotency key came before with the same request: the answer is the job it made.
    REPLAYED = "replayed"
    #: The same idempotency key came before with another request: nothing was made.
    KEY_REUSED = "key_reused"
    #: Another job has this id: nothing was made; take another id.
    ID_TAKEN = "id_taken"
    #: As many jobs wait in its queue as may: nothing was made; try again later.
    QUEUE_FULL = "queue_full"


@value
class Inserted:
    """The answer to one submission; `job_id` is the job that now stands for it, `state` the one that it is in.

    If the queue is full, there is no such job, and `state` is the one that it would have had. `at` is the time that the
    store wrote into a job that this submission made, by the store's own clock; None if it made none.
    """

    job_id: JobId
    receipt: Receipt
    state: State
    at: datetime | None = field(default=None, compare=False)


@final
class AllCreated(Sequence[Inserted]):
    """The answers to submissions that have all made jobs, under their own ids and in one state, as nearly all do.

    Each is made where somebody asks for it, as jobs that are alike are.
    """

    __slots__ = ("at", "ids", "state")

    def __init__(self, ids: Sequence[JobId], state: State, at: datetime | None = None) -> None:
        self.ids = ids
        self.state = state
        self.at = at

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Inserted]:
        return map(Inserted, self.ids, repeat(Receipt.CREATED), repeat(self.state), repeat(self.at))

    @overload
    def __getitem__(self, place: int) -> Inserted: ...
    @overload
    def __getitem__(self, place: slice) -> AllCreated: ...
    def __getitem__(self, place: int | slice) -> Inserted | AllCreated:
        if isinstance(place, slice):
            return AllCreated(self.ids[place], self.state, self.at)
        return Inserted(self.ids[place], Receipt.CREATED, self.state, self.at)


@value
class Position:
    """Where a list of jobs continues: behind this job. `finished_at` only in lists that are ordered by it."""

    job_id: JobId
    finished_at: datetime | None = None


@value
class JobQuery:
    """A filter over jobs, newest first. What is left out does not filter. `before` continues behind a job.

    A list of finished states alone gives the last finished first, unless a tag, schedule or fingerprint is asked for:
    then `before` needs `finished_before`, the end of that job. `created_from` and `created_until` rely on the time in
    the ids: a job whose submitter's clock was off by more than `CLOCK_SLACK` may be missed.
    """

    states: tuple[State, ...] = ()
    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tag: str | None = None
    worker: str | None = None
    schedule_id: ScheduleId | None = None
    fingerprint: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    before: JobId | None = None
    finished_before: datetime | None = None
    limit: int = 100

    @property
    def is_by_finish(self) -> bool:
        """Whether the last finished come first."""
        has_index_by_id = not (self.tag is None and self.schedule_id is None and self.fingerprint is None)
        return bool(self.states) and FINISHED.issuperset(self.states) and not has_index_by_id

    def behind(self, position: Position) -> JobQuery:
        """Ask for what follows a position."""
        return replace(self, before=position.job_id, finished_before=position.finished_at)

    def position_of(self, job: Job) -> Position:
        """Say where this list continues after a job."""
        return Position(job.id, job.finished_at if self.is_by_finish else None)


@value
class JobSlice:
    """A part of a list: jobs, and where to continue; None at the end of the list."""

    jobs: Sequence[Job]
    resume: Position | None


@value
class Retention:
    """How long finished jobs are kept, by state. What is not named is kept for ever."""

    completed: timedelta | None = timedelta(hours=24)
    cancelled: timedelta | None = timedelta(hours=24)
    dead: timedelta | None = timedelta(days=30)
    #: How long the record of fire times, operators' acts and vanished processes is kept.
    history: timedelta | None = timedelta(days=90)


@value
class Timetable:
    """The store's time, and when upkeep is needed next, of each kind. None where nothing waits."""

    now: datetime
    #: When the next job that waits for its time is due.
    job: datetime | None = None
    #: When the next lease ends.
    lease: datetime | None = None
    #: When the next waiting job is too late to start.
    expiry: datetime | None = None
    #: When the next schedule fires.
    schedule: datetime | None = None

    @property
    def first(self) -> datetime | None:
        """What comes first of all."""
        return min((at for at in (self.job, self.lease, self.expiry, self.schedule) if at is not None), default=None)


@value
class Census:
    """All jobs there are: the unfinished by lane and state, the finished by state, and those pruned since."""

    lanes: tuple[LaneCount, ...]
    finished: Mapping[State, int]
    pruned: Mapping[State, int]

    def total(self, *states: State) -> int:
        """Count the jobs that are in one of `states`; in any, when none is named."""
        living = sum(lane.count for lane in self.lanes if not states or lane.state in states)
        return living + sum(count for state, count in self.finished.items() if not states or state in states)


@value
class DeadGroup:
    """Dead jobs of one type that died of one cause."""

    type: str
    fingerprint: str | None
    count: int
    first_at: datetime
    last_at: datetime
    example: JobId


@value
class Dispatched:
    """A job that is queued: where it stands in line, and how urgent it is there."""

    job_id: JobId
    lane: Lane
    priority: int


class JobStore(Protocol):
    """Where jobs live."""

    async def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        bound: int | None = None,
        entry: Entry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        """Store new jobs and answer each submission, in order.

        One submission that is refused does not hinder the others. An idempotency key makes one job, however often and
        however concurrently it comes, until it has been kept for its time and its job has ended; within one batch too.
        A job without `run_at`, or with a past one, is pending; with a later one scheduled; with unfinished parents
        blocked. A job whose parents have already failed it is stored as cancelled.

        A job that would be pending is refused while as many jobs are pending or queued in its queue as that queue's
        `max_depth` says, or `bound` where the queue says nothing. Never more are let in, however concurrently they
        come; a key that came before is answered all the same.

        In the same transaction `entry` is written to the ledger if any job was made.
        """
        ...

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        """Lease up to `wanted.limit` due jobs to a worker, most urgent first, oldest first among equals.

        Never waits for a row that another worker holds. Never gives a job before its `run_at` (but see below), after
        its `expires_at`, from a paused queue, or of a type or queue that was not asked for; such jobs do not hide those
        behind them.
        Each job returned has a fence greater than any before it and one attempt more. The same `claim_id` again gives
        the jobs of the first time that are still held under it, and no new ones.

        A claim `ahead` that finds nothing due leases jobs that wait for their time instead, those whose time comes
        within that span, the earliest first, and of those whose time is the same the most urgent first, then the
        lowest id; all else holds for them too, and they must not have expired by then. Such a job is stored as starting
        at its `run_at`, its `updated_at` is the moment of the claim, and whoever claims it begins it no earlier. What
        was due before is the promoter's to see to. A job that must run at most once is never given ahead: if its worker
        died while it held it, it would have to end as dead, although it never began.

        A claim that `stays` and finds nothing may be kept, for at most that span, and be given the first due job that
        somebody stores meanwhile, in the transaction that stores it: one of those that it asks for, and none that must
        run at most once, or has one attempt only. Then `watch` tells of it at the place `answer_to` that claim, which
        gives it when asked once more. Who has room for one is given none: a more urgent one may be on its way.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        """Extend the leases whose fence still holds, and answer those.

        An expired lease that nobody has reaped still holds: its worker is late, not gone. The answer says whether the
        job is asked to stop. Progress and log are kept with the attempt.
        """
        ...

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Apply the settlements whose job is still in `source` under `fence`, and return their ids.

        A stale one is no error: the job belongs to someone else now, so its id is simply absent, and nothing of it is
        written, its follow-up included. Nor does a settlement hold that would let a running job run again after it was
        asked to stop, nor one `if_lapsed` while the lease has not run out. `result`, `error` and `reason` replace what
        the job showed before. In the same transaction the follow-up is made, the attempt that ended is remembered, the
        jobs that waited for this one are released or cancelled, and `entry` is written to the ledger if anything was
        applied.
        """
        ...

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Mark the jobs running under these fences as to be cancelled, and return the ids of those that were."""
        ...

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        """Make up to `limit` jobs whose time has come pending, the earliest first; say how many in which queue."""
        ...

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Give up to `limit` running jobs whose lease has run out, the longest expired first. Changes nothing."""
        ...

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Give up to `limit` waiting jobs that were to start before now at the latest. Changes nothing."""
        ...

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Give the jobs with these ids, in the order of `ids`; unknown ones are absent."""
        ...

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Give the jobs that a query asks for, newest first. A page never skips a job that was there all along.

        However long that takes: what a person waits for is better asked for with `find_some`.
        """
        ...

    async def find_some(self, query: JobQuery) -> JobSlice:
        """Give jobs as `find` does, but no more than are found with bounded work, possibly none.

        There are more, or may be, as long as `resume` says where to continue.
        """
        ...

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        """Give a job's attempts, oldest first, the running one included."""
        ...

    async def census(self) -> Census:
        """Count all jobs. Submitted = counted + pruned, always."""
        ...

    async def timetable(self) -> Timetable:
        """Say what time it is, and when upkeep of each kind is needed next."""
        ...

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete up to `limit` finished jobs past their time, with all that belongs to them, and count them.

        A store that keeps its days apart may drop a whole day of many thousands at a stroke beyond that.
        Never touches an unfinished job, nor one that an unfinished job waited for (it may want its result), nor one
        whose idempotency key is still kept. What is past its time but must stay does not hide what is behind it.
        Old history goes too: fire times, the ledger, processes that vanished, claims and keys.
        """
        ...

    async def discard(
        self, ids: Sequence[JobId], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Delete dead and cancelled jobs at an operator's word, and return the ids of those deleted.

        They count as pruned. What an unfinished job waited for, or whose idempotency key is still kept, stays.
        """
        ...

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        """Give the jobs that a job still waits for, oldest first; as many at most."""
        ...

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        """Give the causes that jobs have died of, those with the most deaths first."""
        ...


class LineStore(Protocol):
    """Which jobs are handed over to workers by a broker, and which are taken back from it."""

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        """Make due jobs queued: of each lane as many as there is room for, most urgent first, and give them.

        Only what a claim could take: nothing before its `run_at`, after its `expires_at`, or from a paused queue. Never
        waits for a row that another holds. The lanes come in the order of `room`.
        """
        ...

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        """Make those of some jobs that are queued pending again, in their old turn, and give their ids.

        What is not queued stays as it is; so does what somebody is claiming at this moment.
        """
        ...

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        """Give up to `limit` jobs that have been queued for at least so long, by id, those behind `after`."""
        ...


class ScheduleStore(Protocol):
    """Where schedules live, and what became of each fire time."""

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Create (version 0) or replace schedules whose version still holds, and return the ids of those written.

        A name belongs to one schedule: a new one with a name that is taken is absent from the answer. What is written
        has a version one greater. Fire times already recorded stay recorded.
        """
        ...

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        """Give schedules by id or by name; with neither, all of them ordered by name, those behind `after`."""
        ...

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        """Give up to `limit` schedules whose fire time has come and which are not paused, the earliest first."""
        ...

    async def fire(
        self, firings: Sequence[Firing], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Write firings down, each whole or not at all, and return the ids of the jobs made.

        A firing holds only while the schedule is as it was planned from. A fire time makes at most one job, ever: one
        that is already recorded makes none, unless it was recorded as missed. The next fire time is moved in the same
        transaction. `cancels` are cancelled, or asked to stop where they run, unless no job was made that could take
        their place. In the same transaction `entry` is written to the ledger if any job was made.
        """
        ...

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Delete schedules and their record of fire times; jobs they made stay. Return the ids deleted."""
        ...

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        """Give what became of a schedule's fire times, newest first."""
        ...


class StepStore(Protocol):
    """Where guarded steps are written down."""

    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        """Write down the intent to perform a step, and say whether it is new.

        A step that is already there is returned as it is. None when the fence no longer holds: nothing was written.
        """
        ...

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        """Write down that a step's effect happened. Only under a fence that holds; None otherwise.

        A step that is already done keeps its first outcome.
        """
        ...

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        """Forget the intent to perform a step whose effect surely did not happen, and say whether that was done.

        Only under a fence that holds. A step that is done stays done.
        """
        ...

    async def resolve(self, resolution: Resolution, *, entry: Entry | None = None, now: datetime | None = None) -> bool:
        """Write down an operator's word about a step in doubt, and say whether it was.

        Only while its job does not run: the attempt would decide by itself. A step that is done stays done.
        """
        ...

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        """Give a job's steps in the order in which they began."""
        ...


class FleetStore(Protocol):
    """Where processes make themselves known, queues have their settings, and one of many leads."""

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        """Record that these processes are alive, as they describe themselves."""
        ...

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        """Give the processes on record, of a role, seen at or after a moment; ordered by name and start."""
        ...

    async def leave(self, boots: Iterable[str]) -> None:
        """Forget processes that said goodbye."""
        ...

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        """Take or keep the lead if nobody else holds it, and say who leads.

        At most one holder at a time by the store's clock; the term grows whenever the holder changes.
        """
        ...

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        """Say who leads; None when nobody does. Changes nothing."""
        ...

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up at once, if it is held by `holder`."""
        ...

    async def check_in(self, told: CheckIn, *, now: datetime | None = None) -> Bearings:
        """Record that processes are alive as `beat` does, take or keep a lead as `lead` does, and say what is known.

        With nobody who would lead it says who does, as `leader`. If the lead changes at this very moment, it may know
        of nobody; never of one whose time is over. One statement, where a store can do it in one: every process does
        this every few seconds.
        """
        ...

    async def put_queue(self, queue: Queue, *, entry: Entry | None = None, now: datetime | None = None) -> bool:
        """Write a queue's settings if their version still holds; False if they were changed meanwhile."""
        ...

    async def queues(self) -> Sequence[Queue]:
        """Give the queues that have settings, by name."""
        ...


class LedgerStore(Protocol):
    """Where operators' acts and the keys to the API are kept."""

    async def record(self, entries: Sequence[Entry], *, now: datetime | None = None) -> None:
        """Append entries to the ledger, each bound to the one before it."""
        ...

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[Entry]:
        """Give the ledger's entries, newest first."""
        ...

    async def put_tokens(self, tokens: Sequence[Token], *, entry: Entry | None = None) -> None:
        """Create or replace tokens by id."""
        ...

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        """Give tokens by id; all of them without."""
        ...


class Store(JobStore, LineStore, ScheduleStore, StepStore, FleetStore, LedgerStore, Protocol):
    """All of it, as one adapter provides it."""

    @property
    def by_hand(self) -> Store | None:
        """The same store for callers without a loop: its verbs work on the calling thread, block, and never suspend.

        A store that has this may be used from any thread and any loop at once, and what comes together still shares a
        commit. None where the work needs a loop.
        """
        ...

    @property
    def keeps_claims(self) -> bool:
        """Whether a claim that stays may be answered by whoever stores a job, see `claim`."""
        ...

    def brought(self, wanted: Claim) -> Sequence[Job]:
        """Give what was brought for a worker whose claim stays, once, if it is at hand; `claim` gives it anyway."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of the database."""
        ...

    async def time(self) -> datetime:
        """Tell the time by the store's own clock: what will be due is reckoned from it, on whichever host that is."""
        ...

    def hear_work(self) -> None:
        """Have whoever watches told of new work too, from now on: somebody wants to know of it."""
        ...

    async def watch(self, at_most: timedelta, heed: Heed | None = None) -> Collection[str]:
        """Wait until another process may have changed something, at most for a while; say at which places.

        Places are queues in which there may be work, and those of `rota.ports.places`; none when the time has passed.
        Of work nobody need be told here before somebody has asked this store for some, by a claim or by `hear_work`.
        A store that hears at once may tell `heed` instead, on the caller's loop and as often as it hears of something
        meanwhile; what it has told so, it does not give as well. `heed` neither waits nor raises.
        """
        ...

    async def check(self) -> Sequence[str]:
        """Look for damage; give one sentence for each finding, none when all is well."""
        ...
