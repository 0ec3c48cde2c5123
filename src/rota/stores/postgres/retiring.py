"""The archive's days: adding those to come, and dropping those past their time as a whole.

Ids are ordered by time, so a day is a range of ids, and the archive is cut by it. To delete a day job by job would
write as much again as its jobs did, and leave the space to be cleared; to drop it costs next to nothing. What must stay
of such a day (the dead are kept longer, somebody's parent may be among them) is moved to `job_done_rest` first.

Both need a lock that everybody else waits for. So both wait for it only briefly, and come again another time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from asyncpg.exceptions import LockNotAvailableError

from rota.core.errors import StoreUnavailable
from rota.core.identity import compose
from rota.core.instant import from_micros, span_to_micros, to_micros
from rota.core.lifecycle import State
from rota.ports.store import Retention
from rota.stores.postgres.session import Session
from rota.stores.postgres.upkeep import kept_for
from rota.stores.rows import Row

#: How many days there are ahead: upkeep may be away for a while.
AHEAD: Final = 3
#: Below so many jobs a day is not worth a lock: it is deleted job by job.
WHOLE: Final = 10_000
#: More than so many that must stay are not moved: most of the day would.
MOST_MOVED: Final = 10_000
_DAY: Final = timedelta(days=1)
_LOCK: Final = 0x726F7462
#: For a look at all jobs of a day; meanwhile only that day is held.
_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Day:
    """One part of the archive."""

    name: str
    lowest: int
    beyond: int


def day_of(moment: datetime) -> Day:
    """Give the day of a moment."""
    start = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return Day(f"job_done_{start:%Y%m%d}", _first_id(start), _first_id(start + _DAY))


def _first_id(moment: datetime) -> int:
    return compose(to_micros(moment) // 1000, 0)


async def tend(session: Session, retention: Retention, now: int) -> int:
    """Add the days to come, drop one that is past its time, and count the jobs deleted thereby."""
    try:
        await add_days(session, now)
        return await drop_day(session, retention, now)
    except LockNotAvailableError as error:
        raise StoreUnavailable(
            "PostgreSQL: others use the archive at the moment; its days change another time"
        ) from error


async def add_days(session: Session, now: int) -> list[str]:
    """Add today and the days ahead to the archive, and give the names of those that were added."""
    known = set(await session.values("days"))
    wanted = [day_of(from_micros(now) + number * _DAY) for number in range(AHEAD + 1)]
    missing = [day for day in wanted if day.name not in known and day.lowest < day.beyond]
    if not missing:
        return []
    await _take_lock(session)
    known = set(await session.values("days"))
    added = []
    for day in missing:
        # Jobs of a day that came too late for it stay where they are.
        if day.name not in known and not await session.values("rest_between", day.lowest, day.beyond):
            await session.say(
                f"CREATE TABLE {day.name} PARTITION OF job_done FOR VALUES FROM ({day.lowest}) TO ({day.beyond})"
            )
            added.append(day.name)
    return added


async def drop_day(session: Session, retention: Retention, now: int) -> int:
    """Drop the oldest day whose jobs are past their time, and count what was deleted thereby."""
    if retention.completed is None or retention.cancelled is None:
        return 0
    before = now - span_to_micros(max(retention.completed, retention.cancelled))
    for name in await session.values("days"):
        day = day_of(datetime.strptime(name.removeprefix("job_done_"), "%Y%m%d").replace(tzinfo=UTC))
        if day.beyond > _first_id(from_micros(before)):
            return 0
        if await session.values("many_between", day.lowest, day.beyond, WHOLE):
            return await _drop(session, day, _limits(retention, now), now)
    return 0


def _limits(retention: Retention, now: int) -> dict[State, int]:
    """Say for each state which jobs are past their time: those that ended then or before."""
    return {state: now - span_to_micros(kept) for state, kept in kept_for(retention).items() if kept is not None}


async def _drop(session: Session, day: Day, limits: dict[State, int], now: int) -> int:
    await _take_lock(session)
    # A day is looked at as a whole, so here the planner may think for itself.
    await session.say("SET LOCAL enable_hashjoin = on; SET LOCAL enable_seqscan = on")
    # Nobody may send a job of this day back to work while we look.
    await session.say(f"LOCK TABLE {day.name} IN SHARE ROW EXCLUSIVE MODE")
    arguments = (now, day.lowest, day.beyond, [state.value for state in limits], list(limits.values()))
    staying = [row[0] for row in await session.rows("needed_between", *arguments, MOST_MOVED + 1, seconds=_SECONDS)]
    if len(staying) > MOST_MOVED:
        return 0
    for belonging in ("attempt", "step", "tag", "idempotency"):
        await session.run(f"drop_{belonging}_between", day.lowest, day.beyond, staying, seconds=_SECONDS)
    await session.run("drop_dependency_between", day.lowest, day.beyond, staying, seconds=_SECONDS)
    counts = await session.rows("count_between", day.lowest, day.beyond, staying, seconds=_SECONDS)
    await session.say(f"ALTER TABLE job_done DETACH PARTITION {day.name}")
    await session.say(f"INSERT INTO job_done SELECT * FROM {day.name} WHERE id = ANY($1::bigint[])", staying)  # noqa: S608 - a date
    await session.say(f"DROP TABLE {day.name}")
    return await _count(session, counts)


async def _count(session: Session, counts: Sequence[Row]) -> int:
    for state, count in counts:
        await session.run("count_pruned", state, count)
    return sum(count for _, count in counts)


async def _take_lock(session: Session) -> None:
    """Let one process at a time change the archive's days, and give up soon if others are in the way.

    While we wait for a table, everybody who comes later waits behind us: behind a dump of the database, for long.
    """
    await session.say(f"SET LOCAL lock_timeout = '200ms'; SELECT pg_advisory_xact_lock({_LOCK})")
