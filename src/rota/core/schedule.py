"""Schedules: recurring rules that make exactly one job per fire time.

`plan` decides which jobs a due schedule makes. It is pure and depends only on the schedule's row, so any number of
schedulers come to the same plan, and the store applies it once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.core import cron
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, ScheduleId
from rota.core.submission import Dependency, Need, NewJob, Template
from rota.core.time import MICROSECOND, span_to_micros, to_micros

#: The most jobs that one catch-up makes.
LARGEST_CATCH_UP: Final = 1000
#: How many of the fire times that a catch-up skips are recorded, the newest.
LARGEST_RECORD: Final = 100
#: A fire time counts as on time for at least this long, since a scheduler needs time to read and write it.
ON_TIME: Final = timedelta(seconds=1)


class CatchUp(StrEnum):
    """What to do about fire times that were missed while no scheduler ran."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What to do when a fire time comes while the previous job is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_PREVIOUS = "cancel_previous"


class Fate(StrEnum):
    """How a fire time was handled."""

    FIRED = "fired"
    OVERLAPPED = "overlapped"
    BLACKED_OUT = "blacked_out"
    #: Skipped by the catch-up policy; a backfill can make its job.
    MISSED = "missed"
    #: Skipped by an operator ahead of its time.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Blackout:
    """A period without fire times: once from `start`, or after every fire time of `rule`, for `lasting`."""

    lasting: timedelta
    start: datetime | None = None
    rule: str | None = None

    def __post_init__(self) -> None:
        if (self.start is None) == (self.rule is None):
            raise InvalidRequest("blackout: give either 'start' or 'rule'", field="blackouts")
        if self.lasting <= timedelta(0):
            raise InvalidRequest(f"blackout: 'lasting' must be positive, not {self.lasting}", field="blackouts")

    def covers(self, moment: datetime, zone: ZoneInfo) -> bool:
        """Whether `moment` lies within; a rule is read in the schedule's zone."""
        if self.start is not None:
            return self.start <= moment < self.start + self.lasting
        return rule_of(self.rule or "").next((moment - self.lasting).astimezone(zone)) <= moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The fields of a schedule that a user sets."""

    name: str
    rule: str
    template: Template
    zone: str = "UTC"
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: int = 100
    #: Under `skip`: how late a fire time may be and still fire, if a scheduler was up when it came. At least `ON_TIME`.
    grace: timedelta = timedelta(seconds=60)
    overlap: Overlap = Overlap.ALLOW
    jitter: timedelta = timedelta(0)
    start_at: datetime | None = None
    end_at: datetime | None = None
    blackouts: tuple[Blackout, ...] = ()
    paused_at: datetime | None = None
    pause_reason: str | None = None
    #: The app whose code defines it; None if an operator created it.
    app: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Draft):
    """A recurring rule as it is stored. `version` grows with every edit and guards against lost updates."""

    id: ScheduleId
    created_at: datetime
    updated_at: datetime
    next_fire_at: datetime | None = None
    last_fire_at: datetime | None = None
    last_job_id: JobId | None = None
    version: int = 0

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first fire time strictly after `moment`, in UTC, or None when the schedule has ended."""
        start = moment if self.start_at is None else max(moment, self.start_at - MICROSECOND)
        # Back to UTC at once: Python's arithmetic within a zone counts the wall clock, not time.
        fire_time = rule_of(self.rule).next(start.astimezone(zone_of(self.zone))).astimezone(UTC)
        return None if self.end_at is not None and fire_time > self.end_at else fire_time

    def preview(self, moment: datetime, count: int) -> list[datetime]:
        """Return the next `count` fire times after `moment` that will make a job, fewer when the schedule ends before.

        Fire times in a blackout make none; at most `LARGEST_CATCH_UP` are skipped, since a blackout may never end.
        """
        times: list[datetime] = []
        at: datetime | None = moment
        for _ in range(count + LARGEST_CATCH_UP):
            if len(times) == count or at is None or (at := self.next_after(at)) is None:
                break
            if not self.is_blacked_out(at):
                times.append(at)
        return times

    @property
    def next_run_at(self) -> datetime | None:
        """The next fire time that will make a job: `next_fire_at`, unless that lies in a blackout."""
        if self.next_fire_at is None or not self.is_blacked_out(self.next_fire_at):
            return self.next_fire_at
        return next(iter(self.preview(self.next_fire_at, 1)), None)

    def is_blacked_out(self, fire_time: datetime) -> bool:
        """Whether a fire time makes no job because it lies in a blackout."""
        return any(blackout.covers(fire_time, zone_of(self.zone)) for blackout in self.blackouts)

    def run_at(self, fire_time: datetime) -> datetime:
        """Return when the job of a fire time may start. The jitter is derived from the fire time itself.

        Two schedulers that plan the same fire time must make the same job.
        """
        if not self.jitter:
            return fire_time
        seed = blake2b(f"{self.id}:{to_micros(fire_time)}".encode(), digest_size=8).digest()
        return fire_time + timedelta(microseconds=int.from_bytes(seed) % span_to_micros(self.jitter))


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The record of one fire time, and the job it made."""

    schedule_id: ScheduleId
    fire_time: datetime
    fate: Fate
    job_id: JobId | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """What a scheduler writes for a schedule, all of it or nothing.

    It is applied only while the schedule's version and next fire time are those it was planned from. A backfill leaves
    the next fire time alone and only needs the same version.
    """

    schedule_id: ScheduleId
    version: int
    planned_for: datetime | None
    occurrences: tuple[Occurrence, ...]
    jobs: tuple[NewJob, ...]
    next_fire_at: datetime | None
    cancels: tuple[JobId, ...] = ()
    is_backfill: bool = False


@lru_cache(maxsize=4096)
def rule_of(text: str) -> cron.CronExpression:
    """Parse a rule; cached, since a scheduler uses the same few rules again and again."""
    return cron.parse(text)


#: Names that mean another zone on another host. The copies of all zones under posix/ and right/ (with leap seconds) are
#: refused as well.
_OF_THE_HOST: Final = frozenset({"localtime", "posixrules"})


def zone_of(name: str) -> ZoneInfo:
    """Find an IANA zone, or refuse the name."""
    try:
        if name.startswith(("posix/", "right/")) or name in _OF_THE_HOST:
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"zone: {ascii(name)[:80]} is not an IANA time zone; write e.g. 'Europe/Berlin'"
        raise InvalidRequest(message, field="zone") from None


def plan(
    schedule: Schedule,
    now: datetime,
    *,
    previous_is_active: bool,
    fresh_id: Callable[[], JobId],
    up_since: datetime | None = None,
) -> Firing:
    """Decide about the due fire times of a schedule: which make jobs, which do not, and when it is due next.

    `up_since` is when the calling scheduler started: fire times before that count as missed.
    """
    owed = _owed(schedule, now)
    missed = _missed(schedule, owed, now, up_since)
    # If a scheduler with a slow clock plans too early, moving the fire time back would fire it twice.
    next_fire_at = schedule.next_after(now) if owed or _is_due(schedule, now) else schedule.next_fire_at
    previous = schedule.last_job_id if previous_is_active else None
    return _firing(schedule, now, owed, next_fire_at, previous, fresh_id, missed=missed)


def is_left_to_others(schedule: Schedule, now: datetime, up_since: datetime) -> bool:
    """Whether a scheduler that has just started leaves a due schedule alone for the moment.

    Under `skip` it would count the fire time as missed, while another scheduler may be about to fire it.
    """
    if schedule.catch_up is not CatchUp.SKIP or schedule.next_fire_at is None or now - up_since > ON_TIME:
        return False
    newest = _latest(schedule, schedule.next_fire_at, now)
    return newest is not None and newest <= up_since and now - newest <= ON_TIME


def backfill(
    schedule: Schedule, start: datetime, end: datetime, now: datetime, *, fresh_id: Callable[[], JobId]
) -> Firing:
    """Decide which jobs the fire times of a past period make. Fire times that have made a job make no second one.

    The jobs are due now at the earliest. Jobs that must not overlap run one after the other.
    """
    overlap = Overlap.ALLOW if schedule.overlap is Overlap.ALLOW else Overlap.QUEUE
    firing = _firing(
        replace(schedule, overlap=overlap), now, _within(schedule, start, end), None, None, fresh_id, run_at=now
    )
    return replace(firing, planned_for=None, is_backfill=True)


def _within(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    times: list[datetime] = []
    at = schedule.next_after(start - MICROSECOND)
    while at is not None and at <= end:
        times.append(at)
        if len(times) > LARGEST_CATCH_UP:
            raise InvalidRequest(f"backfill: more than {LARGEST_CATCH_UP} fire times; take a shorter range", field="to")
        at = schedule.next_after(at)
    return times


def _is_due(schedule: Schedule, now: datetime) -> bool:
    return schedule.next_fire_at is not None and schedule.next_fire_at <= now


def _firing(
    schedule: Schedule,
    now: datetime,
    times: list[datetime],
    next_fire_at: datetime | None,
    previous: JobId | None,
    fresh_id: Callable[[], JobId],
    *,
    run_at: datetime | None = None,
    missed: Collection[datetime] = (),
) -> Firing:
    occurrences: list[Occurrence] = []
    jobs: list[NewJob] = []
    cancels: list[JobId] = []
    for fire_time in times:
        fate = Fate.MISSED if fire_time in missed else _fate(schedule, fire_time, previous)
        job_id = None
        if fate is Fate.FIRED:
            if previous is not None and schedule.overlap is Overlap.CANCEL_PREVIOUS:
                cancels.append(previous)
            job = _job(
                schedule, fire_time, now, fresh_id(), previous, max(run_at or fire_time, schedule.run_at(fire_time))
            )
            jobs.append(job)
            previous = job_id = job.id
        occurrences.append(Occurrence(schedule.id, fire_time, fate, job_id))
    return Firing(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_for=schedule.next_fire_at,
        occurrences=tuple(occurrences),
        jobs=tuple(jobs),
        next_fire_at=next_fire_at,
        cancels=tuple(cancels),
    )


def _fate(schedule: Schedule, fire_time: datetime, previous: JobId | None) -> Fate:
    if schedule.is_blacked_out(fire_time):
        return Fate.BLACKED_OUT
    if previous is not None and schedule.overlap is Overlap.SKIP:
        return Fate.OVERLAPPED
    return Fate.FIRED


def _job(
    schedule: Schedule,
    fire_time: datetime,
    now: datetime,
    job_id: JobId,
    previous: JobId | None,
    run_at: datetime,
) -> NewJob:
    waits = previous is not None and schedule.overlap is Overlap.QUEUE
    return schedule.template.make(
        job_id,
        now,
        run_at=run_at,
        schedule_id=schedule.id,
        fire_time=fire_time,
        after=(Dependency(previous, Need.END),) if waits and previous is not None else (),
    )


def _owed(schedule: Schedule, now: datetime) -> list[datetime]:
    """List the due fire times to handle, oldest first: those that make jobs, and the newest of the skipped ones."""
    first = schedule.next_fire_at
    if first is None or not _is_due(schedule, now):
        return []
    return _up_to(schedule, first, now, _most_made(schedule) + LARGEST_RECORD)


def _most_made(schedule: Schedule) -> int:
    return min(schedule.catch_up_limit, LARGEST_CATCH_UP) if schedule.catch_up is CatchUp.ALL else 1


def _missed(
    schedule: Schedule, owed: Sequence[datetime], now: datetime, up_since: datetime | None
) -> frozenset[datetime]:
    """Return the due fire times that the catch-up policy skips. Those in a blackout are not missed."""
    candidates = [fire_time for fire_time in owed if not schedule.is_blacked_out(fire_time)]
    if schedule.catch_up is CatchUp.SKIP:
        is_newest_made = bool(candidates) and _is_on_time(schedule, candidates[-1], owed[-1], now, up_since)
        return frozenset(candidates[:-1] if is_newest_made else candidates)
    return frozenset(candidates[: max(len(candidates) - _most_made(schedule), 0)])


def _is_on_time(
    schedule: Schedule, fire_time: datetime, newest: datetime, now: datetime, up_since: datetime | None
) -> bool:
    """Whether a fire time fires under `skip`: the newest, if it came while a scheduler was up and is not too late."""
    came_while_up = up_since is None or fire_time > up_since
    return fire_time == newest and came_while_up and now - fire_time <= max(schedule.grace, ON_TIME)


def _up_to(schedule: Schedule, start: datetime, end: datetime, limit: int) -> list[datetime]:
    """List the newest `limit` fire times within [start, end], oldest first, without walking through all of them.

    A schedule of every second has thirty million fire times in a year; only those that are returned are computed.
    """
    times: list[datetime] = []
    fire_time = _latest(schedule, start, end)
    gap = timedelta(seconds=1)
    while fire_time is not None and len(times) < limit:
        times.append(fire_time)
        fire_time = _before(schedule, start, fire_time, gap)
        gap = times[-1] - fire_time if fire_time is not None else gap
    return times[::-1]


def _before(schedule: Schedule, start: datetime, moment: datetime, gap: timedelta) -> datetime | None:
    """Find the last fire time within [start, moment), going back by `gap` and then doubling."""
    reach = gap
    while True:
        low = max(start, moment - reach)
        first = schedule.next_after(low - MICROSECOND)
        if first is not None and first < moment:
            return _latest(schedule, first, moment - MICROSECOND)
        if low == start:
            return None
        reach *= 2


def _latest(schedule: Schedule, start: datetime, end: datetime) -> datetime | None:
    """Find the last fire time within [start, end] by bisection."""
    fire_time = schedule.next_after(start - MICROSECOND)
    if fire_time is None or fire_time > end:
        return None
    beyond = end
    while (second := schedule.next_after(fire_time)) is not None and second <= end:
        fire_time = second
        middle = fire_time + (beyond - fire_time) / 2
        later = schedule.next_after(middle)
        if later is not None and later <= end:
            fire_time = later
        else:
            beyond = middle
    return fire_time
