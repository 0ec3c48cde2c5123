"""Values of the store port: answers to submissions, job queries and slices, retention, timetable, counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import repeat
from typing import Final, final, overload

from rota.core.ids import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, State
from rota.core.queue import Lane, LaneCount
from rota.core.search.terms import Term
from rota.core.submission import Need
from rota.core.value import value

#: How far the time in an id may differ from the time at which the job was stored.
CLOCK_SLACK: Final = timedelta(hours=1)
#: How long after its end the completion of a job is stored at the latest: transactions are given up sooner.
LATEST_COMMIT: Final = timedelta(seconds=30)


class Receipt(StrEnum):
    """The result of a submission."""

    CREATED = "created"
    #: The idempotency key was used before with the same request: the answer is the job it made.
    REPLAYED = "replayed"
    #: The idempotency key was used before with another request: no job was made.
    KEY_REUSED = "key_reused"
    #: Another job has this id: no job was made; take another id.
    ID_TAKEN = "id_taken"
    #: The queue has reached its bound: no job was made; try again later.
    QUEUE_FULL = "queue_full"
    #: A job with the same unique key counts: the answer is that job.
    UNIQUE_CONFLICT = "unique_conflict"
    #: A job of the same throttle key was made within its period: the answer is that job.
    THROTTLED = "throttled"
    #: A job of the same debounce key waits: it got this payload and is the answer.
    DEBOUNCED = "debounced"
    #: As many jobs of its key run or wait as may run at once: no job was made; the answer is the oldest of these.
    DROPPED = "dropped"


#: Submissions that made no job and were answered with an earlier one.
ANSWERED: Final = frozenset(
    {Receipt.REPLAYED, Receipt.UNIQUE_CONFLICT, Receipt.THROTTLED, Receipt.DEBOUNCED, Receipt.DROPPED}
)


@value
class Inserted:
    """The answer to one submission: its job and the state of that job.

    If the queue is full, there is no such job, and `state` is the one that it would have had. `at` is the creation time
    by the store's clock, if this submission made the job.
    """

    job_id: JobId
    receipt: Receipt
    state: State
    at: datetime | None = field(default=None, compare=False)


@final
class AllCreated(Sequence[Inserted]):
    """The answers to a batch in which every submission made a job, all in one state: the usual case.

    Single answers are made only when they are read.
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


#: The position of a dependency of a job on a child that it called. Those that a job was submitted with begin at 0.
CALL_POSITION: Final = -1


@value
class Ahead:
    """How many jobs are claimed before a pending one, and how many of them have a higher priority."""

    count: int
    higher: int


@value
class Edge:
    """A dependency as it is stored: `child` waits, or waited, for `parent`."""

    parent: JobId
    child: JobId
    need: Need
    is_met: bool


@value
class Position:
    """Where a list of jobs continues: after this job. `finished_at` only in lists that are ordered by it."""

    job_id: JobId
    finished_at: datetime | None = None


@value
class JobQuery:
    """A filter over jobs, newest first. Fields that are left out do not filter. `before` continues after a job.

    A list of finished states only is ordered by the end of the jobs, the last first, unless it filters by tag, schedule
    or fingerprint; then `before` needs `finished_before`, the end of that job. `created_from` and `created_until` use
    the time in the ids: a job whose submitter's clock was off by more than `CLOCK_SLACK` may be missed. With `ids` only
    these jobs are read. `terms` have no index: they are evaluated on the rows that the other filters give. With
    `is_light`, payloads and results are not read and show as null: they may have a megabyte each. With `is_count`,
    `find_some` only counts the jobs; it takes no `terms`.
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
    ids: tuple[JobId, ...] = ()
    terms: tuple[Term, ...] = ()
    before: JobId | None = None
    finished_before: datetime | None = None
    limit: int = 100
    is_light: bool = False
    is_count: bool = False

    @property
    def is_by_finish(self) -> bool:
        """Whether the list is ordered by the end of the jobs."""
        has_index_by_id = self.ids or not (self.tag is None and self.schedule_id is None and self.fingerprint is None)
        return bool(self.states) and FINISHED.issuperset(self.states) and not has_index_by_id

    def keeps(self, job: Job) -> bool:
        """Whether all terms hold for a job that the other filters gave."""
        return all(term.matches(job) for term in self.terms)

    def behind(self, position: Position) -> JobQuery:
        """Return the query for what follows a position."""
        return replace(self, before=position.job_id, finished_before=position.finished_at)

    def position_of(self, job: Job) -> Position:
        """Return where this list continues after a job."""
        return Position(job.id, job.finished_at if self.is_by_finish else None)


@value
class JobSlice:
    """A part of a list: jobs, or their number if the query only counts, and where to continue; None at the end."""

    jobs: Sequence[Job]
    resume: Position | None
    count: int = 0


@value
class Retention:
    """How long finished jobs are kept, by state; None keeps them for ever."""

    completed: timedelta | None = timedelta(hours=24)
    cancelled: timedelta | None = timedelta(hours=24)
    dead: timedelta | None = timedelta(days=30)
    #: How long fire times, ledger entries and records of stopped processes are kept.
    history: timedelta | None = timedelta(days=90)


@value
class TableSize:
    """The size of a table, with its indexes, or of a file. `rows` is an estimate; None if the store has none."""

    name: str
    bytes: int
    rows: int | None = None


@value
class StoreCondition:
    """The condition of a store itself: its schema, its disk, and whether retention keeps up."""

    #: Migrations of this release that the database lacks, and applied ones that this release does not know.
    missing_migrations: tuple[str, ...] = ()
    unknown_migrations: tuple[str, ...] = ()
    #: The end of the oldest job that `prune` would delete; None if there is none.
    oldest_prunable: datetime | None = None
    #: Free bytes on the disk of the database; None if the store does not report it.
    free_bytes: int | None = None


@value
class Timetable:
    """The store's time, and when upkeep of each kind is needed next; None if nothing waits for it."""

    now: datetime
    #: When the next job that waits for its time is due.
    job: datetime | None = None
    #: When the next lease lapses.
    lease: datetime | None = None
    #: When the next waiting job expires.
    expiry: datetime | None = None
    #: When the next schedule fires.
    schedule: datetime | None = None
    #: When the next wait for an event ends by its time.
    wait: datetime | None = None

    @property
    def first(self) -> datetime | None:
        """The earliest of all."""
        times = (self.job, self.lease, self.expiry, self.schedule, self.wait)
        return min((at for at in times if at is not None), default=None)


@value
class CompletedCount:
    """How many completed jobs had ended by a time, and how many completed jobs had been pruned when they were counted.

    A completed job never changes and leaves only by being pruned, so the next count needs to read those that ended
    later alone.
    """

    until: datetime
    count: int
    pruned: int


@value
class Census:
    """Counts of all jobs: unfinished by lane and state, finished by state, and pruned.

    `completed` makes the next count cheaper, see `Store.census`.
    """

    lanes: tuple[LaneCount, ...]
    finished: Mapping[State, int]
    pruned: Mapping[State, int]
    completed: CompletedCount | None = None

    def total(self, *states: State) -> int:
        """Count the jobs in some states; in any, if none is given."""
        living = sum(lane.count for lane in self.lanes if not states or lane.state in states)
        return living + sum(count for state, count in self.finished.items() if not states or state in states)


@value
class DeadGroup:
    """Dead jobs of one type and one cause."""

    type: str
    fingerprint: str | None
    count: int
    first_at: datetime
    last_at: datetime
    example: JobId


@value
class DeathCount:
    """How many dead jobs of one type and one cause died in one step of time, counted from a moment on."""

    type: str
    fingerprint: str | None
    step: int
    count: int


@value
class DeadNote:
    """An operator's note on dead jobs of one type and one cause; without a text, its removal."""

    type: str
    #: Empty for jobs that died without an error.
    fingerprint: str
    text: str | None = None
    set_by: str = ""
    set_at: datetime | None = None


@value
class Dispatched:
    """A queued job, its lane and its priority."""

    job_id: JobId
    lane: Lane
    priority: int
