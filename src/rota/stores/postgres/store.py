"""The store's verbs on PostgreSQL, each run in the kind of transaction that suits it.

Submissions, settlements and renewals of concurrent callers are batched, so that many callers cost few commits; what can
be one statement is one. The other verbs are transactions of their own. The port documents the verbs.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Self, TypeVar, TypeVarTuple

from rota.batching import Batcher
from rota.core.breaker import CallCount, CircuitBreaker
from rota.core.cluster import ClusterView, MemberHeartbeat
from rota.core.errors import StoreUnavailable
from rota.core.graph import NewWorkflow, Rerun
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Job
from rota.core.job_edit import JobChange
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit, LimitUsage
from rota.core.queue import Lane, Queue
from rota.core.schedule import Firing, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.time import from_micros, to_micros
from rota.core.waiting import Emission, Emitted, EmittedEvent, Wait
from rota.ports.clock import Clock, wall_clock
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
from rota.stores.postgres import (
    breakers,
    check,
    claim,
    cluster,
    dispatch,
    events,
    insert,
    limits,
    partitions,
    settle,
    upkeep,
    workflows,
)
from rota.stores.postgres.connection import Connector
from rota.stores.postgres.database import Database, server_time, server_version
from rota.stores.postgres.handoff import OpenClaims
from rota.stores.postgres.lanes import LOWEST, LaneStart, Place
from rota.stores.postgres.listing import find
from rota.stores.postgres.low_water import LowWaterMarks, ScanStart
from rota.stores.postgres.migrations import migrate
from rota.stores.postgres.notify import ANYWHERE, SAYS_TIMES, Listener, Notifier, somewhere
from rota.stores.postgres.schedules import fire
from rota.stores.postgres.session import Session
from rota.stores.postgres.submissions import Submissions
from rota.stores.rows import timetable_of
from rota.stores.server_versions import refuse_unsuitable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_KEEP_ALL: Final = Retention(None, None, None, None)


class PostgresStore(BaseStore[Session]):
    """All verbs of `rota.ports.store.Store` on PostgreSQL."""

    #: Its connections belong to the event loop.
    blocking: None = None

    def __init__(self, database: Database, clock: Clock | None, *, hand_over: bool = True) -> None:
        self._database = database
        #: See `handoff`.
        self.keeps_waiting_claims = hand_over
        self._clock = clock
        self._low_water = LowWaterMarks(database)
        self._due_start = ScanStart(time.monotonic)
        self._lease_start = ScanStart(time.monotonic)
        #: The day on which partitions were last added and dropped.
        self._maintained_on: partitions.DayPartition | None = None
        mark = SAYS_TIMES + secrets.token_hex(8)
        self._open_claims = OpenClaims()
        self._notifier = Notifier(database, mark)
        self._memory = LimitMemory()
        self._listener = Listener(database, mark, self._note_stored, self._open_claims)
        self._claims = claim.Claims(database, self._listener, self._open_claims, self._low_water, self._memory)
        self._today = partitions.TodayPartition(clock or wall_clock)
        self._submissions = Submissions(
            database, self._notifier, self._open_claims, self._low_water, self._today, self._memory
        )
        self._settlements: Batcher[Settlement, bool] = Batcher(self._settle_batch)
        self._renewals: Batcher[Renewal, Renewed | None] = Batcher(self._renew_batch)

    @classmethod
    async def open(
        cls, dsn: str, *, clock: Clock | None = None, hand_over: bool = True, few_connections: bool = False
    ) -> Self:
        """Open a database and apply missing migrations. Without a clock the server's own is used; tests bring one."""
        database = Database(Connector(dsn), few_connections=few_connections)
        try:
            refuse_unsuitable("PostgreSQL", await database.read(server_version))
            await database.write(migrate, database.connector.schema)
            store = cls(database, clock, hand_over=hand_over)
            # So that the first jobs to end find their partition.
            with suppress(StoreUnavailable):
                await database.write_timed(partitions.maintain, _KEEP_ALL, now=store._given(None))
        except BaseException:
            await database.close()
            raise
        return store

    async def close(self) -> None:
        for part in (
            self._submissions,
            self._settlements,
            self._renewals,
            self._low_water,
            self._notifier,
            self._listener,
            self._database,
        ):
            await part.close()

    async def time(self) -> datetime:
        if self._clock is not None:
            return self._clock()
        return from_micros(await self._read(server_time))

    def _note_stored(self, places: Iterable[Place]) -> None:
        """Note what another process has stored. A place without a type may be a job with a key, or anything."""
        stored = list(places)
        self._low_water.note_stored(stored)
        if any(not type_ for _, type_, _ in stored):
            self._memory.note_in_use()

    def watch_for_work(self) -> None:
        self._listener.listen_for_work(also_handed_over=True)

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Wake:
        return await self._listener.wait(at_most, on_wake)

    async def condition(self, retention: Retention, *, now: datetime | None = None) -> StoreCondition:
        return await self._database.read_timed(check.condition, retention, now=self._given(now))

    async def sizes(self) -> Sequence[TableSize]:
        return await self._database.read(check.sizes)

    async def check(self) -> Sequence[str]:
        return await self._database.survey(check.findings)

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
            return await self._insert_recorded(jobs, bound, entry, now)
        return await self._submissions.insert(jobs, bound, self._given(now))

    async def _insert_recorded(
        self, jobs: Sequence[NewJob], bound: int | None, entry: LedgerEntry, now: datetime | None
    ) -> Sequence[Inserted]:
        """Store jobs with an entry in the ledger, for an operator: rare, so without batching."""

        async def insert_and_record(session: Session, jobs: Sequence[NewJob], moment: int) -> list[Inserted]:
            receipts = await insert.insert(session, jobs, bound, moment)
            if any(receipt.receipt is Receipt.CREATED for receipt in receipts):
                await ledger.record(session, [entry], moment)
            return receipts

        receipts = await self._write(insert_and_record, jobs, now=now)
        self._submissions.notify_of(jobs)
        return receipts

    def leased_meanwhile(self, claim: Claim) -> Sequence[Job]:
        return self._open_claims.at_hand(claim)

    def claim(self, claim: Claim, *, now: datetime | None = None) -> Running[Sequence[Job]]:
        # Not async: a coroutine that only awaits another one costs each claim a little.
        return self._claims.claim(claim, self._given(now))

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        answers = await self._renewals.run(renewals, self._given(now))
        return [answer for answer in answers if answer is not None]

    async def _renew_batch(self, renewals: Sequence[Renewal], now: int | None) -> Sequence[Renewed | None]:
        is_one_statement = all(map(claim.is_quiet, renewals)) and _differ(one.job_id for one in renewals)
        run = self._database.alone if is_one_statement else self._database.write
        return await run(claim.renew, renewals, now)

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        if entry is None:
            applied = await self._settlements.run(settlements, self._given(now))
        else:
            applied = await self._write_recorded(settle.settle, settlements, entry, now)
            self._notify_anywhere()
        if all(applied):
            return [one.job_id for one in settlements]
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def _settle_batch(self, settlements: Sequence[Settlement], now: int | None) -> Sequence[bool]:
        # Plain successes are one statement; what it leaves aside, because other jobs wait for it, follows.
        if not all(map(settle.is_plain, settlements)) or not _differ(one.job_id for one in settlements):
            applied = await self._database.write_timed(settle.settle, settlements, now=now)
            self._notify_anywhere()
            return applied
        applied = await self._database.alone(settle.complete, settlements, now)
        if all(applied):
            return applied
        left = [one for one, is_done in zip(settlements, applied, strict=True) if not is_done]
        rest = iter(await self._database.write_timed(settle.settle, left, now=now))
        self._notify_anywhere()
        return [is_done or next(rest) for is_done in applied]

    async def edit(self, change: JobChange, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        is_changed = await self._write_recorded(settle.edit, change, entry, now)
        self._notifier.notify_soon()
        return is_changed

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(settle.ask_cancel, leases, entry, now)

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        given = self._given(now)
        # Their queues are known only afterwards. No place for times: the next run time is of interest here only.
        notification = self._notifier.attach([ANYWHERE])
        queues: Mapping[str, int] = {}
        try:
            queues = await self._database.alone(
                upkeep.promote, limit, _start(self._due_start, given), given, notification
            )
            if queues:
                self._memory.note_in_use()
        finally:
            self._notifier.committed(notification, map(somewhere, queues), has_changed=bool(queues))
        return queues

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        given = self._given(now)
        return await self._database.read_timed(upkeep.lapsed, limit, _start(self._lease_start, given), now=given)

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._read_at(upkeep.expired, limit, now=now)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        return await self._database.read_list(find, query, size)

    async def timetable(self) -> Timetable:
        if self._clock is not None:
            _, *edges = await self._read(upkeep.timetable, LOWEST, LOWEST)
            return timetable_of((to_micros(self._clock()), *edges))
        starts = (self._due_start.start(), self._lease_start.start())
        now, job, lease, *rest = await self._read(upkeep.timetable, *starts)
        self._due_start.learn(starts[0], job, now)
        self._lease_start.learn(starts[1], lease, now)
        return timetable_of((now, job, lease, *rest))

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete finished jobs past their retention; a whole partition at once, if possible.

        Mostly there is nothing to do, which one statement shows. Once a day partitions are added.
        """
        given = self._given(now)
        moment, is_any = await self._read(upkeep.is_anything_prunable, retention, given)
        today = partitions.partition_of(from_micros(moment))
        if not is_any and today == self._maintained_on:
            return 0
        dropped = 0
        with suppress(StoreUnavailable):
            dropped = await self._database.write_timed(partitions.maintain, retention, now=given)
            self._maintained_on = today
        return dropped + await self._database.write_timed(upkeep.prune, retention, limit, now=given)

    async def discard(
        self, ids: Sequence[JobId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(upkeep.discard, ids, entry, now)

    # Jobs handed to a broker

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        limits = {lane: limit for lane, limit in room.items() if limit > 0}
        if not limits:
            return []
        lanes = self._low_water.starts([LaneStart(*lane) for lane in limits])
        rows = await self._database.alone(dispatch.dispatch, lanes, list(limits.values()), self._given(now))
        if rows:
            self._low_water.note_claimed(dispatch.lowest_of(rows), rows[0][5])
        return dispatch.dispatched(rows)

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        recalled = await self._database.alone(dispatch.recall, ids, self._given(now)) if ids else []
        if recalled:
            self._notify_anywhere()
        return recalled

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        start = LOWEST if after is None else after
        return await self._read(dispatch.queued, limit, since, start, self._given(now))

    # Schedules

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        written = await super().put_schedules(schedules, entry=entry, now=now)
        self._notifier.notify_soon()
        return written

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        made = await self._write_recorded(fire, firings, entry, now)
        self._notifier.notify_soon()
        return made

    # Steps

    async def begin_wait(
        self, job_id: JobId, fence: int, wait: Wait, *, child: NewJob | None = None, now: datetime | None = None
    ) -> Step | None:
        return await self._write(events.begin_wait, job_id, fence, wait, child, now=now)

    # Events

    async def emit(
        self, emission: Emission, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Emitted:
        emitted = await self._write(events.emit_recorded, emission, entry, now=now)
        if emitted.is_new:
            self._notifier.notify_soon()
        return emitted

    async def event(self, name: str, *, now: datetime | None = None) -> EmittedEvent | None:
        return await self._read_at(events.event, name, now=now)

    async def end_waits(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        queues = await self._write(events.end_waits, limit, now=now)
        if queues:
            self._notifier.notify_soon(map(somewhere, queues))
        return queues

    # Members, leadership, queues

    async def check_in(self, heartbeat: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        return await self._database.alone(cluster.check_in, heartbeat, self._given(now))

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        is_written = await super().put_queue(queue, entry=entry, now=now)
        self._notifier.notify_soon()
        return is_written

    # Limits

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        names = await self._write_recorded(limits.put_limits, limits_, entry, now)
        self._notify_anywhere()
        return names

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        await self._write_recorded(limits.close_limit, limit, entry, now)
        self._notify_anywhere()

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        is_dropped = await self._write_recorded(limits.drop_limit, name, entry, now)
        self._notify_anywhere()
        return is_dropped

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
        return await self._database.read(breakers.breakers, names, after, limit)

    async def put_breaker(
        self, breaker: CircuitBreaker, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        written = await self._write_recorded(breakers.put_breaker, breaker, entry, now)
        self._notify_anywhere()
        return written

    async def count_calls(
        self, source: str, counts: Sequence[CallCount], *, now: datetime | None = None
    ) -> Sequence[CallCount]:
        return await self._database.write_timed(breakers.count_calls, source, counts, now=self._given(now))

    async def calls(self, counts: Sequence[CallCount], *, now: datetime | None = None) -> Sequence[CallCount]:
        return await self._database.read_timed(breakers.calls, counts, now=self._given(now))

    # Workflows

    async def put_workflow(
        self,
        workflow: NewWorkflow,
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        receipts = await self._write(workflows.put_workflow, workflow, bound, entry, now=now)
        self._submissions.notify_of(workflow.jobs)
        return receipts

    async def rerun(self, again: Rerun, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        is_done = await self._write_recorded(workflows.rerun, again, entry, now)
        if again.jobs:
            self._submissions.notify_of(again.jobs)
        return is_done

    # History

    def _notify_anywhere(self) -> None:
        """Notify of changes that may concern any lane, also jobs with a key."""
        self._memory.note_in_use()
        self._notifier.notify_soon()
        # Workers of this process wait too, and it ignores its own notifications.
        self._listener.wake_own()

    def _given(self, now: datetime | None) -> int | None:
        """Return the time of a call; None leaves it to the server."""
        if now is None and self._clock is not None:
            now = self._clock()
        return None if now is None else to_micros(now)

    async def _read(self, verb: Callable[[Session, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._database.read(verb, *arguments)

    async def _read_at(
        self, verb: Callable[[Session, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None
    ) -> T:
        return await self._database.read_timed(verb, *arguments, now=self._given(now))

    async def _read_snapshot(self, verb: Callable[[Session, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._database.survey(verb, *arguments)

    async def _count(self, verb: Callable[[Session, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._database.count(verb, *arguments)

    async def _write(self, verb: Callable[[Session, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None) -> T:
        return await self._database.write_timed(verb, *arguments, now=self._given(now))

    async def _write_untimed(self, verb: Callable[[Session, *Ts], Running[T]], *arguments: *Ts) -> T:
        return await self._database.write(verb, *arguments)


def _start(scan: ScanStart, now: int | None) -> int:
    """Return where to start a scan: at the low-water mark by the server's clock, at the beginning by any other."""
    return scan.start() if now is None else LOWEST


def _differ(ids: Iterable[JobId]) -> bool:
    """Whether no job comes twice."""
    listed = list(ids)
    return len(set(listed)) == len(listed)
