"""Daily partitions of finished jobs: created ahead of time, and dropped as a whole after retention.

Ids are ordered by time, so a day is a range of ids, and rota_job_done is partitioned by it. To delete a day job by job
would write as much again as its jobs did, and leave the space to be vacuumed; to drop it costs next to nothing. The
jobs of a day that must be kept (dead jobs are kept longer, a job may be the parent of an unfinished one) are moved to
the default partition first. Adding and dropping need a lock that blocks all others, so both wait for it only briefly,
and are tried again another time. Functions of the database do both with the rights of the tables' owner: the role that
runs Rota may not create or drop tables (see `grants`).

Statements for one partition: an insert reads the partition in which its id would be, to check that the id is free. A
generic plan takes a lock of every partition for every job: with a month of them, up to a third of what the server does
to store one. Only constants in the text of a statement make the planner leave partitions out. So inserts are prepared
for the range of ids of one day (see `statements`), and an id outside that range is not stored by them but takes the
general statement. This check cannot be skipped, not even for an id that was made just now: another process may have
made the same one by chance, with a clock that is a little ahead, and its job may have ended. If a partition is added or
dropped, the server plans again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from asyncpg.exceptions import LockNotAvailableError

from rota.core.errors import StoreUnavailable
from rota.core.ids import LARGEST, JobId, compose
from rota.core.lifecycle import State
from rota.core.time import from_micros, span_to_micros, to_micros
from rota.ports.clock import Clock
from rota.ports.store import Retention
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import ALL_IDS, id_range
from rota.stores.postgres.upkeep import kept_for
from rota.stores.postgres.workflows import delete_empty, keep_ends_between
from rota.stores.rows import Row

#: How many days ahead there are partitions: upkeep may be away for a while.
DAYS_AHEAD: Final = 3
#: A day with fewer jobs is not worth the lock: it is deleted job by job.
MIN_DROPPED: Final = 10_000
#: A day with more jobs to keep is not dropped: most of it would be moved.
MAX_MOVED: Final = 10_000
_TABLE: Final = "rota_job_done"
_DAY: Final = timedelta(days=1)
_LOCK: Final = 0x726F7462
#: For reading all jobs of a day; only that day is locked meanwhile.
_SECONDS: Final = 600.0
_DELETIONS: Final = (
    "delete_attempts_between",
    "delete_steps_between",
    "delete_waiters_between",
    "delete_tags_between",
    "delete_keys_between",
    "delete_dependencies_between",
)


@dataclass(frozen=True, slots=True)
class DayPartition:
    """The partition of one day: its name and its range of ids."""

    name: str
    lowest: int
    beyond: int


def partition_of(moment: datetime) -> DayPartition:
    start = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return DayPartition(f"{_TABLE}_{start:%Y%m%d}", _first_id(start), _first_id(start + _DAY))


def _first_id(moment: datetime) -> int:
    return compose(to_micros(moment) // 1000, 0)


async def maintain(session: Session, retention: Retention, now: int) -> int:
    """Add the partitions to come, drop one that is past its retention, and count the jobs that were deleted."""
    try:
        await add_partitions(session, now)
        return await drop_partition(session, retention, now)
    except LockNotAvailableError as error:
        raise StoreUnavailable(
            "PostgreSQL: other sessions use the table of finished jobs; its partitions are changed later"
        ) from error


async def add_partitions(session: Session, now: int) -> list[str]:
    """Add the partitions of today and of the days ahead, and return the names of the new ones."""
    existing = set(await session.values("day_partitions"))
    needed = [partition_of(from_micros(now) + number * _DAY) for number in range(DAYS_AHEAD + 1)]
    missing = [day for day in needed if day.name not in existing and day.lowest < day.beyond]
    if not missing:
        return []
    await _take_lock(session)
    existing = set(await session.values("day_partitions"))
    added = []
    for day in missing:
        # Jobs that ended before their partition was added stay in the default partition.
        if day.name not in existing and not await session.values("default_partition_between", day.lowest, day.beyond):
            await session.rows("add_partition", day.name, day.lowest, day.beyond)
            added.append(day.name)
    return added


async def drop_partition(session: Session, retention: Retention, now: int) -> int:
    """Drop the oldest partition whose jobs are past their retention, and count the jobs that were deleted."""
    if retention.completed is None or retention.cancelled is None:
        return 0
    before = now - span_to_micros(max(retention.completed, retention.cancelled))
    for name in await session.values("day_partitions"):
        day = partition_of(datetime.strptime(name.removeprefix(f"{_TABLE}_"), "%Y%m%d").replace(tzinfo=UTC))
        if day.beyond > _first_id(from_micros(before)):
            return 0
        if await session.values("has_many_between", day.lowest, day.beyond, MIN_DROPPED):
            return await _drop(session, day, _limits(retention, now), now)
    return 0


def _limits(retention: Retention, now: int) -> dict[State, int]:
    """Return for each state the time at or before which a job must have ended to be past its retention."""
    return {state: now - span_to_micros(kept) for state, kept in kept_for(retention).items() if kept is not None}


async def _drop(session: Session, day: DayPartition, limits: dict[State, int], now: int) -> int:
    await _take_lock(session)
    # A whole day is read, so the planner may choose for itself.
    await session.execute("SET LOCAL enable_hashjoin = on; SET LOCAL enable_seqscan = on")
    # No job of this day may be retried meanwhile.
    await session.rows("lock_partition", day.name)
    arguments = (now, day.lowest, day.beyond, [state.value for state in limits], list(limits.values()))
    kept = [row[0] for row in await session.rows("kept_between", *arguments, MAX_MOVED + 1, seconds=_SECONDS)]
    if len(kept) > MAX_MOVED:
        return 0
    emptied = await keep_ends_between(session, day.lowest, day.beyond, kept, _SECONDS)
    for deletion in _DELETIONS:
        await session.run(deletion, day.lowest, day.beyond, kept, seconds=_SECONDS)
    counts = await session.rows("count_between", day.lowest, day.beyond, kept, seconds=_SECONDS)
    await session.rows("drop_partition", day.name, kept, seconds=_SECONDS)
    await delete_empty(session, emptied)
    return await _add_pruned(session, counts)


async def _add_pruned(session: Session, counts: Sequence[Row]) -> int:
    for state, count in counts:
        await session.run("add_pruned", state, count)
    return sum(count for _, count in counts)


async def _take_lock(session: Session) -> None:
    """Let one process at a time change partitions, and give up soon if other sessions are in the way.

    While we wait for a table lock, every later session waits behind us: behind a dump of the database, for long.
    """
    await session.execute(f"SET LOCAL lock_timeout = '200ms'; SELECT pg_advisory_xact_lock({_LOCK})")


class TodayPartition:
    """Chooses statements for the partition of today, in which nearly all new jobs are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first, self._last = 1, 0
        self._id_range = ALL_IDS

    def id_range(self, first: JobId, last: JobId) -> str:
        """Return the suffix of a statement's name for a range of ids; that of all ids unless the range is of today."""
        if first < self._first or last > self._last:
            self._change_day()
            if first < self._first or last > self._last:
                return ALL_IDS
        return self._id_range

    def _change_day(self) -> None:
        today = partition_of(self._clock())
        self._first, self._last = today.lowest, min(today.beyond - 1, LARGEST)
        self._id_range = id_range(self._first, self._last)
