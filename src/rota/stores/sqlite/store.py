"""The store's face: every verb of the port, handed to the desk where it belongs.

Writes go to the one writer, reads to the readers beside it. In memory both use one connection.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, nullcontext, suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import cycle
from time import time_ns
from typing import Any, Final, Self

from rota.core.attempt import Attempt
from rota.core.errors import StoreUnavailable
from rota.core.fleet import Bearings, CheckIn, Leadership, Member, Role
from rota.core.identity import LARGEST, JobId, ScheduleId
from rota.core.instant import to_micros
from rota.core.job import Job
from rota.core.lane import Lane, Queue
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import Entry, Token
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
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
from rota.stores.sqlite import (
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
from rota.stores.sqlite.bell import Knocker
from rota.stores.sqlite.board import Board
from rota.stores.sqlite.desk import Desk, ReaderDesk, WriterDesk, part_with
from rota.stores.sqlite.driver import Broken, Busy, Connection, StandardConnection
from rota.stores.sqlite.files import IN_MEMORY, Connect, FileWitness, for_reading, found, open_file
from rota.stores.sqlite.forking import Opening
from rota.stores.sqlite.inline import InlineDesk, InlineReader
from rota.stores.sqlite.lengthening import Lengthener
from rota.stores.sqlite.lookout import Lookout
from rota.stores.sqlite.migrations import migrate
from rota.stores.sqlite.open_claims import OpenClaims
from rota.stores.sqlite.operations import MERGED, PLAINLY, Manner, Verb

READERS: Final = 2
#: The largest count of microseconds that a moment of Python can be.
_LATEST: Final = to_micros(datetime.max.replace(tzinfo=UTC))
_EARLIEST: Final = to_micros(datetime.min.replace(tzinfo=UTC))


def wall_clock() -> datetime:
    """Tell the time of this host, which is the store's: SQLite has no host of its own."""
    return datetime.now(UTC)


def wall_micros() -> int:
    """Tell the same in microseconds since 1970."""
    return time_ns() // 1000


class SqliteStore:
    """All verbs of `rota.ports.store.Store` on SQLite."""

    def __init__(
        self,
        writer: Desk,
        readers: Sequence[Desk],
        clock: Clock,
        *,
        lookout: Lookout | None = None,
        open_claims: OpenClaims | None = None,
        tools: ExitStack | None = None,
    ) -> None:
        self._writer = writer
        self._lookout = lookout
        self._open_claims = open_claims
        self._tools = tools
        self._readers = readers
        self._turns = cycle(readers)
        self._clock = clock
        # Asked for each lone submission: a moment costs more to make than to count.
        self._now = _micros_of(clock)
        # Made once: operations share a call only if they have the very same verb.
        self._insert = self._timed(submitting.insert)
        self._inserting = Manner(is_mergeable=True, stroke=self._insert_at_once)
        self._claiming = Manner(reads_first=True)
        self._settle = self._timed(settling.settle)
        self._renew = self._timed(leasing.renew)

    @classmethod
    async def open(
        cls, location: str | os.PathLike[str], *, clock: Clock = wall_clock, connect: Connect = StandardConnection
    ) -> Self:
        """Open a database file, or `:memory:`, and bring it to the form this release expects."""
        with Opening():
            return await cls._open(found(os.fspath(location)), clock, connect)

    @classmethod
    async def _open(cls, path: str, clock: Clock, connect: Connect) -> Self:
        opener = partial(open_file, path, connect)
        try:
            first = opener()
            try:
                migrate(first, to_micros(clock()))
            except BaseException:
                first.close()
                raise
            if path == IN_MEMORY:
                return cls(InlineDesk(first), [InlineReader(first)], clock)
            # Closed only now: while one connection is open, nobody takes the file for unused.
            try:
                return await cls._on_file(opener, FileWitness(path), clock)
            finally:
                first.close()
        except (Broken, Busy) as error:
            raise StoreUnavailable(f"cannot use {path} as a store: {error}") from error

    @classmethod
    async def _on_file(cls, opener: Callable[[], Connection], witness: FileWitness, clock: Clock) -> Self:
        async with AsyncExitStack() as opened:
            readers = []
            for number in range(READERS):
                readers.append(
                    ReaderDesk(
                        f"rota-sqlite-reader-{number}", partial(for_reading, opener), witness=witness.for_another()
                    )
                )
                opened.push_async_callback(readers[-1].close)
            # What those at the desks use, let go of after them.
            tools = opened.enter_context(ExitStack())
            knocker = Knocker(witness.path)
            tools.callback(knocker.close)
            tools.callback(witness.close)
            writer = WriterDesk(
                "rota-sqlite-writer",
                opener,
                witness=witness.after_commit,
                knock=knocker.knock,
                lengthen=Lengthener(witness.log, witness.known_log),
            )
            opened.push_async_callback(writer.close)
            board = Board.open(witness.path)
            open_claims = None if board is None else OpenClaims(board, _micros_of(clock))
            if open_claims is not None:
                tools.callback(open_claims.close)
            lookout = Lookout(opener(), witness.path)
            store = cls(writer, readers, clock, lookout=lookout, open_claims=open_claims, tools=tools)
            opened.pop_all()
            return store

    @property
    def keeps_claims(self) -> bool:
        """Whether a claim that stays may be answered by whoever stores a job; not in memory, which is nobody else's."""
        return self._open_claims is not None

    def brought(self, wanted: Claim) -> Sequence[Job]:
        """Give what was brought for a worker whose claim stays, once, if it is at hand."""
        return () if self._open_claims is None else self._open_claims.at_hand(wanted)

    @cached_property
    def by_hand(self) -> Self | None:
        """The same store for callers without a loop; None in memory."""
        desks = [desk.by_hand for desk in (self._writer, *self._readers)]
        writer, *readers = [desk for desk in desks if desk is not None] or (None,)
        if writer is None:
            return None
        # A copy, since it has to have the very same verbs.
        store = copy(self)
        store.__dict__ |= {"_writer": writer, "_readers": readers, "_turns": cycle(readers), "_lookout": None}
        return store

    async def close(self) -> None:
        """Finish what was begun and let go of the database."""
        lookout, self._lookout = self._lookout, None
        for desk in dict.fromkeys((self._writer, *self._readers)):
            await desk.close()
        self._open_claims = None
        if self._tools is not None:
            self._tools.close()
        if lookout is not None:
            lookout.close()
            part_with(
                lookout.connection, is_lost=any(desk.has_lost_its_file for desk in (self._writer, *self._readers))
            )

    async def time(self) -> datetime:
        """Tell the time: this host's, see `wall_clock`."""
        return self._clock()

    def hear_work(self) -> None:
        """Have whoever watches told of new work at once, from now on; otherwise it is a commit like others."""
        if self._lookout is not None:
            self._lookout.hear_work()

    async def watch(self, at_most: timedelta, heed: Heed | None = None) -> Collection[str]:
        """Wait until another process may have changed something, at most for a while; say at which places.

        A store in memory is nobody else's.
        """
        lookout = self._lookout
        if lookout is not None:
            with nullcontext() if self._open_claims is None else self._open_claims.heeded(heed):
                return await lookout.wait(at_most.total_seconds())
        await asyncio.sleep(at_most.total_seconds())
        return ()

    async def check(self) -> Sequence[str]:
        """Look for damage."""
        findings: list[str] = await self._read(_check)
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
        moment = None if now is None else to_micros(now)
        answers: Sequence[Inserted] = await self._writer.run(self._insert, jobs, bound, moment, manner=self._inserting)
        return answers

    async def _insert_recorded(
        self, jobs: Sequence[NewJob], bound: int | None, entry: Entry, now: datetime | None
    ) -> Sequence[Inserted]:
        """Store jobs that an operator asked for: rare, so in the plainest way."""

        def insert(connection: Connection, jobs: Sequence[NewJob], moment: int) -> Sequence[Inserted]:
            answers = submitting.insert(connection, jobs, bound, moment)
            if any(answer.receipt is Receipt.CREATED for answer in answers):
                ledger.record(connection, [entry], moment)
            return answers

        answers: Sequence[Inserted] = await self._write(insert, jobs, now=now)
        return answers

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        """Lease due jobs to a worker, most urgent first."""
        self.hear_work()
        if self._open_claims is not None and wanted.ids is None:
            return await self._claim_or_stay(self._open_claims, wanted, _given(now))
        jobs: list[Job] = await self._writer.run(self._timed(leasing.claim), wanted, _given(now), manner=self._claiming)
        return jobs

    async def _claim_or_stay(self, open_claims: OpenClaims, wanted: Claim, now: int | None) -> Sequence[Job]:
        answer = open_claims.take(wanted)
        if answer is not None:
            return answer.jobs(wanted) or await self._read(leasing.recall, answer.claim_id) or ()
        stay = open_claims.stay(wanted)
        manner = PLAINLY if stay.needs_lock else self._claiming
        found: Sequence[Job] = await self._writer.run(self._timed(open_claims.claim), wanted, stay, now, manner=manner)
        open_claims.note_done(wanted, stay, found)
        return found

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        """Extend the leases whose fence still holds."""
        answers: list[Renewed | None] = await self._writer.run(self._renew, renewals, _given(now), manner=MERGED)
        return [answer for answer in answers if answer is not None]

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: Entry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        """Apply the settlements that still hold and return their ids."""
        if entry is None:
            applied: list[bool] = await self._writer.run(self._settle, settlements, _given(now), manner=MERGED)
        else:
            applied = await self._write(_recorded, settling.settle, settlements, entry, now=now)
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

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
        jobs: list[Job] = await self._read(self._timed(leasing.lost), limit, _given(now))
        return jobs

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        """Give waiting jobs that are too late to start."""
        jobs: list[Job] = await self._read(self._timed(leasing.expired), limit, _given(now))
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
        found: JobSlice = await self._read(_in_snapshot, reading.find, query, size)
        return found

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        """Give a job's attempts."""
        attempts: list[Attempt] = await self._read(_in_snapshot, reading.attempts, job_id)
        return attempts

    async def census(self) -> Census:
        """Count all jobs, at one moment."""
        counts: Census = await self._read(_in_snapshot, reading.census)
        return counts

    async def timetable(self) -> Timetable:
        """Say when upkeep is needed next."""
        found: Timetable = await self._read(self._timed(upkeep.timetable), None)
        return found

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete finished jobs past their time."""
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
        groups: list[DeadGroup] = await self._read(reading.dead_groups, limit)
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
        found: list[Dispatched] = await self._read(self._timed(dispatching.queued), limit, since, start, _given(now))
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
        found: list[Schedule] = await self._read(self._timed(scheduling.due_schedules), limit, _given(now))
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
        is_gone: bool = await self._writer.run(stepping.withdraw, job_id, fence, key)
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
        await self._writer.run(fleet.leave, list(boots))

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        """Take or keep the lead if nobody else holds it."""
        leadership: Leadership = await self._write(fleet.lead, name, holder, lasting, now=now)
        return leadership

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        """Say who leads, if anybody does."""
        leadership: Leadership | None = await self._read(self._timed(fleet.leader), name, _given(now))
        return leadership

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up."""
        await self._writer.run(fleet.resign, name, holder)

    async def check_in(self, told: CheckIn, *, now: datetime | None = None) -> Bearings:
        """Record that processes are alive, take or keep the lead, and say what is known."""
        bearings: Bearings = await self._write(fleet.check_in, told, now=now)
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

    async def _write(self, verb: Verb, *arguments: Any, now: datetime | None) -> Any:  # noqa: ANN401 - as the verb does
        return await self._writer.run(self._timed(verb), *arguments, _given(now))

    async def _read(self, verb: Verb, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
        return await next(self._turns).run(verb, *arguments)

    def _insert_at_once(
        self, connection: Connection, jobs: Sequence[NewJob], bound: int | None, now: int | None
    ) -> Sequence[Inserted] | None:
        open_claims = self._open_claims
        if open_claims is not None and len(jobs) == 1 and bound is None and (marks := open_claims.glance()):
            answered = open_claims.answer(connection, jobs[0], marks, now)
            if answered is not None:
                return answered
        return submitting.insert_at_once(connection, jobs, bound, self._now() if now is None else now)

    def _timed(self, verb: Verb) -> Verb:
        """Give a verb the time as its last argument: the one it was called with, or the clock's when it runs."""

        def run(connection: Connection, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
            if arguments[-1] is None:
                arguments = (*arguments[:-1], self._now())
            return verb(connection, *arguments)

        run.__name__ = verb.__name__
        return run


def _micros_of(clock: Clock) -> Callable[[], int]:
    return wall_micros if clock is wall_clock else lambda: to_micros(clock())


def _given(now: datetime | None) -> int | None:
    return None if now is None else to_micros(now)


def _recorded(connection: Connection, verb: Verb, subject: Any, entry: Entry | None, now: int) -> Any:  # noqa: ANN401
    """Run a verb and, if it did anything, write in the same transaction who asked for it."""
    answer = verb(connection, subject, now)
    # By identity: an id may be 0, which is not nothing.
    did_something = any(one is not False for one in answer) if isinstance(answer, list) else answer is not False
    if entry is not None and did_something:
        ledger.record(connection, [entry], now)
    return answer


def _untimed(verb: Verb) -> Verb:
    def run(connection: Connection, subject: Any, now: int) -> Any:  # noqa: ANN401, ARG001 - as the verb does
        return verb(connection, subject)

    return run


def _in_snapshot(connection: Connection, verb: Verb, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
    """Run several reads so that they see one moment."""
    connection.run("SAVEPOINT reading")
    try:
        answer = verb(connection, *arguments)
    except BaseException:
        # What went wrong must not be hidden by what then goes wrong too.
        with suppress(Broken, Busy):
            connection.run("RELEASE reading")
        raise
    connection.run("RELEASE reading")
    return answer


def _check(connection: Connection) -> list[str]:
    try:
        return [finding for (finding,) in connection.rows("PRAGMA integrity_check") if finding != "ok"]
    except Broken as error:
        return [str(error)]
