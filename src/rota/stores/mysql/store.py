"""The store on MariaDB and MySQL: every verb of `rota.ports.store.Store`, passed on to the module that implements it.

Inserts, claims, settlements and renewals go through a batcher each: calls that come in together share a transaction.
Other writes have a transaction of their own. Reads have connections of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeAlias, TypeVar, TypeVarTuple

from rota.batching import Batcher
from rota.core.cluster import ClusterView, Leadership, Member, MemberHeartbeat, Role
from rota.core.errors import StoreUnavailable
from rota.core.ids import LARGEST, JobId, ScheduleId
from rota.core.job import Attempt, Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry, Token
from rota.core.queue import Lane, Queue
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Resolution, Step
from rota.core.submission import NewJob
from rota.core.time import from_micros, to_micros
from rota.ports.clock import Clock
from rota.ports.store import (
    Census,
    DeadGroup,
    Dispatched,
    Inserted,
    JobQuery,
    JobSlice,
    OnWake,
    Receipt,
    Retention,
    Timetable,
)
from rota.stores import listing
from rota.stores.mysql import (
    check,
    claim,
    cluster,
    dispatch,
    insert,
    ledger,
    queries,
    queues,
    schedules,
    settle,
    steps,
    upkeep,
)
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import ConditionFailed, ConstraintViolated, MysqlConnection
from rota.stores.mysql.lease_cache import LeaseCache
from rota.stores.mysql.location import location_of
from rota.stores.mysql.low_water import LowWaterMarks
from rota.stores.mysql.migrations import migrate
from rota.stores.mysql.notify import NotificationWatch, Notifier
from rota.stores.mysql.pool import Pool
from rota.stores.mysql.schedules import put_schedules
from rota.stores.mysql.statements import statement
from rota.stores.no_limits import NoLimits

#: Few connections with large batches are faster than many.
WRITERS: Final = 4
READERS: Final = 2
#: For lists and counts, so that these delay neither health checks nor the scheduler.
BROWSERS: Final = 2
#: How long the server may work on a list for a person, and on a count in the background. Both are shorter than the time
#: after which a server that does not respond is taken for gone.
LIST_SECONDS: Final = 2
COUNT_SECONDS: Final = 5
#: The latest and earliest datetime of Python in microseconds.
_LATEST: Final = to_micros(datetime.max.replace(tzinfo=UTC))
_EARLIEST: Final = to_micros(datetime.min.replace(tzinfo=UTC))

T = TypeVar("T")
S = TypeVar("S")
Ts = TypeVarTuple("Ts")
_Coroutine: TypeAlias = Coroutine[Any, Any, T]


class MysqlStore(NoLimits):
    """All verbs of `rota.ports.store.Store` on MariaDB or MySQL."""

    #: Its connections belong to the event loop.
    blocking: None = None
    #: Waiting claims are not stored; a waiting worker is notified and claims again.
    has_handoff = False

    def __init__(self, writers: Pool, readers: Pool, clock: Clock | None) -> None:
        self._writers = writers
        self._readers = readers
        self._browsers = Pool(readers.location, BROWSERS, autocommit=True)
        self._clock = clock
        self._server_clock = ServerClock()
        self._watch = NotificationWatch(readers, f"{writers.origin}-%")
        self._notifier = Notifier(readers, self._watch.listener)
        writers.on_no_response = readers.on_no_response = self._browsers.on_no_response = self._drop_idle_connections
        #: How often this store has notified, and how many notifications of all processes the last claim knew of.
        self._sent = 0
        self._known = -1
        #: Whether the last claim got all it asked for: then there is probably more.
        self._gave_all = False
        self._low_water_marks = LowWaterMarks()
        self._lease_cache = LeaseCache()
        self._inserting = Batcher[NewJob, Inserted](self._serve(insert.insert), prompt=True)
        self._claiming = Batcher[Claim, Sequence[Job]](self._claim_together)
        self._settling = Batcher[Settlement, bool](self._settle_together)
        self._renewing = Batcher[Renewal, Renewed | None](self._serve(claim.renew))

    @classmethod
    async def open(cls, location: str, *, clock: Clock | None = None) -> Self:
        """Connect to a database and migrate it. Without a clock, the server's time counts for all processes."""
        where = location_of(location)
        store = cls(Pool(where, WRITERS, autocommit=False), Pool(where, READERS, autocommit=True), clock)
        try:
            await store._readers.run(store._at(migrate), None)
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
        """Do nothing: a caller of `watch` is told of all notifications."""

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Collection[str]:  # noqa: ARG002 - answers
        return await self._watch.watch(at_most)

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
            return await self._inserting.run(jobs, bound, _micros(now))

        async def insert_recorded(connection: MysqlConnection, moment: int) -> Sequence[Inserted]:
            answers = await insert.insert(connection, jobs, bound, moment)
            if any(answer.receipt is Receipt.CREATED for answer in answers):
                await ledger.record(connection, [entry], moment)
            return answers

        return await self._write(insert_recorded, now=now)

    def handed_off(self, wanted: Claim) -> Sequence[Job]:  # noqa: ARG002 - the port's
        """Return nothing: waiting claims are not stored here."""
        return ()

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        (jobs,) = await self._claiming.run([wanted], _micros(now))
        return jobs

    async def _claim_together(self, claims: Sequence[Claim], now: int | None) -> Sequence[Sequence[Job]]:
        """Run claims that came in together.

        If there was no notification since a claim that got less than it asked for, there is mostly no work, and a
        transaction takes several statements. Then a query first tells whether there may be work; also if the server
        time has to be read anyway, which the same query does. It is left out if all readers are busy.
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
            leased: Sequence[Sequence[Job]] = await self._change(claim.claim, claims, scan, now)
        except ConstraintViolated:
            # A named claim that was said to be new has come before.
            looked_up = [replace(request, is_new=False) for request in claims]
            leased = await self._change(claim.claim, looked_up, scan, now)
        self._low_water_marks.commit(scan)
        for jobs in leased:
            self._lease_cache.add(jobs)
        self._gave_all = all(len(jobs) == request.limit for jobs, request in zip(leased, claims, strict=True))
        return leased

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        answers = await self._renewing.run(renewals, _micros(now))
        return [answer for answer in answers if answer is not None]

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        if entry is None:
            applied = await self._settling.run(settlements, _micros(now))
        else:
            applied = await self._write_recorded(settle.settle, settlements, entry, now)
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def _settle_together(self, settlements: Sequence[Settlement], now: int | None) -> list[bool]:
        """Apply settlements that came in together; leases in the cache need not be read."""
        groups = self._lease_cache.group(settlements) if settle.are_plain(settlements) else None
        try:
            applied = await self._change(settle.settle_cached, settlements, groups, now)
        except (ConditionFailed, ConstraintViolated):
            if groups is None:
                raise
            self._lease_cache.suspend()
            applied = await self._change(settle.settle, settlements, now)
        self._lease_cache.remove(settlements)
        return applied

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

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self._read(queries.get, ids)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await listing.find(self._find, query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        return await listing.find_some(self._find, query)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        return await self._browse(LIST_SECONDS, queries.find, query, size)

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        attempts: list[Attempt] = await self._readers.run(_in_snapshot, queries.attempts, job_id)
        return attempts

    async def census(self) -> Census:
        return await self._browse(COUNT_SECONDS, queries.census)

    async def timetable(self) -> Timetable:
        times = await self._read(upkeep.timetable, self._server_clock)
        return times if self._clock is None else replace(times, now=self._clock())

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete finished jobs past their retention. Mostly there are none, which one query tells."""
        moment = self._clock() if now is None and self._clock is not None else now
        if not await self._read(upkeep.has_prunable, self._server_clock, retention, _micros(moment)):
            return 0
        return await self._write(upkeep.prune, retention, limit, now=now)

    async def discard(
        self, ids: Sequence[JobId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(upkeep.discard, ids, entry, now)

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        return await self._read(queries.blockers, job_id, limit)

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        return await self._browse(COUNT_SECONDS, queries.dead_groups, limit)

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

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        return await self._write_recorded(put_schedules, schedules, entry, now)

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        return await self._read(schedules.schedules, ids, names, after, limit)

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        return await self._read_at(schedules.due_schedules, limit, now=now)

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(schedules.fire, firings, entry, now)

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        return await self._write_recorded(_untimed(schedules.drop_schedules), ids, entry, now)

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        end = _LATEST if before is None else to_micros(before)
        return await self._read(schedules.occurrences, schedule_id, end, limit)

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
        return await self._write(steps.withdraw, job_id, fence, key, now=None)

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._write_recorded(steps.resolve, resolution, entry, now)

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        return await self._read(steps.steps, job_id)

    # Members, leadership, queues

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        await self._write(cluster.beat, members, now=now)

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        return await self._read(cluster.members, role, _EARLIEST if since is None else to_micros(since))

    async def leave(self, boots: Iterable[str]) -> None:
        await self._writers.run(cluster.leave, list(boots))

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        return await self._write(cluster.lead, name, holder, lasting, now=now)

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        return await self._read_at(cluster.leader, name, now=now)

    async def resign(self, name: str, holder: str) -> None:
        await self._writers.run(cluster.resign, name, holder)

    async def check_in(self, told: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        moment = self._clock() if now is None and self._clock is not None else now
        # On an autocommit connection, unless all readers are busy: a process that is late is taken for dead.
        pool = self._readers if self._readers.has_free_connection else self._writers
        bearings: ClusterView = await pool.run(cluster.check_in, told, _micros(moment))
        return bearings

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._write_recorded(_untimed(queues.put_queue), queue, entry, now)

    async def queues(self) -> Sequence[Queue]:
        return await self._read(queues.queues)

    # Audit log and tokens

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        await self._write(ledger.record, entries, now=now)

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        return await self._read(ledger.ledger, LARGEST if before is None else before, limit)

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        await self._write_recorded(_untimed(ledger.put_tokens), tokens, entry, None)

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        return await self._read(ledger.tokens, ids)

    # How verbs are run

    def _serve(self, verb: Callable[..., _Coroutine[T]]) -> Callable[..., _Coroutine[T]]:
        """Return a verb that runs the batches of a batcher in a transaction each."""

        async def serve(batch: Sequence[Any], *sharing: Any) -> T:  # noqa: ANN401 - what the batcher passes on
            return await self._change(verb, batch, *sharing)

        return serve

    async def _write(
        self, verb: Callable[[MysqlConnection, *Ts, int], _Coroutine[T]], *arguments: *Ts, now: datetime | None
    ) -> T:
        return await self._change(verb, *arguments, _micros(now))

    async def _write_recorded(
        self,
        verb: Callable[[MysqlConnection, S, int], _Coroutine[T]],
        subject: S,
        entry: LedgerEntry | None,
        now: datetime | None,
    ) -> T:
        """Run a verb and, if it had an effect, append an audit entry in the same transaction."""

        async def recorded(connection: MysqlConnection, moment: int) -> T:
            answer = await verb(connection, subject, moment)
            # By identity: an id may be 0, which is an effect.
            had_effect = any(one is not False for one in answer) if isinstance(answer, list) else answer is not False
            if entry is not None and had_effect:
                await ledger.record(connection, [entry], moment)
            return answer

        return await self._write(recorded, now=now)

    async def _change(self, verb: Callable[..., _Coroutine[T]], *arguments: Any) -> T:  # noqa: ANN401 - of the verb
        """Run a verb in a transaction; if it made work, notify in the same one, and wake listeners after the commit."""
        has_notified = False

        async def notifying(connection: MysqlConnection, *rest: Any) -> T:  # noqa: ANN401 - of the verb
            nonlocal has_notified
            answer = await verb(connection, *rest)
            has_notified = connection.has_made_work
            if has_notified:
                connection.has_made_work = False
                connection.defer(statement("notify"), {"origin": connection.origin, "now": rest[-1]})
            return answer

        answer: T = await self._writers.run(self._at(notifying), *arguments)
        if has_notified:
            self._sent += 1
            self._notifier.notify()
        return answer

    async def _read(self, verb: Callable[[MysqlConnection, *Ts], _Coroutine[T]], *arguments: *Ts) -> T:
        answer: T = await self._readers.run(verb, *arguments)
        return answer

    async def _read_at(
        self, verb: Callable[[MysqlConnection, *Ts, int], _Coroutine[T]], *arguments: *Ts, now: datetime | None
    ) -> T:
        answer: T = await self._readers.run(self._at(verb), *arguments, _micros(now))
        return answer

    async def _browse(self, seconds: int, verb: Callable[[MysqlConnection, *Ts], _Coroutine[T]], *arguments: *Ts) -> T:
        answer: T = await self._browsers.run(_limited, seconds, verb, *arguments)
        return answer

    def _at(self, verb: Callable[..., _Coroutine[T]]) -> Callable[..., _Coroutine[T]]:
        """Return a verb whose last argument is the time: the given one, or the clock's when it runs."""

        async def run(connection: MysqlConnection, *arguments: Any) -> T:  # noqa: ANN401 - of the verb
            *rest, now = arguments
            moment = await self._now(connection) if now is None else now
            return await verb(connection, *rest, moment)

        return run

    async def _now(self, connection: MysqlConnection) -> int:
        return to_micros(self._clock()) if self._clock is not None else await self._server_clock.now(connection)


def _micros(now: datetime | None) -> int | None:
    return None if now is None else to_micros(now)


def _untimed(verb: Callable[[MysqlConnection, S], _Coroutine[T]]) -> Callable[[MysqlConnection, S, int], _Coroutine[T]]:
    """Return a verb that takes the time and does not need it."""

    async def run(connection: MysqlConnection, subject: S, now: int) -> T:  # noqa: ARG001 - of the verb
        return await verb(connection, subject)

    return run


async def _limited(
    connection: MysqlConnection, seconds: int, verb: Callable[[MysqlConnection, *Ts], _Coroutine[T]], *arguments: *Ts
) -> T:
    """Run several reads in one snapshot; the server ends a statement that takes longer than `seconds`."""
    limit = f"max_statement_time = {seconds}" if connection.is_mariadb else f"max_execution_time = {seconds * 1000}"
    await connection.run(f"SET SESSION {limit}")
    return await _in_snapshot(connection, verb, *arguments)


async def _in_snapshot(
    connection: MysqlConnection, verb: Callable[[MysqlConnection, *Ts], _Coroutine[T]], *arguments: *Ts
) -> T:
    connection.defer("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
    connection.defer("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", {})
    answer = await verb(connection, *arguments)
    await connection.commit()
    return answer
