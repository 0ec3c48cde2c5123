"""The SQLite store: every verb of the store port, run on the writer's or a reader's connection.

Each verb is a function of one of the modules beside this one. On a file, writes go to the writer thread and reads to
the reader threads. In memory both use one connection without threads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, nullcontext
from copy import copy
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import cycle
from time import time_ns
from typing import Final, Self, TypeVar, TypeVarTuple

from rota.core.breaker import CallCount, CircuitBreaker
from rota.core.cluster import ClusterView, MemberHeartbeat
from rota.core.errors import StoreUnavailable
from rota.core.graph import NewWorkflow, Rerun
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.job_edit import JobChange
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit, LimitUsage
from rota.core.queue import Lane
from rota.core.schedule import Firing
from rota.core.settlement import Settlement
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.time import to_micros
from rota.core.waiting import Emission, Emitted, EmittedEvent, Wait
from rota.ports.clock import Clock, wall_clock
from rota.ports.store import (
    Dispatched,
    Inserted,
    JobQuery,
    JobSlice,
    Retention,
    StoreCondition,
    TableSize,
    Timetable,
)
from rota.ports.wakeup import OnWake, Wake
from rota.stores.base import cluster
from rota.stores.base.session import Running
from rota.stores.base.store import BaseStore
from rota.stores.limit_memory import LimitMemory
from rota.stores.rows import micros
from rota.stores.sqlite import (
    breakers,
    check,
    dispatch,
    events,
    insert,
    limits,
    schedules,
    settle,
    upkeep,
    workflows,
)
from rota.stores.sqlite import claim as claims
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
from rota.stores.sqlite.listing import find
from rota.stores.sqlite.migrations import migrate
from rota.stores.sqlite.notify import Listener, Notifier
from rota.stores.sqlite.session import SqliteSession, in_snapshot, recorded, shared
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
S = TypeVar("S")
Ts = TypeVarTuple("Ts")
READERS: Final = 2


def wall_micros() -> int:
    return time_ns() // 1000


class SqliteStore(BaseStore[SqliteSession]):
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
        self._renew = self._timed(claims.renew)

    @classmethod
    async def open(
        cls,
        location: str | os.PathLike[str],
        *,
        clock: Clock = wall_clock,
        connect: Connect = StandardConnection,
        hand_over: bool = True,
    ) -> Self:
        """Open a database file, or `:memory:`, and apply the missing migrations."""
        with ForkBlocker():
            return await cls._open(resolve_path(os.fspath(location)), clock, connect, hand_over=hand_over)

    @classmethod
    async def _open(cls, path: str, clock: Clock, connect: Connect, *, hand_over: bool) -> Self:
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
                return await cls._on_file(opener, FileIdentity(path), clock, hand_over=hand_over)
            finally:
                first.close()
        except (DatabaseFailed, DatabaseBusy) as error:
            raise StoreUnavailable(f"cannot use {path} as a store: {error}") from error

    @classmethod
    async def _on_file(
        cls, opener: Callable[[], SqliteConnection], identity: FileIdentity, clock: Clock, *, hand_over: bool
    ) -> Self:
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
            claims_file = ClaimsFile.open(identity.path) if hand_over else None
            handoff = None if claims_file is None else ClaimHandoff(claims_file, _micros_of(clock))
            if handoff is not None:
                resources.callback(handoff.close)
            listener = Listener(opener(), identity.path)
            store = cls(writer, readers, clock, listener=listener, handoff=handoff, resources=resources)
            opened.pop_all()
            return store

    @property
    def keeps_waiting_claims(self) -> bool:
        """Whether a waiting claim may be answered by a submitter; not in memory, where there is one process."""
        return self._handoff is not None

    def leased_meanwhile(self, claim: Claim) -> Sequence[Job]:
        """Return the job that was handed over to a waiting claim, once, if it is in memory here."""
        return () if self._handoff is None else self._handoff.at_hand(claim)

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

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Wake:
        """Wait until another process may have committed, at most for a while; return the topics.

        A store in memory has no other processes.
        """
        listener = self._listener
        if listener is not None:
            with nullcontext() if self._handoff is None else self._handoff.reporting_to(on_wake):
                return await listener.wait(at_most.total_seconds())
        await asyncio.sleep(at_most.total_seconds())
        return ()

    async def condition(self, retention: Retention, *, now: datetime | None = None) -> StoreCondition:
        return await self._query_at(check.condition, retention, now=now)

    async def sizes(self) -> Sequence[TableSize]:
        return await self._query(check.sizes)

    async def check(self) -> Sequence[str]:
        return await self._query(check.check)

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
            return await self._change(insert.insert_recorded, jobs, bound, entry, now=now)
        return await self._writer.run(self._insert, jobs, bound, micros(now), mode=self._insert_mode)

    async def claim(self, claim: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        self.watch_for_work()
        if self._handoff is not None and claim.ids is None:
            return await self._claim_or_wait(self._handoff, claim, micros(now))
        verb = self._timed(claims.claim_jobs)
        return await self._writer.run(verb, claim, self._memory, micros(now), mode=self._claim_mode)

    async def _claim_or_wait(self, handoff: ClaimHandoff, claim: Claim, now: int | None) -> Sequence[Job]:
        answer = handoff.take(claim)
        if answer is not None:
            jobs: Sequence[Job] | None = answer.jobs(claim)
            return jobs or await self._query(claims.repeated_claim, answer.claim_id) or ()
        plan = handoff.plan(claim)
        mode = PLAIN if plan.needs_lock else self._claim_mode
        jobs = await self._writer.run(self._timed(handoff.claim), claim, plan, now, mode=mode)
        handoff.note_claimed(claim, plan, jobs)
        return jobs

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        answers = await self._writer.run(self._renew, renewals, micros(now), mode=MERGEABLE)
        return [answer for answer in answers if answer is not None]

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        if entry is None:
            applied = await self._writer.run(self._settle, settlements, micros(now), mode=MERGEABLE)
        else:
            applied = await self._change_recorded(settle.settle, settlements, entry, now)
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def edit(self, change: JobChange, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._change_recorded(settle.edit, change, entry, now)

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._change_recorded(claims.ask_cancel, leases, entry, now)

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        return await self._change(upkeep.promote, limit, now=now)

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._query_at(upkeep.lost, limit, now=now)

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._query_at(upkeep.expired, limit, now=now)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        return await self._query(in_snapshot(find), query, size)

    async def timetable(self) -> Timetable:
        return await self._query_at(upkeep.timetable, now=None)

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        return await self._change(upkeep.prune, retention, limit, now=now)

    async def discard(
        self, ids: Sequence[JobId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._change_recorded(upkeep.discard, ids, entry, now)

    # Jobs of an external broker

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        return await self._change(dispatch.dispatch, room, now=now)

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        return await self._change(dispatch.recall, ids, now=now)

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        start = -1 if after is None else after
        return await self._query_at(dispatch.queued, limit, since, start, now=now)

    # Schedules

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._change_recorded(schedules.fire, firings, entry, now)

    # Steps

    async def begin_wait(
        self, job_id: JobId, fence: int, wait: Wait, *, child: NewJob | None = None, now: datetime | None = None
    ) -> Step | None:
        return await self._change(events.begin_wait, job_id, fence, wait, child, now=now)

    # Events

    async def emit(
        self, emission: Emission, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Emitted:
        return await self._change(events.emit_recorded, emission, entry, now=now)

    async def event(self, name: str, *, now: datetime | None = None) -> EmittedEvent | None:
        return await self._query_at(events.event, name, now=now)

    async def end_waits(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        return await self._change(events.end_waits, limit, now=now)

    # Members, leadership, queues

    async def check_in(self, heartbeat: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        return await self._write(cluster.check_in, heartbeat, now=now)

    # Limits

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        return await self._change_recorded(limits.put_limits, limits_, entry, now)

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        await self._change_recorded(limits.close_limit, limit, entry, now)

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._change_recorded(_untimed(limits.drop_limit), name, entry, now)

    async def limits(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[Limit]:
        return await self._query(limits.limits, names, after, limit)

    async def limit_usage(self, limit: Limit, *, now: datetime | None = None) -> LimitUsage:
        return await self._query_at(limits.usage, limit, now=now)

    # Circuit breakers

    async def breakers(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[CircuitBreaker]:
        return await self._query(breakers.breakers, names, after, limit)

    async def put_breaker(
        self, breaker: CircuitBreaker, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._change_recorded(breakers.put_breaker, breaker, entry, now)

    async def count_calls(
        self, source: str, counts: Sequence[CallCount], *, now: datetime | None = None
    ) -> Sequence[CallCount]:
        return await self._change(breakers.count_calls, source, counts, now=now)

    async def calls(self, counts: Sequence[CallCount], *, now: datetime | None = None) -> Sequence[CallCount]:
        return await self._query_at(breakers.calls, counts, now=now)

    # Workflows

    async def put_workflow(
        self,
        workflow: NewWorkflow,
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        return await self._change(workflows.put_workflow, workflow, bound, entry, now=now)

    async def rerun(self, again: Rerun, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._change_recorded(workflows.rerun, again, entry, now)

    # How verbs are run: those that all stores share, and this store's own

    async def _read(self, verb: Callable[[SqliteSession, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._query(shared(verb), *arguments)

    async def _read_at(
        self, verb: Callable[[SqliteSession, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None
    ) -> T:
        return await self._query_at(shared(verb), *arguments, now=now)

    async def _write(
        self, verb: Callable[[SqliteSession, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None
    ) -> T:
        return await self._change(shared(verb), *arguments, now=now)

    async def _write_untimed(self, verb: Callable[[SqliteSession, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._writer.run(shared(verb), *arguments)

    async def _change(
        self, verb: Callable[[SqliteConnection, *Ts, int], T], *arguments: *Ts, now: datetime | None
    ) -> T:
        return await self._writer.run(self._timed(verb), *arguments, micros(now))

    async def _change_recorded(
        self, verb: Callable[[SqliteConnection, S, int], T], subject: S, entry: LedgerEntry | None, now: datetime | None
    ) -> T:
        """Run a verb that writes, and record an audit entry with it if it changed anything."""
        return await self._change(partial(recorded, verb), subject, entry, now=now)

    async def _query(self, verb: Callable[[SqliteConnection, *Ts], T], *arguments: *Ts) -> T:
        return await self._reader().run(verb, *arguments)

    async def _query_at(
        self, verb: Callable[[SqliteConnection, *Ts, int], T], *arguments: *Ts, now: datetime | None
    ) -> T:
        return await self._reader().run(self._timed(verb), *arguments, micros(now))

    async def _read_snapshot(self, verb: Callable[[SqliteSession, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._query(in_snapshot(shared(verb)), *arguments)

    _count = _read_snapshot

    def _reader(self) -> ConnectionRunner:
        """Return the next reader, or the one after it while the first is busy: a count of millions takes seconds."""
        reader = next(self._next_reader)
        return next(self._next_reader) if reader.is_busy else reader

    def _insert_at_once(
        self, connection: SqliteConnection, jobs: Sequence[NewJob], bound: int | None, now: int | None
    ) -> Sequence[Inserted] | None:
        handoff = self._handoff
        if handoff is not None and len(jobs) == 1 and bound is None and (checksums := handoff.used_checksums()):
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


def _untimed(verb: Callable[[SqliteConnection, S], T]) -> Callable[[SqliteConnection, S, int], T]:
    """Return a verb that takes the time and does not need it."""

    def run(connection: SqliteConnection, subject: S, now: int) -> T:  # noqa: ARG001 - as all recorded verbs
        return verb(connection, subject)

    return run
