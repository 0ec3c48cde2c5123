"""The SQLite store: every verb of the store port, run on the writer's or a reader's connection.

Each verb is a function of one of the modules beside this one. On a file, writes go to the writer thread and reads to
the reader threads. In memory both use one connection without threads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, nullcontext
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import cycle
from time import time_ns
from typing import Final, Self, TypeVar

from rota.core.cluster import ClusterView, Leadership, Member, MemberHeartbeat, Role
from rota.core.errors import StoreUnavailable
from rota.core.ids import LARGEST, JobId, ScheduleId
from rota.core.job import Attempt, Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry, Token
from rota.core.limit import Limit, LimitUsage
from rota.core.queue import Lane, Queue
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
from rota.core.time import to_micros
from rota.ports.clock import Clock
from rota.ports.store import (
    Census,
    DeadGroup,
    Dispatched,
    Inserted,
    JobQuery,
    JobSlice,
    OnWake,
    Retention,
    Timetable,
)
from rota.stores import listing
from rota.stores.limit_memory import LimitMemory
from rota.stores.sqlite import (
    check,
    claim,
    cluster,
    dispatch,
    insert,
    ledger,
    limits,
    queries,
    queues,
    schedules,
    settle,
    steps,
    upkeep,
)
from rota.stores.sqlite.driver import (
    IN_MEMORY,
    Connect,
    DatabaseBusy,
    DatabaseFailed,
    SqliteConnection,
    StandardConnection,
    open_database,
    open_reader,
    resolve_path,
)
from rota.stores.sqlite.file_identity import FileIdentity
from rota.stores.sqlite.fork import ForkBlocker
from rota.stores.sqlite.group_commit import MERGEABLE, PLAIN, OperationMode
from rota.stores.sqlite.handoff.claim_handoff import ClaimHandoff
from rota.stores.sqlite.handoff.claims_file import ClaimsFile
from rota.stores.sqlite.migrations import migrate
from rota.stores.sqlite.notify import Listener, Notifier
from rota.stores.sqlite.schedules import put_schedules
from rota.stores.sqlite.wal_growth import WalPreallocator
from rota.stores.sqlite.writer import (
    ConnectionRunner,
    InlineReader,
    InlineWriter,
    ReaderThread,
    WriterThread,
    close_connection,
)

T = TypeVar("T")
READERS: Final = 2
#: The range of a datetime in microseconds.
_LATEST: Final = to_micros(datetime.max.replace(tzinfo=UTC))
_EARLIEST: Final = to_micros(datetime.min.replace(tzinfo=UTC))


def wall_clock() -> datetime:
    """Return the time of this host, which is the store's time: SQLite has no server."""
    return datetime.now(UTC)


def wall_micros() -> int:
    return time_ns() // 1000


class SqliteStore:
    """The store port on SQLite."""

    def __init__(
        self,
        writer: ConnectionRunner,
        readers: Sequence[ConnectionRunner],
        clock: Clock,
        *,
        listener: Listener | None = None,
        handoff: ClaimHandoff | None = None,
        resources: ExitStack | None = None,
    ) -> None:
        self._writer = writer
        self._listener = listener
        self._handoff = handoff
        #: What the threads use; closed after them.
        self._resources = resources
        self._readers = readers
        self._next_reader = cycle(readers)
        self._clock = clock
        # Called at each single submission: microseconds cost less than a datetime.
        self._now = _micros_of(clock)
        self._memory = LimitMemory() if handoff is None else handoff.memory
        # Made once: operations are merged only if they have the same verb object.
        self._insert = self._timed(insert.insert)
        self._insert_mode = OperationMode(is_mergeable=True, single_statement=self._insert_at_once)
        self._claim_mode = OperationMode(reads_first=True)
        self._settle = self._timed(settle.settle)
        self._renew = self._timed(claim.renew)

    @classmethod
    async def open(
        cls, location: str | os.PathLike[str], *, clock: Clock = wall_clock, connect: Connect = StandardConnection
    ) -> Self:
        """Open a database file, or `:memory:`, and apply the missing migrations."""
        with ForkBlocker():
            return await cls._open(resolve_path(os.fspath(location)), clock, connect)

    @classmethod
    async def _open(cls, path: str, clock: Clock, connect: Connect) -> Self:
        opener = partial(open_database, path, connect)
        try:
            first = opener()
            try:
                migrate(first, to_micros(clock()))
            except BaseException:
                first.close()
                raise
            if path == IN_MEMORY:
                return cls(InlineWriter(first), [InlineReader(first)], clock)
            # Closed last: while a connection is open, no other process takes the file for unused.
            try:
                return await cls._on_file(opener, FileIdentity(path), clock)
            finally:
                first.close()
        except (DatabaseFailed, DatabaseBusy) as error:
            raise StoreUnavailable(f"cannot use {path} as a store: {error}") from error

    @classmethod
    async def _on_file(cls, opener: Callable[[], SqliteConnection], identity: FileIdentity, clock: Clock) -> Self:
        async with AsyncExitStack() as opened:
            readers = []
            for number in range(READERS):
                reader = ReaderThread(
                    f"rota-sqlite-reader-{number}",
                    partial(open_reader, opener),
                    check_file=identity.for_another_thread().check,
                )
                readers.append(reader)
                opened.push_async_callback(reader.close)
            resources = opened.enter_context(ExitStack())
            notifier = Notifier(identity.path)
            resources.callback(notifier.close)
            resources.callback(identity.close)
            writer = WriterThread(
                "rota-sqlite-writer",
                opener,
                check_file=identity.check_after_commit,
                notify=notifier.notify,
                grow_wal=WalPreallocator(identity.log, identity.log_id).after_commit,
            )
            opened.push_async_callback(writer.close)
            claims_file = ClaimsFile.open(identity.path)
            handoff = None if claims_file is None else ClaimHandoff(claims_file, _micros_of(clock))
            if handoff is not None:
                resources.callback(handoff.close)
            listener = Listener(opener(), identity.path)
            store = cls(writer, readers, clock, listener=listener, handoff=handoff, resources=resources)
            opened.pop_all()
            return store

    @property
    def has_handoff(self) -> bool:
        """Whether a waiting claim may be answered by a submitter; not in memory, where there is one process."""
        return self._handoff is not None

    def handed_off(self, wanted: Claim) -> Sequence[Job]:
        """Return the job that was handed to a waiting claim, once, if it is in memory here."""
        return () if self._handoff is None else self._handoff.at_hand(wanted)

    @cached_property
    def blocking(self) -> Self | None:
        """The same store for callers without an event loop; None in memory."""
        runners = [runner.blocking for runner in (self._writer, *self._readers)]
        writer, *readers = [runner for runner in runners if runner is not None] or (None,)
        if writer is None:
            return None
        # A copy, since it must have the same verb objects.
        store = copy(self)
        store.__dict__ |= {"_writer": writer, "_readers": readers, "_next_reader": cycle(readers), "_listener": None}
        return store

    @property
    def supports_limits(self) -> bool:
        return True

    def limit_pause(self, wanted: Claim) -> timedelta | None:
        return self._memory.pause(wanted)

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        return self._memory.note_settled(ids)

    async def close(self) -> None:
        """Finish the queued operations and close all connections."""
        listener, self._listener = self._listener, None
        runners = (self._writer, *self._readers)
        for runner in dict.fromkeys(runners):
            await runner.close()
        self._handoff = None
        if self._resources is not None:
            self._resources.close()
        if listener is not None:
            listener.close()
            close_connection(listener.connection, is_lost=any(runner.has_lost_file for runner in runners))

    async def time(self) -> datetime:
        return self._clock()

    def watch_for_work(self) -> None:
        """Have `watch` report new work at once, from now on; until then it is a commit like any other."""
        if self._listener is not None:
            self._listener.enable_work()

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Collection[str]:
        """Wait until another process may have committed, at most for a while; return the topics.

        A store in memory has no other processes.
        """
        listener = self._listener
        if listener is not None:
            with nullcontext() if self._handoff is None else self._handoff.reporting_to(on_wake):
                return await listener.wait(at_most.total_seconds())
        await asyncio.sleep(at_most.total_seconds())
        return ()

    async def check(self) -> Sequence[str]:
        return await self._read(check.check)

    # Jobs

    async def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        if entry is not None:
            return await self._write(insert.insert_recorded, jobs, bound, entry, now=now)
        moment = None if now is None else to_micros(now)
        return await self._writer.run(self._insert, jobs, bound, moment, mode=self._insert_mode)

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        self.watch_for_work()
        if self._handoff is not None and wanted.ids is None:
            return await self._claim_or_wait(self._handoff, wanted, _micros(now))
        verb = self._timed(claim.claim_jobs)
        return await self._writer.run(verb, wanted, self._memory, _micros(now), mode=self._claim_mode)

    async def _claim_or_wait(self, handoff: ClaimHandoff, wanted: Claim, now: int | None) -> Sequence[Job]:
        answer = handoff.take(wanted)
        if answer is not None:
            jobs: Sequence[Job] | None = answer.jobs(wanted)
            return jobs or await self._read(claim.repeated_claim, answer.claim_id) or ()
        plan = handoff.plan(wanted)
        mode = PLAIN if plan.needs_lock else self._claim_mode
        jobs = await self._writer.run(self._timed(handoff.claim), wanted, plan, now, mode=mode)
        handoff.note_claimed(wanted, plan, jobs)
        return jobs

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        answers = await self._writer.run(self._renew, renewals, _micros(now), mode=MERGEABLE)
        return [answer for answer in answers if answer is not None]

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        if entry is None:
            applied = await self._writer.run(self._settle, settlements, _micros(now), mode=MERGEABLE)
        else:
            applied = await self._record(settle.settle, settlements, entry, now)
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._record(claim.ask_cancel, leases, entry, now)

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        return await self._write(upkeep.promote, limit, now=now)

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._read(self._timed(upkeep.lost), limit, _micros(now))

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._read(self._timed(upkeep.expired), limit, _micros(now))

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self._read(queries.get, ids)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await listing.find(self._find, query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        return await listing.find_some(self._find, query)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        return await self._read_snapshot(queries.find, query, size)

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        return await self._read_snapshot(queries.attempts, job_id)

    async def census(self) -> Census:
        return await self._read_snapshot(queries.census)

    async def timetable(self) -> Timetable:
        return await self._read(self._timed(upkeep.timetable), None)

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        return await self._write(upkeep.prune, retention, limit, now=now)

    async def discard(
        self, ids: Sequence[JobId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._record(upkeep.discard, ids, entry, now)

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        return await self._read(queries.blockers, job_id, limit)

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        return await self._read(queries.dead_groups, limit)

    # Jobs of an external broker

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        return await self._write(dispatch.dispatch, room, now=now)

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        return await self._write(dispatch.recall, ids, now=now)

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        start = -1 if after is None else after
        return await self._read(self._timed(dispatch.queued), limit, since, start, _micros(now))

    # Schedules

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        return await self._record(put_schedules, schedules, entry, now)

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        return await self._read(schedules.schedules, ids, names, after, limit)

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        return await self._read(self._timed(schedules.due_schedules), limit, _micros(now))

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._record(schedules.fire, firings, entry, now)

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        return await self._record(ledger.untimed(schedules.drop_schedules), ids, entry, now)

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        before_micros = _LATEST if before is None else to_micros(before)
        return await self._read(schedules.occurrences, schedule_id, before_micros, limit)

    # Steps

    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        return await self._write(steps.intend, job_id, fence, key, now=now)

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        return await self._write(steps.conclude, job_id, fence, key, outcome, now=now)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        return await self._writer.run(steps.withdraw, job_id, fence, key)

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._record(steps.resolve, resolution, entry, now)

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        return await self._read(steps.steps, job_id)

    # Members, leadership, queues

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        await self._write(cluster.beat, members, now=now)

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        since_micros = _EARLIEST if since is None else to_micros(since)
        return await self._read(cluster.members, role, since_micros)

    async def leave(self, boots: Iterable[str]) -> None:
        await self._writer.run(cluster.leave, list(boots))

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        return await self._write(cluster.lead, name, holder, lasting, now=now)

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        return await self._read(self._timed(cluster.leader), name, _micros(now))

    async def resign(self, name: str, holder: str) -> None:
        await self._writer.run(cluster.resign, name, holder)

    async def check_in(self, told: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        return await self._write(cluster.check_in, told, now=now)

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._record(ledger.untimed(queues.put_queue), queue, entry, now)

    async def queues(self) -> Sequence[Queue]:
        return await self._read(queues.queues)

    # Limits

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        return await self._record(limits.put_limits, limits_, entry, now)

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        await self._record(limits.close_limit, limit, entry, now)

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._record(ledger.untimed(limits.drop_limit), name, entry, now)

    async def limits(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[Limit]:
        return await self._read(limits.limits, names, after, limit)

    async def limit_usage(self, limit: Limit, *, now: datetime | None = None) -> LimitUsage:
        return await self._read(self._timed(limits.usage), limit, _micros(now))

    # Audit log and tokens

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        await self._write(ledger.record, entries, now=now)

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        return await self._read(ledger.ledger, LARGEST if before is None else before, limit)

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        await self._record(ledger.untimed(ledger.put_tokens), tokens, entry, None)

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        return await self._read(ledger.tokens, ids)

    # How verbs are run

    async def _write(self, verb: Callable[..., T], *arguments: object, now: datetime | None) -> T:
        return await self._writer.run(self._timed(verb), *arguments, _micros(now))

    async def _record(
        self, verb: Callable[..., T], subject: object, entry: LedgerEntry | None, now: datetime | None
    ) -> T:
        """Run a verb that writes, and record an audit entry with it if it changed anything."""
        return await self._writer.run(self._timed(partial(ledger.recorded, verb)), subject, entry, _micros(now))

    async def _read(self, verb: Callable[..., T], *arguments: object) -> T:
        return await next(self._next_reader).run(verb, *arguments)

    async def _read_snapshot(self, verb: Callable[..., T], *arguments: object) -> T:
        return await next(self._next_reader).run(partial(queries.in_snapshot, verb), *arguments)

    def _insert_at_once(
        self, connection: SqliteConnection, jobs: Sequence[NewJob], bound: int | None, now: int | None
    ) -> Sequence[Inserted] | None:
        handoff = self._handoff
        if handoff is not None and len(jobs) == 1 and bound is None and (checksums := handoff.glance()):
            receipts = handoff.hand_over(connection, jobs[0], checksums, now)
            if receipts is not None:
                return receipts
        return insert.insert_at_once(connection, jobs, bound, self._now() if now is None else now)

    def _timed(self, verb: Callable[..., T]) -> Callable[..., T]:
        """Return a verb whose last argument, the time, may be None: then the clock is read when the verb runs."""

        def run(connection: SqliteConnection, *arguments: object) -> T:
            if arguments[-1] is None:
                arguments = (*arguments[:-1], self._now())
            return verb(connection, *arguments)

        return run


def _micros_of(clock: Clock) -> Callable[[], int]:
    return wall_micros if clock is wall_clock else lambda: to_micros(clock())


def _micros(now: datetime | None) -> int | None:
    return None if now is None else to_micros(now)
