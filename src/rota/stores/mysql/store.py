"""The store on MariaDB and MySQL: every verb of `rota.ports.store.Store`, passed on to the module that implements it.

Inserts, claims, settlements and renewals go through a batcher each: calls that come in together share a transaction.
Other writes have a transaction of their own. Reads have connections of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Self, TypeVar, TypeVarTuple

from rota.batching import Batcher
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
from rota.core.time import from_micros, to_micros
from rota.core.waiting import Emission, Emitted, EmittedEvent, Wait
from rota.ports.clock import Clock
from rota.ports.store import (
    Dispatched,
    Inserted,
    JobQuery,
    JobSlice,
    Receipt,
    Retention,
    StoreCondition,
    TableSize,
    Timetable,
)
from rota.ports.wakeup import OnWake, Wake
from rota.stores.base import ledger
from rota.stores.base.session import Running
from rota.stores.base.store import BaseStore
from rota.stores.limit_memory import LimitMemory
from rota.stores.mysql import (
    breakers,
    check,
    claim,
    cluster,
    dispatch,
    events,
    insert,
    limits,
    schedules,
    settle,
    upkeep,
    workflows,
)
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.errors import ConditionFailed, ConstraintViolated
from rota.stores.mysql.lease_cache import LeaseCache
from rota.stores.mysql.listing import find
from rota.stores.mysql.location import location_of
from rota.stores.mysql.low_water import LowWaterMarks
from rota.stores.mysql.migrations import migrate
from rota.stores.mysql.notify import NotificationWatch, Notifier
from rota.stores.mysql.pool import Pool, in_snapshot, limited
from rota.stores.mysql.statements import statement
from rota.stores.rows import micros

#: Few connections with large batches are faster than many.
WRITERS: Final = 4
READERS: Final = 2
#: For lists and counts, so that these delay neither health checks nor the scheduler.
BROWSERS: Final = 2
#: The same where a process has the stores of many namespaces open.
FEW_WRITERS: Final = 2
FEW_BROWSERS: Final = 1
#: How long the server may work on a list for a person, and on a count in the background. Both are shorter than the time
#: after which a server that does not respond is taken for gone.
LIST_SECONDS: Final = 2
COUNT_SECONDS: Final = 5

T = TypeVar("T")
S = TypeVar("S")
Ts = TypeVarTuple("Ts")


class MysqlStore(BaseStore[MysqlConnection]):
    """All verbs of `rota.ports.store.Store` on MariaDB or MySQL."""

    #: Its connections belong to the event loop.
    blocking: None = None
    #: Waiting claims are not stored; a waiting worker is notified and claims again.
    keeps_waiting_claims = False

    def __init__(self, writers: Pool, readers: Pool, clock: Clock | None, browsers: int = BROWSERS) -> None:
        self._writers = writers
        self._readers = readers
        self._browsers = Pool(readers.location, browsers, autocommit=True)
        self._clock = clock
        self._server_clock = ServerClock()
        self._watch = NotificationWatch(readers, f"{writers.origin}-%")
        self._notifier = Notifier(readers, self._watch.listener)
        writers.on_no_response = readers.on_no_response = self._browsers.on_no_response = self._drop_idle_connections
        #: How often this store has notified, and the number of notifications of all processes at the last claim.
        self._sent = 0
        self._known = -1
        #: Whether the last claim got as many jobs as its limit: then there are probably more.
        self._gave_all = False
        self._low_water_marks = LowWaterMarks()
        self._lease_cache = LeaseCache()
        self._memory = LimitMemory()
        self._inserting = Batcher[NewJob, Inserted](self._insert_together, prompt=True)
        self._claiming = Batcher[Claim, Sequence[Job]](self._claim_together)
        self._settling = Batcher[Settlement, bool](self._settle_together)
        self._renewing = Batcher[Renewal, Renewed | None](self._renew_together)

    @classmethod
    async def open(cls, location: str, *, clock: Clock | None = None, few_connections: bool = False) -> Self:
        """Connect to a database and migrate it. Without a clock, the server's time counts for all processes."""
        where = location_of(location)
        writers, browsers = (FEW_WRITERS, FEW_BROWSERS) if few_connections else (WRITERS, BROWSERS)
        store = cls(Pool(where, writers, autocommit=False), Pool(where, READERS, autocommit=True), clock, browsers)
        try:
            await store._read_at(migrate, now=None)
            await store._watch.open()
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        for batcher in (self._inserting, self._claiming, self._settling, self._renewing):
            await batcher.close()
        await self._notifier.close()
        await self._watch.close()
        for pool in (self._writers, self._readers, self._browsers):
            await pool.close()

    def _drop_idle_connections(self) -> None:
        """Drop all idle connections: one got no response, and the others may be half-open too."""
        self._writers.drop_idle()
        self._readers.drop_idle()
        self._browsers.drop_idle()
        self._watch.listener.reconnect()

    async def time(self) -> datetime:
        return from_micros(await self._read(self._now))

    def watch_for_work(self) -> None:
        """Do nothing: a caller of `watch` gets all notifications."""

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Wake:  # noqa: ARG002 - answers
        return await self._watch.watch(at_most)

    async def condition(self, retention: Retention, *, now: datetime | None = None) -> StoreCondition:
        return await self._read_at(check.condition, retention, now=now)

    async def sizes(self) -> Sequence[TableSize]:
        return await self._read(check.sizes)

    async def check(self) -> Sequence[str]:
        try:
            return await self._read(check.check)
        except StoreUnavailable as error:
            return [str(error)]

    # Jobs

    async def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        if entry is None:
            return await self._inserting.run(jobs, bound, micros(now))

        async def insert_recorded(connection: MysqlConnection, moment: int) -> Sequence[Inserted]:
            answers = await insert.insert(connection, jobs, bound, moment)
            if any(answer.receipt is Receipt.CREATED for answer in answers):
                await ledger.record(connection, [entry], moment)
            return answers

        return await self._write(insert_recorded, now=now)

    def leased_meanwhile(self, claim: Claim) -> Sequence[Job]:  # noqa: ARG002 - the port's
        """Return nothing: waiting claims are not stored here."""
        return ()

    async def claim(self, claim: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        (jobs,) = await self._claiming.run([claim], micros(now))
        return jobs

    async def _claim_together(self, claims: Sequence[Claim], now: int | None) -> Sequence[Sequence[Job]]:
        """Run claims that came in together.

        If there was no notification since a claim that got fewer jobs than its limit, there is mostly no work, and a
        transaction takes several statements. Then a query first checks whether there may be work; also if the server
        time has to be read anyway, which the same query does. It is skipped if all readers are busy.
        """
        notifications = self._sent + self._watch.changes
        is_quiet, self._known = notifications == self._known and not self._gave_all, notifications
        is_by_server = now is None and self._clock is None
        may_ask = is_by_server and self._readers.has_free_connection and all(map(claim.is_plain, claims))
        asks_first = may_ask and (is_quiet or not self._server_clock.is_fresh)
        if asks_first and not await self._readers.run(claim.has_work, self._server_clock, claims):
            self._gave_all = False
            return [[] for _ in claims]
        scan = self._low_water_marks.begin(claims, notifications, may_continue=is_by_server)
        try:
            leased: Sequence[Sequence[Job]] = await self._change(claim.claim, claims, scan, self._memory, at=now)
        except ConstraintViolated:
            # A named claim that was said to be new has come before.
            looked_up = [replace(request, is_new=False) for request in claims]
            leased = await self._change(claim.claim, looked_up, scan, self._memory, at=now)
        self._low_water_marks.commit(scan)
        for jobs in leased:
            self._lease_cache.add(jobs)
        self._gave_all = all(len(jobs) == request.limit for jobs, request in zip(leased, claims, strict=True))
        return leased

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        answers = await self._renewing.run(renewals, micros(now))
        return [answer for answer in answers if answer is not None]

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        if entry is None:
            applied = await self._settling.run(settlements, micros(now))
        else:
            applied = await self._write_recorded(settle.settle, settlements, entry, now)
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def _settle_together(self, settlements: Sequence[Settlement], now: int | None) -> list[bool]:
        """Apply settlements that came in together; leases in the cache need not be read."""
        groups = self._lease_cache.group(settlements) if settle.are_plain(settlements) else None
        sent = self._sent
        try:
            keyed = self._lease_cache.keyed(settlements) if groups is not None else ()
            applied = await self._change(settle.settle_cached, settlements, groups, keyed, at=now)
        except (ConditionFailed, ConstraintViolated):
            if groups is None:
                raise
            self._lease_cache.suspend()
            applied = await self._change(settle.settle, settlements, at=now)
        self._lease_cache.remove(settlements)
        if self._sent != sent:
            # The jobs after those that ended may be due, in any queue; workers of this process wait too.
            self._watch.note_own()
        return applied

    async def edit(self, change: JobChange, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._write_recorded(settle.edit, change, entry, now)

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(claim.request_cancel, leases, entry, now)

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        return await self._write(upkeep.promote, limit, now=now)

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._read_at(claim.lapsed, limit, now=now)

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._read_at(upkeep.expired, limit, now=now)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        return await self._browse(LIST_SECONDS, find, query, size)

    async def timetable(self) -> Timetable:
        times = await self._read(upkeep.timetable, self._server_clock)
        return times if self._clock is None else replace(times, now=self._clock())

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete finished jobs past their retention. Mostly there are none, which one query shows."""
        moment = self._clock() if now is None and self._clock is not None else now
        if not await self._read(upkeep.has_prunable, self._server_clock, retention, micros(moment)):
            return 0
        return await self._write(upkeep.prune, retention, limit, now=now)

    async def discard(
        self, ids: Sequence[JobId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(upkeep.discard, ids, entry, now)

    # Jobs handed to an external broker

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        return await self._write(dispatch.dispatch, room, now=now)

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        return await self._write(dispatch.recall, ids, now=now)

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        start = -1 if after is None else after
        return await self._read_at(dispatch.queued, limit, since, start, now=now)

    # Schedules

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(schedules.fire, firings, entry, now)

    # Steps

    async def begin_wait(
        self, job_id: JobId, fence: int, wait: Wait, *, child: NewJob | None = None, now: datetime | None = None
    ) -> Step | None:
        return await self._write(events.begin_wait, job_id, fence, wait, child, now=now)

    # Events

    async def emit(
        self, emission: Emission, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Emitted:
        return await self._write(events.emit_recorded, emission, entry, now=now)

    async def event(self, name: str, *, now: datetime | None = None) -> EmittedEvent | None:
        return await self._read_at(events.event, name, now=now)

    async def end_waits(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        return await self._write(events.end_waits, limit, now=now)

    # Members, leadership, queues

    async def check_in(self, heartbeat: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        moment = self._clock() if now is None and self._clock is not None else now
        # On an autocommit connection, unless all readers are busy: a process whose heartbeat is late counts as dead.
        pool = self._readers if self._readers.has_free_connection else self._writers
        view: ClusterView = await pool.run(cluster.check_in, heartbeat, micros(moment))
        return view

    # Limits

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        self._memory.note_in_use()
        return await self._write_recorded(limits.put_limits, limits_, entry, now)

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        self._memory.note_in_use()
        await self._write_recorded(limits.close_limit, limit, entry, now)

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._write_recorded(_untimed(limits.drop_limit), name, entry, now)

    async def limits(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[Limit]:
        return await self._read(limits.limits, names, after, limit)

    async def limit_usage(self, limit: Limit, *, now: datetime | None = None) -> LimitUsage:
        return await self._read_at(limits.usage, limit, self._memory, now=now)

    # Circuit breakers

    async def breakers(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[CircuitBreaker]:
        return await self._read(breakers.breakers, names, after, limit)

    async def put_breaker(
        self, breaker: CircuitBreaker, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        self._memory.note_in_use()
        return await self._write_recorded(breakers.put_breaker, breaker, entry, now)

    async def count_calls(
        self, source: str, counts: Sequence[CallCount], *, now: datetime | None = None
    ) -> Sequence[CallCount]:
        return await self._write(breakers.count_calls, source, counts, now=now)

    async def calls(self, counts: Sequence[CallCount], *, now: datetime | None = None) -> Sequence[CallCount]:
        return await self._read_at(breakers.calls, counts, now=now)

    # Workflows

    async def put_workflow(
        self,
        workflow: NewWorkflow,
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        return await self._write(workflows.put_workflow, workflow, bound, entry, now=now)

    async def rerun(self, again: Rerun, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._write_recorded(workflows.rerun, again, entry, now)

    # How verbs are run

    async def _insert_together(self, jobs: Sequence[NewJob], bound: int | None, now: int | None) -> Sequence[Inserted]:
        return await self._change(insert.insert, jobs, bound, at=now)

    async def _renew_together(self, renewals: Sequence[Renewal], now: int | None) -> Sequence[Renewed | None]:
        return await self._change(claim.renew, renewals, at=now)

    async def _write(
        self, verb: Callable[[MysqlConnection, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None
    ) -> T:
        return await self._change(verb, *arguments, at=micros(now))

    async def _write_untimed(self, verb: Callable[[MysqlConnection, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._writers.run(verb, *arguments)

    async def _change(
        self, verb: Callable[[MysqlConnection, *Ts, int], Running[T]], *arguments: *Ts, at: int | None
    ) -> T:
        """Run a verb in a transaction; if it made work, notify in the same one, and wake listeners after the commit."""
        has_notified = False

        async def run(connection: MysqlConnection) -> T:
            nonlocal has_notified
            moment = await self._now(connection) if at is None else at
            answer = await verb(connection, *arguments, moment)
            has_notified = connection.has_made_work
            if has_notified:
                connection.has_made_work = False
                connection.defer(statement("notify"), {"origin": connection.origin, "now": moment})
            return answer

        answer = await self._writers.run(run)
        if has_notified:
            self._sent += 1
            self._notifier.notify()
        return answer

    async def _read(self, verb: Callable[[MysqlConnection, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._readers.run(verb, *arguments)

    async def _read_at(
        self, verb: Callable[[MysqlConnection, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None
    ) -> T:
        async def run(connection: MysqlConnection) -> T:
            return await verb(connection, *arguments, await self._now(connection) if now is None else to_micros(now))

        return await self._readers.run(run)

    async def _read_snapshot(self, verb: Callable[[MysqlConnection, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._readers.run(in_snapshot, verb, *arguments)

    async def _count(self, verb: Callable[[MysqlConnection, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._browse(COUNT_SECONDS, verb, *arguments)

    async def _browse(self, seconds: int, verb: Callable[[MysqlConnection, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._browsers.run(limited, seconds, verb, *arguments)

    async def _now(self, connection: MysqlConnection) -> int:
        return to_micros(self._clock()) if self._clock is not None else await self._server_clock.now(connection)


def _untimed(verb: Callable[[MysqlConnection, S], Running[T]]) -> Callable[[MysqlConnection, S, int], Running[T]]:
    """Adapt a verb without a time to a caller that passes one."""

    async def run(connection: MysqlConnection, subject: S, now: int) -> T:  # noqa: ARG001 - of the verb
        return await verb(connection, subject)

    return run
