"""The store's face: every verb of the port, handed to where it is done.

Inserts, claims, settlements and renewals go over a desk each, where those that come in together share a transaction;
the other writes have one of their own. Reads go to connections of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from rota.core.attempt import Attempt
from rota.core.errors import StoreUnavailable
from rota.core.fleet import Bearings, CheckIn, Leadership, Member, Role
from rota.core.identity import LARGEST, JobId, ScheduleId
from rota.core.instant import from_micros, to_micros
from rota.core.job import Job
from rota.core.lane import Lane, Queue
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import Entry, Token
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
from rota.desk import MergingDesk
from rota.ports.clock import Clock
from rota.ports.store import (
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
from rota.stores.mysql import (
    checking,
    dispatching,
    fleet,
    leasing,
    ledger,
    reading,
    scheduling,
    settling,
    stepping,
    submitting,
    upkeep,
)
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import Clash, Connection, Unmet
from rota.stores.mysql.floors import Floors
from rota.stores.mysql.hearing import Bell
from rota.stores.mysql.lent import Lent
from rota.stores.mysql.location import location_of
from rota.stores.mysql.lookout import Lookout
from rota.stores.mysql.migrations import migrate
from rota.stores.mysql.pool import Pool, Verb
from rota.stores.mysql.statements import statement

#: Few connections with large batches beat many.
WRITERS: Final = 4
READERS: Final = 2
#: For lists and counts, so that these hold up neither health nor the scheduler.
BROWSERS: Final = 2
#: How long the server may work on a list for a person, and on a count, which is made in the background. Both less than
#: a connection waits for an answer, after which the server would be taken for gone.
LIST_SECONDS: Final = 2
COUNT_SECONDS: Final = 5
#: The largest and the smallest count of microseconds that a moment of Python can be.
_LATEST: Final = to_micros(datetime.max.replace(tzinfo=UTC))
_EARLIEST: Final = to_micros(datetime.min.replace(tzinfo=UTC))


class MysqlStore:
    """All verbs of `rota.ports.store.Store` on MariaDB or MySQL."""

    #: Its connections belong to the loop.
    by_hand: None = None
    #: Who waits is told, and asks.
    keeps_claims = False

    def __init__(self, writers: Pool, readers: Pool, clock: Clock | None) -> None:
        self._writers = writers
        self._readers = readers
        self._browsers = Pool(readers.location, BROWSERS, autocommit=True)
        self._clock = clock
        self._server_clock = ServerClock()
        self._lookout = Lookout(readers, f"{writers.origin}-%")
        self._bell = Bell(readers, self._lookout.ear)
        writers.condemn = readers.condemn = self._browsers.condemn = self._condemn_connections
        #: How often we have rung, and how often anybody had when somebody last claimed.
        self._rings = 0
        self._news = -1
        #: Whether the last claim gave all that was wanted: then there is more, as often as not.
        self._gave_all = False
        self._floors = Floors()
        self._lent = Lent()
        self._inserting = MergingDesk[NewJob, Inserted](self._serve(submitting.insert), prompt=True)
        self._claiming = MergingDesk[Claim, Sequence[Job]](self._claim_together)
        self._settling = MergingDesk[Settlement, bool](self._settle_together)
        self._renewing = MergingDesk[Renewal, Renewed | None](self._serve(leasing.renew))

    @classmethod
    async def open(cls, location: str, *, clock: Clock | None = None) -> Self:
        """Open a database on a server, and bring it to the form this release expects.

        Without a clock, the server's counts: one for all who share it.
        """
        where = location_of(location)
        store = cls(Pool(where, WRITERS, autocommit=False), Pool(where, READERS, autocommit=True), clock)
        try:
            await store._readers.run(store._at(migrate), None)
            await store._lookout.open()
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """Finish what was begun and let go of the database."""
        for desk in (self._inserting, self._claiming, self._settling, self._renewing):
            await desk.close()
        await self._bell.close()
        await self._lookout.close()
        for pool in (self._writers, self._readers, self._browsers):
            await pool.close()

    def _condemn_connections(self) -> None:
        """Drop all that rests: one connection was silent, and the others may be."""
        self._writers.drop_idle()
        self._readers.drop_idle()
        self._browsers.drop_idle()
        self._lookout.ear.begin_anew()

    async def time(self) -> datetime:
        """Tell the time: the server's, one for all who share it."""
        now: int = await self._read(self._now)
        return from_micros(now)

    def hear_work(self) -> None:
        """Nothing: whoever watches is told of everything."""

    async def watch(self, at_most: timedelta, heed: Heed | None = None) -> Collection[str]:  # noqa: ARG002 - answers
        """Wait until another process may have made work, at most for a while."""
        return await self._lookout.watch(at_most)

    async def check(self) -> Sequence[str]:
        """Look for damage."""
        try:
            findings: list[str] = await self._read(checking.check)
        except StoreUnavailable as error:
            return [str(error)]
        return findings

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
        return await self._inserting.run(jobs, bound, _given(now))

    async def _insert_recorded(
        self, jobs: Sequence[NewJob], bound: int | None, entry: Entry, now: datetime | None
    ) -> Sequence[Inserted]:
        """Store jobs that an operator asked for: rare, so in the plainest way."""

        async def insert(connection: Connection, jobs: Sequence[NewJob], moment: int) -> Sequence[Inserted]:
            answers = await submitting.insert(connection, jobs, bound, moment)
            if any(answer.receipt is Receipt.CREATED for answer in answers):
                await ledger.record(connection, [entry], moment)
            return answers

        answers: Sequence[Inserted] = await self._write(insert, jobs, now=now)
        return answers

    def brought(self, wanted: Claim) -> Sequence[Job]:  # noqa: ARG002 - the port's
        """Nothing: claims do not stay here."""
        return ()

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        """Lease due jobs to a worker, most urgent first."""
        (jobs,) = await self._claiming.run([wanted], _given(now))
        return jobs

    async def _claim_together(self, claims: Sequence[Claim], now: int | None) -> Sequence[Sequence[Job]]:
        """Lease jobs to those who ask at the same time.

        Mostly there is nothing if nobody rang since they last asked and got less than they wanted, and a transaction is
        several statements. So it is asked first then whether there is anything; also if the time has to be asked for
        anyway, which goes with it. But nobody waits for those who read at length to ask that.
        """
        news = self._rings + self._lookout.changes
        is_quiet, self._news = news == self._news and not self._gave_all, news
        is_by_server = now is None and self._clock is None
        may_look = is_by_server and self._readers.has_room and all(map(leasing.is_plain, claims))
        looks_first = may_look and (is_quiet or not self._server_clock.is_fresh)
        if looks_first and not await self._readers.run(leasing.has_work, self._server_clock, claims):
            self._gave_all = False
            return [[] for _ in claims]
        trail = self._floors.trail(claims, news, may_go_on=is_by_server)
        try:
            given: Sequence[Sequence[Job]] = await self._change(leasing.claim, claims, trail, now)
        except Clash:
            # One that was said to be new has come before.
            renamed = [replace(wanted, is_new=False) for wanted in claims]
            given = await self._change(leasing.claim, renamed, trail, now)
        self._floors.keep(trail)
        for jobs in given:
            self._lent.note(jobs)
        self._gave_all = all(len(jobs) == wanted.limit for jobs, wanted in zip(given, claims, strict=True))
        return given

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        """Extend the leases whose fence still holds."""
        answers = await self._renewing.run(renewals, _given(now))
        return [answer for answer in answers if answer is not None]

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Apply the settlements that still hold and return their ids."""
        if entry is None:
            applied = await self._settling.run(settlements, _given(now))
        else:
            applied = await self._write(_recorded, settling.settle, settlements, entry, now=now)
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def _settle_together(self, settlements: Sequence[Settlement], now: int | None) -> list[bool]:
        """Apply settlements that come at the same time; what is known of their leases need not be asked."""
        alike = self._lent.alike(settlements) if settling.are_plain(settlements) else None
        try:
            applied: list[bool] = await self._change(settling.settle_known, settlements, alike, now)
        except (Unmet, Clash):
            if alike is None:
                raise
            self._lent.doubt()
            applied = await self._change(settling.settle, settlements, now)
        self._lent.forget(settlements)
        return applied

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Mark running jobs as to be cancelled."""
        marked: list[JobId] = await self._write(_recorded, leasing.ask_cancel, leases, entry, now=now)
        return marked

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        """Make jobs whose time has come pending."""
        queues: Mapping[str, int] = await self._write(upkeep.promote, limit, now=now)
        return queues

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Give running jobs whose lease has run out."""
        jobs: list[Job] = await self._read_at(leasing.lost, limit, now=now)
        return jobs

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Give waiting jobs that are too late to start."""
        jobs: list[Job] = await self._read_at(leasing.expired, limit, now=now)
        return jobs

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Give jobs by id."""
        jobs: list[Job] = await self._read(reading.get, ids)
        return jobs

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Give the jobs that a query asks for."""
        return await listing.find(self._find, query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        """Give jobs as `find` does, with bounded work."""
        return await listing.find_some(self._find, query)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        found: JobSlice = await self._browsers.run(_limited, LIST_SECONDS, reading.find, query, size)
        return found

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        """Give a job's attempts."""
        attempts: list[Attempt] = await self._read(_in_snapshot, reading.attempts, job_id)
        return attempts

    async def census(self) -> Census:
        """Count all jobs, at one moment."""
        counts: Census = await self._browsers.run(_limited, COUNT_SECONDS, reading.census)
        return counts

    async def timetable(self) -> Timetable:
        """Say when upkeep is needed next."""
        found: Timetable = await self._read(upkeep.timetable, self._server_clock)
        return found if self._clock is None else replace(found, now=self._clock())

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete finished jobs past their time. Mostly there are none, which one look tells."""
        moment = self._clock() if now is None and self._clock is not None else now
        if not await self._read(upkeep.has_past, self._server_clock, retention, _given(moment)):
            return 0
        count: int = await self._write(upkeep.prune, retention, limit, now=now)
        return count

    async def discard(
        self, ids: Sequence[JobId], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Delete dead and cancelled jobs."""
        deleted: list[JobId] = await self._write(_recorded, upkeep.discard, ids, entry, now=now)
        return deleted

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        """Give the jobs that a job still waits for."""
        found: list[JobId] = await self._read(reading.blockers, job_id, limit)
        return found

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        """Give the causes that jobs have died of."""
        groups: list[DeadGroup] = await self._browsers.run(_limited, COUNT_SECONDS, reading.dead_groups, limit)
        return groups

    # Jobs that a broker hands over

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        """Make due jobs queued."""
        made: list[Dispatched] = await self._write(dispatching.dispatch, room, now=now)
        return made

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        """Make queued jobs pending again."""
        recalled: list[JobId] = await self._write(dispatching.recall, ids, now=now)
        return recalled

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        """Give jobs that have been queued for a while."""
        start = -1 if after is None else after
        found: list[Dispatched] = await self._read_at(dispatching.queued, limit, since, start, now=now)
        return found

    # Schedules

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Create or replace schedules."""
        written: list[ScheduleId] = await self._write(_recorded, scheduling.put_schedules, schedules, entry, now=now)
        return written

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        """Give schedules."""
        found: list[Schedule] = await self._read(scheduling.schedules, ids, names, after, limit)
        return found

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        """Give schedules whose fire time has come."""
        found: list[Schedule] = await self._read_at(scheduling.due_schedules, limit, now=now)
        return found

    async def fire(
        self, firings: Sequence[Firing], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Write firings down."""
        made: list[JobId] = await self._write(_recorded, scheduling.fire, firings, entry, now=now)
        return made

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        """Delete schedules."""
        dropped: list[ScheduleId] = await self._write(
            _recorded, _untimed(scheduling.drop_schedules), ids, entry, now=now
        )
        return dropped

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        """Give what became of a schedule's fire times."""
        limit_at = _LATEST if before is None else to_micros(before)
        found: list[Occurrence] = await self._read(scheduling.occurrences, schedule_id, limit_at, limit)
        return found

    # Steps

    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        """Write down the intent to perform a step."""
        step: tuple[Step, bool] | None = await self._write(stepping.intend, job_id, fence, key, now=now)
        return step

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        """Write down that a step's effect happened."""
        step: Step | None = await self._write(stepping.conclude, job_id, fence, key, outcome, now=now)
        return step

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        """Forget the intent to perform a step."""
        is_gone: bool = await self._write(stepping.withdraw, job_id, fence, key, now=None)
        return is_gone

    async def resolve(self, resolution: Resolution, *, entry: Entry | None = None, now: datetime | None = None) -> bool:
        """Write down an operator's word about a step in doubt."""
        is_told: bool = await self._write(_recorded, stepping.resolve, resolution, entry, now=now)
        return is_told

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        """Give a job's steps."""
        steps: list[Step] = await self._read(stepping.steps, job_id)
        return steps

    # Processes, queues, the lead

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        """Record that processes are alive."""
        await self._write(fleet.beat, members, now=now)

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        """Give the processes on record."""
        since_micros = _EARLIEST if since is None else to_micros(since)
        found: list[Member] = await self._read(fleet.members, role, since_micros)
        return found

    async def leave(self, boots: Iterable[str]) -> None:
        """Forget processes that said goodbye."""
        await self._writers.run(fleet.leave, list(boots))

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        """Take or keep the lead if nobody else holds it."""
        leadership: Leadership = await self._write(fleet.lead, name, holder, lasting, now=now)
        return leadership

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        """Say who leads, if anybody does."""
        leadership: Leadership | None = await self._read_at(fleet.leader, name, now=now)
        return leadership

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up."""
        await self._writers.run(fleet.resign, name, holder)

    async def check_in(self, told: CheckIn, *, now: datetime | None = None) -> Bearings:
        """Record that processes are alive, take or keep the lead, and say what is known."""
        moment = self._clock() if now is None and self._clock is not None else now
        # On a connection that commits by itself, unless others read on all of them: who is silent is taken for gone.
        pool = self._readers if self._readers.has_room else self._writers
        bearings: Bearings = await pool.run(fleet.check_in, told, _given(moment))
        return bearings

    async def put_queue(self, queue: Queue, *, entry: Entry | None = None, now: datetime | None = None) -> bool:
        """Write a queue's settings if their version still holds."""
        written: bool = await self._write(_recorded, _untimed(fleet.put_queue), queue, entry, now=now)
        return written

    async def queues(self) -> Sequence[Queue]:
        """Give the queues that have settings."""
        found: list[Queue] = await self._read(fleet.queues)
        return found

    # The ledger and tokens

    async def record(self, entries: Sequence[Entry], *, now: datetime | None = None) -> None:
        """Append entries to the ledger."""
        await self._write(ledger.record, entries, now=now)

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[Entry]:
        """Give the ledger's entries."""
        found: list[Entry] = await self._read(ledger.ledger, LARGEST if before is None else before, limit)
        return found

    async def put_tokens(self, tokens: Sequence[Token], *, entry: Entry | None = None) -> None:
        """Create or replace tokens."""
        await self._write(_recorded, _untimed(ledger.put_tokens), tokens, entry, now=None)

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        """Give tokens."""
        found: list[Token] = await self._read(ledger.tokens, ids)
        return found

    def _serve(self, verb: Verb) -> Verb:
        """Let a desk's batch run in a transaction."""

        async def serve(batch: Sequence[Any], *sharing: Any) -> Any:  # noqa: ANN401 - as the verb does
            return await self._change(verb, batch, *sharing)

        return serve

    async def _write(self, verb: Verb, *arguments: Any, now: datetime | None) -> Any:  # noqa: ANN401 - as the verb does
        return await self._change(verb, *arguments, _given(now))

    async def _change(self, verb: Verb, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
        """Run a verb in a transaction; if it has made work, ring in the same one, and wake those who wait after it."""
        has_rung = False

        async def ringing(connection: Connection, *rest: Any) -> Any:  # noqa: ANN401 - as the verb does
            nonlocal has_rung
            answer = await verb(connection, *rest)
            has_rung = connection.has_made_work
            if has_rung:
                connection.has_made_work = False
                connection.defer(statement("ring"), {"origin": connection.origin, "now": rest[-1]})
            return answer

        answer = await self._writers.run(self._at(ringing), *arguments)
        if has_rung:
            self._rings += 1
            self._bell.ring()
        return answer

    async def _read(self, verb: Verb, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
        return await self._readers.run(verb, *arguments)

    async def _read_at(self, verb: Verb, *arguments: Any, now: datetime | None) -> Any:  # noqa: ANN401
        return await self._readers.run(self._at(verb), *arguments, _given(now))

    def _at(self, verb: Verb) -> Verb:
        """Give a verb the time as its last argument: the one it was called with, or the clock's when it runs."""

        async def run(connection: Connection, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
            *rest, now = arguments
            moment = await self._now(connection) if now is None else now
            return await verb(connection, *rest, moment)

        return run

    async def _now(self, connection: Connection) -> int:
        return to_micros(self._clock()) if self._clock is not None else await self._server_clock.tell(connection)


def _given(now: datetime | None) -> int | None:
    return None if now is None else to_micros(now)


async def _recorded(connection: Connection, verb: Verb, subject: Any, entry: Entry | None, now: int) -> Any:  # noqa: ANN401
    """Run a verb and, if it did anything, write in the same transaction who asked for it."""
    answer = await verb(connection, subject, now)
    # By identity: an id may be 0, which is not nothing.
    did_something = any(one is not False for one in answer) if isinstance(answer, list) else answer is not False
    if entry is not None and did_something:
        await ledger.record(connection, [entry], now)
    return answer


def _untimed(verb: Verb) -> Verb:
    async def run(connection: Connection, subject: Any, now: int) -> Any:  # noqa: ANN401, ARG001 - as the verb does
        return await verb(connection, subject)

    return run


async def _limited(connection: Connection, seconds: int, verb: Verb, *arguments: Any) -> Any:  # noqa: ANN401
    """Run several reads at one moment, and have the server end a statement that takes longer than this."""
    limit = f"max_statement_time = {seconds}" if connection.is_mariadb else f"max_execution_time = {seconds * 1000}"
    await connection.run(f"SET SESSION {limit}")
    return await _in_snapshot(connection, verb, *arguments)


async def _in_snapshot(connection: Connection, verb: Verb, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
    """Run several reads so that they see one moment."""
    connection.defer("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
    connection.defer("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", {})
    answer = await verb(connection, *arguments)
    await connection.commit()
    return answer
