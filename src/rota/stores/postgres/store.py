"""The store's face: every verb of the port, brought to the server in the way that suits it.

Submissions, settlements and renewals wait for each other at desks, so that many callers cost few commits; what can be
one statement is one. The rest are transactions of their own.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Final, Self, TypeVar, cast

from rota.core.alike import alike_of, kinds_of
from rota.core.attempt import Attempt
from rota.core.errors import StoreUnavailable
from rota.core.fleet import Bearings, CheckIn, Leadership, Member, Role
from rota.core.identity import LARGEST, JobId, ScheduleId
from rota.core.instant import from_micros, to_micros
from rota.core.job import Job
from rota.core.lane import Lane as JobLane
from rota.core.lane import Queue
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import Entry, Token
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
from rota.desk import MergingDesk
from rota.ports.clock import Clock
from rota.ports.places import EVERY_QUEUE
from rota.ports.store import (
    AllCreated,
    Census,
    DeadGroup,
    Dispatched,
    Heed,
    Inserted,
    JobQuery,
    JobSlice,
    Receipt,
    Retention,
    Timetable,
)
from rota.stores import listing
from rota.stores.open_claims import may_be_brought
from rota.stores.postgres import (
    checking,
    dispatching,
    fleet,
    leasing,
    ledger,
    reading,
    retiring,
    scheduling,
    settling,
    stepping,
    submitting,
    upkeep,
)
from rota.stores.postgres.archive import Archive
from rota.stores.postgres.claiming import Claims
from rota.stores.postgres.connecting import Connector
from rota.stores.postgres.database import Database
from rota.stores.postgres.edges import Edge
from rota.stores.postgres.floors import Floors
from rota.stores.postgres.hearing import SAYS_TIMES, TIMES, Bell, Ear, Notice, somewhere
from rota.stores.postgres.lanes import LOWEST, Lane
from rota.stores.postgres.migrations import migrate
from rota.stores.postgres.open_claims import OpenClaims
from rota.stores.postgres.session import Session
from rota.stores.rows import are_plain, is_plain, timetable_of

T = TypeVar("T")
#: The last argument of a verb is the time.
Timed = Callable[..., Awaitable[T]]

#: The largest and the smallest count of microseconds that a moment of Python can be.
_LATEST: Final = to_micros(datetime.max.replace(tzinfo=UTC))
_EARLIEST: Final = to_micros(datetime.min.replace(tzinfo=UTC))


_place: Final = attrgetter("queue", "type", "priority")
_times: Final = attrgetter("run_at", "expires_at")
_NOTHING_GOES: Final = Retention(None, None, None, None)


class PostgresStore:
    """All verbs of `rota.ports.store.Store` on PostgreSQL."""

    #: Its connections belong to the loop.
    by_hand: None = None
    #: See `open_claims`.
    keeps_claims = True

    def __init__(self, database: Database, clock: Clock | None) -> None:
        self._database = database
        self._clock = clock
        self._archive = Archive(clock or _wall_clock)
        self._floors = Floors(database)
        self._due_edge = Edge(time.monotonic)
        self._lease_edge = Edge(time.monotonic)
        #: On which day the days to come were last seen to.
        self._tended_on: retiring.Day | None = None
        mark = SAYS_TIMES + secrets.token_hex(8)
        self._open_claims = OpenClaims()
        self._bell = Bell(database, mark)
        self._ear = Ear(database, mark, self._floors.stored, self._open_claims)
        self._claims = Claims(database, self._ear, self._open_claims, self._floors)
        self._inserts: MergingDesk[NewJob, Inserted] = MergingDesk(self._insert_together, prompt=True)
        self._settlements: MergingDesk[Settlement, bool] = MergingDesk(self._settle_together)
        self._renewals: MergingDesk[Renewal, Renewed | None] = MergingDesk(self._renew_together)

    @classmethod
    async def open(cls, dsn: str, *, clock: Clock | None = None) -> Self:
        """Open a database and bring it to the form this release expects.

        Without a clock the server's own counts; tests bring one.
        """
        database = Database(Connector(dsn))
        try:
            await database.write(migrate)
            store = cls(database, clock)
            # So that the first jobs to end find their day.
            with suppress(StoreUnavailable):
                await store._write(retiring.tend, _NOTHING_GOES, now=store._given(None))
        except BaseException:
            await database.close()
            raise
        return store

    async def close(self) -> None:
        """Finish what was begun and let go of the database."""
        for desk in (self._inserts, self._settlements, self._renewals):
            await desk.close()
        await self._floors.close()
        await self._bell.close()
        await self._ear.close()
        await self._database.close()

    async def time(self) -> datetime:
        """Tell the time: the server's, one for all who share it."""
        if self._clock is not None:
            return self._clock()
        (now,) = await self._database.read(_ask_time)
        return from_micros(now)

    def hear_work(self) -> None:
        """Have whoever watches told of new work too, from now on."""
        self._ear.hear_work(also_brought=True)

    async def watch(self, at_most: timedelta, heed: Heed | None = None) -> Collection[str]:
        """Wait until another process may have changed something, at most for a while; say at which places."""
        return await self._ear.wait(at_most, heed)

    async def check(self) -> Sequence[str]:
        """Look for damage, and for settings that would let a crash lose what was acknowledged."""
        return await self._database.survey(checking.findings)

    # Jobs

    async def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        bound: int | None = None,
        entry: Entry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        """Store new jobs and answer each submission, in order."""
        if entry is not None:
            return await self._insert_recorded(jobs, bound, entry, now)
        return await self._inserts.run(jobs, bound, self._given(now))

    async def _insert_recorded(
        self, jobs: Sequence[NewJob], bound: int | None, entry: Entry, now: datetime | None
    ) -> Sequence[Inserted]:
        """Store jobs that an operator asked for: rare, so in the plainest way."""

        async def insert(session: Session, jobs: Sequence[NewJob], moment: int) -> list[Inserted]:
            answers = await submitting.insert(session, jobs, bound, moment)
            if any(answer.receipt is Receipt.CREATED for answer in answers):
                await ledger.record(session, [entry], moment)
            return answers

        answers = await self._write(insert, jobs, now=self._given(now))
        self._tell_of(jobs)
        return answers

    def _tell_of(self, kinds: Sequence[NewJob]) -> None:
        """Wake those who wait for jobs like these."""
        places = set(map(_place, kinds))
        self._floors.stored(places)
        has_times = set(map(_times, kinds)) != {(None, None)}
        self._bell.ring((*places, TIMES) if has_times else places)

    def _insert_together(
        self, jobs: Sequence[NewJob], bound: int | None, now: int | None
    ) -> Coroutine[Any, Any, Sequence[Inserted]]:
        """Store a batch; a plain job that comes alone in the way that costs it least."""
        is_alone = len(jobs) == 1 and bound is None and is_plain(jobs[0])
        return self._insert_one(jobs, now) if is_alone else self._insert_all(jobs, bound, now)

    async def _insert_all(self, jobs: Sequence[NewJob], bound: int | None, now: int | None) -> Sequence[Inserted]:
        """Store a batch. Plain jobs are one statement, which leaves aside what needs a closer look."""
        # What comes together is mostly one task's: then one job stands for all, whatever else is asked of them.
        alike = alike_of(jobs)
        kinds = kinds_of(jobs if alike is None else alike)
        answers: Sequence[Inserted | None] = [None] * len(jobs)
        if are_plain(kinds):
            holding = self._archive.holding
            if alike is not None and alike.model.run_at is None:
                answers = await self._database.alone(submitting.insert_alike, alike, holding, bound, now)
            else:
                answers = await self._database.alone(submitting.insert_plain, jobs, holding, bound, now)
        if type(answers) is not AllCreated and not all(answers):
            left = [place for place, answer in enumerate(answers) if answer is None]
            rest = await self._write(submitting.insert, [jobs[place] for place in left], bound, now=now)
            given = dict(zip(left, rest, strict=True))
            answers = [given.get(place, answer) for place, answer in enumerate(answers)]
        self._tell_of(kinds)
        return cast("Sequence[Inserted]", answers)

    async def _insert_one(self, jobs: Sequence[NewJob], now: int | None) -> Sequence[Inserted]:
        (job,) = jobs
        places = (_place(job),) if job.run_at is None else (_place(job), TIMES)
        notice = self._bell.notice(places, is_one=job.run_at is None)
        answer: Inserted | None = None
        try:
            answer = await self._put_one(job, notice, now)
        finally:
            self._bell.follow(notice, places, has_changed=answer is not None)
        if answer is None:
            return await self._insert_all(jobs, None, now)
        self._floors.stored(places)
        return [answer]

    async def _put_one(self, job: NewJob, notice: Notice | None, now: int | None) -> Inserted | None:
        """Store a plain job in the way that suits it; None if it needs a closer look."""
        holding = self._archive.holding
        if notice is None and job.run_at is None:
            return await self._database.alone(submitting.insert_now, job, holding, now)
        if notice is None or not notice.tells_one or not may_be_brought(job):
            return await self._database.alone(submitting.insert_one, job, holding, now, notice)
        brought = await self._database.alone(submitting.bring, job, holding, now, notice)
        if brought is None:
            return None
        inserted, answer = brought
        if answer is not None:
            # Who asked may be in this process, and need not wait for the notice.
            self._open_claims.bring(answer)
        return inserted

    def brought(self, wanted: Claim) -> Sequence[Job]:
        """Give what was brought for a worker whose claim stays, once, if it is at hand."""
        return self._open_claims.at_hand(wanted)

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        """Lease due jobs to a worker, most urgent first."""
        return await self._claims.claim(wanted, self._given(now))

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        """Extend the leases whose fence still holds."""
        answers = await self._renewals.run(renewals, self._given(now))
        return [answer for answer in answers if answer is not None]

    async def _renew_together(self, renewals: Sequence[Renewal], now: int | None) -> Sequence[Renewed | None]:
        is_one_statement = all(map(leasing.is_quiet, renewals)) and _differ(one.job_id for one in renewals)
        run = self._database.alone if is_one_statement else self._database.write
        return await run(leasing.renew, renewals, now)

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Apply the settlements that still hold and return their ids."""
        if entry is None:
            applied = await self._settlements.run(settlements, self._given(now))
        else:
            applied = await self._write(_recorded, settling.settle, settlements, entry, now=self._given(now))
            self._bell.ring()
        if all(applied):
            return [one.job_id for one in settlements]
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def _settle_together(self, settlements: Sequence[Settlement], now: int | None) -> Sequence[bool]:
        """Settle a batch. Plain successes are one statement; where others wait for such a job, it comes right after."""
        if not all(map(settling.is_plain, settlements)) or not _differ(one.job_id for one in settlements):
            applied = await self._write(settling.settle, settlements, now=now)
            self._bell.ring()
            return applied
        applied = await self._database.alone(settling.complete, settlements, now)
        if all(applied):
            return applied
        left = [one for one, is_done in zip(settlements, applied, strict=True) if not is_done]
        rest = iter(await self._write(settling.settle, left, now=now))
        self._bell.ring()
        return [is_done or next(rest) for is_done in applied]

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Mark running jobs as to be cancelled."""
        marked: list[JobId] = await self._write(_recorded, leasing.ask_cancel, leases, entry, now=self._given(now))
        return marked

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        """Make jobs whose time has come pending."""
        given = self._given(now)
        # Which queues they are in is known afterwards only; the timetable, at any rate, is for nobody else to look at.
        notice = self._bell.notice([somewhere(EVERY_QUEUE)])
        queues: Mapping[str, int] = {}
        try:
            queues = await self._database.alone(upkeep.promote, limit, _start(self._due_edge, given), given, notice)
        finally:
            self._bell.follow(notice, map(somewhere, queues), has_changed=bool(queues))
        return queues

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Give running jobs whose lease has run out."""
        given = self._given(now)
        return await self._read_timed(leasing.lost, limit, _start(self._lease_edge, given), now=given)

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Give waiting jobs that are too late to start."""
        return await self._read_timed(leasing.expired, limit, now=self._given(now))

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Give jobs by id."""
        return await self._database.read(reading.get, ids)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Give the jobs that a query asks for."""
        return await listing.find(self._find, query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        """Give jobs as `find` does, with bounded work."""
        return await listing.find_some(self._find, query)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        return await self._database.browse(reading.find, query, size)

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        """Give a job's attempts."""
        return await self._database.survey(reading.attempts, job_id)

    async def census(self) -> Census:
        """Count all jobs, at one moment."""
        return await self._database.count(reading.census)

    async def timetable(self) -> Timetable:
        """Say when upkeep is needed next."""
        if self._clock is not None:
            _, *edges = await self._database.read(upkeep.timetable, LOWEST, LOWEST)
            return timetable_of((to_micros(self._clock()), *edges))
        starts = (self._due_edge.start(), self._lease_edge.start())
        now, job, lease, *rest = await self._database.read(upkeep.timetable, *starts)
        self._due_edge.learn(starts[0], job, now)
        self._lease_edge.learn(starts[1], lease, now)
        return timetable_of((now, job, lease, *rest))

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete finished jobs past their time; a whole day of them at once, where that can be.

        Mostly there is nothing to do, which one look tells. Once a day the archive is given the days to come.
        """
        given = self._given(now)
        told, is_past = await self._database.read(upkeep.past_time, retention, given)
        today = retiring.day_of(from_micros(told))
        if not is_past and today == self._tended_on:
            return 0
        dropped = 0
        with suppress(StoreUnavailable):
            dropped = await self._write(retiring.tend, retention, now=given)
            self._tended_on = today
        return dropped + await self._write(upkeep.prune, retention, limit, now=given)

    async def discard(
        self, ids: Sequence[JobId], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Delete dead and cancelled jobs."""
        deleted: list[JobId] = await self._write(_recorded, upkeep.discard, ids, entry, now=self._given(now))
        return deleted

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        """Give the jobs that a job still waits for."""
        return await self._database.read(reading.blockers, job_id, limit)

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        """Give the causes that jobs have died of."""
        return await self._database.count(reading.dead_groups, limit)

    # Jobs that a broker hands over

    async def dispatch(self, room: Mapping[JobLane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        """Make due jobs queued."""
        wanted = {lane: limit for lane, limit in room.items() if limit > 0}
        if not wanted:
            return []
        lanes = self._floors.placed([Lane(*lane) for lane in wanted])
        rows = await self._database.alone(dispatching.dispatch, lanes, list(wanted.values()), self._given(now))
        if rows:
            self._floors.claimed(dispatching.lowest_of(rows), rows[0][5])
        return dispatching.dispatched(rows)

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        """Make queued jobs pending again."""
        recalled = await self._database.alone(dispatching.recall, ids, self._given(now)) if ids else []
        if recalled:
            self._bell.ring()
        return recalled

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        """Give jobs that have been queued for a while."""
        start = LOWEST if after is None else after
        return await self._database.read(dispatching.queued, limit, since, start, self._given(now))

    # Schedules

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Create or replace schedules."""
        written: list[ScheduleId] = await self._write(
            _recorded, scheduling.put_schedules, schedules, entry, now=self._given(now)
        )
        self._bell.ring()
        return written

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        """Give schedules."""
        return await self._database.read(scheduling.schedules, ids, names, after, limit)

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        """Give schedules whose fire time has come."""
        return await self._read_timed(scheduling.due_schedules, limit, now=self._given(now))

    async def fire(
        self, firings: Sequence[Firing], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Write firings down."""
        made: list[JobId] = await self._write(_recorded, scheduling.fire, firings, entry, now=self._given(now))
        self._bell.ring()
        return made

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Delete schedules."""
        dropped: list[ScheduleId] = await self._write(
            _recorded, scheduling.drop_schedules, ids, entry, now=self._given(now)
        )
        return dropped

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        """Give what became of a schedule's fire times."""
        limit_at = _LATEST if before is None else to_micros(before)
        return await self._database.read(scheduling.occurrences, schedule_id, limit_at, limit)

    # Steps

    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        """Write down the intent to perform a step."""
        return await self._write(stepping.intend, job_id, fence, key, now=self._given(now))

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        """Write down that a step's effect happened."""
        return await self._write(stepping.conclude, job_id, fence, key, outcome, now=self._given(now))

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        """Forget the intent to perform a step."""
        return await self._write(stepping.withdraw, job_id, fence, key, now=None)

    async def resolve(self, resolution: Resolution, *, entry: Entry | None = None, now: datetime | None = None) -> bool:
        """Write down an operator's word about a step in doubt."""
        is_told: bool = await self._write(_recorded, stepping.resolve, resolution, entry, now=self._given(now))
        return is_told

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        """Give a job's steps."""
        return await self._database.read(stepping.steps, job_id)

    # Processes, queues, the lead

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        """Record that processes are alive."""
        await self._write(fleet.beat, members, now=self._given(now))

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        """Give the processes on record."""
        since_micros = _EARLIEST if since is None else to_micros(since)
        return await self._database.read(fleet.members, role, since_micros)

    async def leave(self, boots: Iterable[str]) -> None:
        """Forget processes that said goodbye."""
        await self._database.alone(fleet.leave, list(boots))

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        """Take or keep the lead if nobody else holds it."""
        return await self._write(fleet.lead, name, holder, lasting, now=self._given(now))

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        """Say who leads, if anybody does."""
        return await self._read_timed(fleet.leader, name, now=self._given(now))

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up."""
        await self._database.alone(fleet.resign, name, holder)

    async def check_in(self, told: CheckIn, *, now: datetime | None = None) -> Bearings:
        """Record that processes are alive, take or keep the lead, and say what is known."""
        return await self._database.alone(fleet.check_in, told, self._given(now))

    async def put_queue(self, queue: Queue, *, entry: Entry | None = None, now: datetime | None = None) -> bool:
        """Write a queue's settings if their version still holds."""
        written: bool = await self._write(_recorded, fleet.put_queue, queue, entry, now=self._given(now))
        self._bell.ring()
        return written

    async def queues(self) -> Sequence[Queue]:
        """Give the queues that have settings."""
        return await self._database.read(fleet.queues)

    # The ledger and tokens

    async def record(self, entries: Sequence[Entry], *, now: datetime | None = None) -> None:
        """Append entries to the ledger."""
        await self._write(ledger.record, entries, now=self._given(now))

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[Entry]:
        """Give the ledger's entries."""
        return await self._database.read(ledger.ledger, LARGEST if before is None else before, limit)

    async def put_tokens(self, tokens: Sequence[Token], *, entry: Entry | None = None) -> None:
        """Create or replace tokens."""
        await self._write(_recorded, ledger.put_tokens, tokens, entry, now=self._given(None))

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        """Give tokens."""
        return await self._database.read(ledger.tokens, ids)

    def _given(self, now: datetime | None) -> int | None:
        """Say which time a call brings; None leaves it to the server."""
        if now is None and self._clock is not None:
            now = self._clock()
        return None if now is None else to_micros(now)

    async def _write(self, verb: Timed[T], *arguments: Any, now: int | None) -> T:  # noqa: ANN401 - as the verb's
        return await self._database.write(partial(_timed, verb), *arguments, now=now)

    async def _read_timed(self, verb: Timed[T], *arguments: Any, now: int | None) -> T:  # noqa: ANN401 - as the verb's
        return await self._database.read(partial(_timed, verb), *arguments, now=now)


def _wall_clock() -> datetime:
    return datetime.now(UTC)


async def _ask_time(session: Session) -> list[int]:
    return await session.values("now")


async def _timed(verb: Timed[T], session: Session, *arguments: Any, now: int | None) -> T:  # noqa: ANN401 - as the verb's
    """Give a verb the time as its last argument: the one it was called with, or the server's when it runs."""
    if now is None:
        (now,) = await _ask_time(session)
    return await verb(session, *arguments, now)


async def _recorded(session: Session, verb: Timed[Any], subject: Any, entry: Entry | None, now: int) -> Any:  # noqa: ANN401
    """Run a verb and, if it did anything, write in the same transaction who asked for it."""
    answer = await verb(session, subject, now)
    # By identity: an id may be 0, which is not nothing.
    did_something = any(one is not False for one in answer) if isinstance(answer, list) else answer is not False
    if entry is not None and did_something:
        await ledger.record(session, [entry], now)
    return answer


def _start(edge: Edge, now: int | None) -> int:
    """Say where to start to look: at the edge by the server's clock, at the beginning by any other."""
    return edge.start() if now is None else LOWEST


def _differ(ids: Iterable[JobId]) -> bool:
    """Whether no job comes twice."""
    listed = list(ids)
    return len(set(listed)) == len(listed)
