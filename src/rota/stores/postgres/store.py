"""The store's verbs on PostgreSQL, each run in the kind of transaction that suits it.

Submissions, settlements and renewals of concurrent callers are batched, so that many callers cost few commits; what can
be one statement is one. The other verbs are transactions of their own. The port documents the verbs.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar

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
from rota.ports.wakeup import EVERY_QUEUE
from rota.stores import listing
from rota.stores.no_limits import NoLimits
from rota.stores.postgres import (
    check,
    claim,
    cluster,
    dispatch,
    insert,
    ledger,
    partitions,
    queries,
    queues,
    settle,
    steps,
    upkeep,
)
from rota.stores.postgres import schedules as schedule_verbs
from rota.stores.postgres.connection import Connector
from rota.stores.postgres.database import Database, TimedVerb, server_time
from rota.stores.postgres.handoff import OpenClaims
from rota.stores.postgres.lanes import LOWEST, LaneStart
from rota.stores.postgres.low_water import LowWaterMarks, ScanStart
from rota.stores.postgres.migrations import migrate
from rota.stores.postgres.notify import SAYS_TIMES, Listener, Notifier, somewhere
from rota.stores.postgres.session import Session
from rota.stores.postgres.submissions import Submissions
from rota.stores.rows import timetable_of

T = TypeVar("T")

#: The largest and the smallest time in microseconds that a datetime can be.
_LATEST: Final = to_micros(datetime.max.replace(tzinfo=UTC))
_EARLIEST: Final = to_micros(datetime.min.replace(tzinfo=UTC))
_KEEP_ALL: Final = Retention(None, None, None, None)


class PostgresStore(NoLimits):
    """All verbs of `rota.ports.store.Store` on PostgreSQL."""

    #: Its connections belong to the event loop.
    blocking: None = None
    #: See `handoff`.
    has_handoff = True

    def __init__(self, database: Database, clock: Clock | None) -> None:
        self._database = database
        self._clock = clock
        self._low_water = LowWaterMarks(database)
        self._due_start = ScanStart(time.monotonic)
        self._lease_start = ScanStart(time.monotonic)
        #: The day on which partitions were last added and dropped.
        self._maintained_on: partitions.DayPartition | None = None
        mark = SAYS_TIMES + secrets.token_hex(8)
        self._open_claims = OpenClaims()
        self._notifier = Notifier(database, mark)
        self._listener = Listener(database, mark, self._low_water.note_stored, self._open_claims)
        self._claims = claim.Claims(database, self._listener, self._open_claims, self._low_water)
        self._today = partitions.TodayPartition(clock or _wall_clock)
        self._submissions = Submissions(database, self._notifier, self._open_claims, self._low_water, self._today)
        self._settlements: Batcher[Settlement, bool] = Batcher(self._settle_batch)
        self._renewals: Batcher[Renewal, Renewed | None] = Batcher(self._renew_batch)

    @classmethod
    async def open(cls, dsn: str, *, clock: Clock | None = None) -> Self:
        """Open a database and apply missing migrations. Without a clock the server's own is used; tests bring one."""
        database = Database(Connector(dsn))
        try:
            await database.write(migrate, database.connector.schema)
            store = cls(database, clock)
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
        return from_micros(await self._database.read(server_time))

    def watch_for_work(self) -> None:
        self._listener.listen_for_work(also_handed_over=True)

    async def watch(self, at_most: timedelta, on_wake: OnWake | None = None) -> Collection[str]:
        return await self._listener.wait(at_most, on_wake)

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
        """Store jobs for an operator, with an entry in the ledger: rare, so without batching."""

        async def insert_and_record(session: Session, jobs: Sequence[NewJob], moment: int) -> list[Inserted]:
            receipts = await insert.insert(session, jobs, bound, moment)
            if any(receipt.receipt is Receipt.CREATED for receipt in receipts):
                await ledger.record(session, [entry], moment)
            return receipts

        receipts = await self._database.write_timed(insert_and_record, jobs, now=self._given(now))
        self._submissions.notify_of(jobs)
        return receipts

    def handed_off(self, wanted: Claim) -> Sequence[Job]:
        return self._open_claims.at_hand(wanted)

    async def claim(self, wanted: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._claims.claim(wanted, self._given(now))

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
            self._notifier.notify_soon()
        if all(applied):
            return [one.job_id for one in settlements]
        return [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds]

    async def _settle_batch(self, settlements: Sequence[Settlement], now: int | None) -> Sequence[bool]:
        # Plain successes are one statement; what it leaves aside, because other jobs wait for it, follows.
        if not all(map(settle.is_plain, settlements)) or not _differ(one.job_id for one in settlements):
            applied = await self._database.write_timed(settle.settle, settlements, now=now)
            self._notifier.notify_soon()
            return applied
        applied = await self._database.alone(settle.complete, settlements, now)
        if all(applied):
            return applied
        left = [one for one, is_done in zip(settlements, applied, strict=True) if not is_done]
        rest = iter(await self._database.write_timed(settle.settle, left, now=now))
        self._notifier.notify_soon()
        return [is_done or next(rest) for is_done in applied]

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        return await self._write_recorded(settle.ask_cancel, leases, entry, now)

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        given = self._given(now)
        # Their queues are known only afterwards. No place for times: the next run time is of interest here only.
        notification = self._notifier.attach([somewhere(EVERY_QUEUE)])
        queues: Mapping[str, int] = {}
        try:
            queues = await self._database.alone(
                upkeep.promote, limit, _start(self._due_start, given), given, notification
            )
        finally:
            self._notifier.committed(notification, map(somewhere, queues), has_changed=bool(queues))
        return queues

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        given = self._given(now)
        return await self._database.read_timed(upkeep.lapsed, limit, _start(self._lease_start, given), now=given)

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        return await self._database.read_timed(upkeep.expired, limit, now=self._given(now))

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self._database.read(queries.get, ids)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await listing.find(self._find, query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        return await listing.find_some(self._find, query)

    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        return await self._database.read_list(queries.find, query, size)

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        return await self._database.survey(queries.attempts, job_id)

    async def census(self) -> Census:
        return await self._database.count(queries.census)

    async def timetable(self) -> Timetable:
        if self._clock is not None:
            _, *edges = await self._database.read(upkeep.timetable, LOWEST, LOWEST)
            return timetable_of((to_micros(self._clock()), *edges))
        starts = (self._due_start.start(), self._lease_start.start())
        now, job, lease, *rest = await self._database.read(upkeep.timetable, *starts)
        self._due_start.learn(starts[0], job, now)
        self._lease_start.learn(starts[1], lease, now)
        return timetable_of((now, job, lease, *rest))

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        """Delete finished jobs past their retention; a whole partition at once, if possible.

        Mostly there is nothing to do, which one statement tells. Once a day partitions are added.
        """
        given = self._given(now)
        moment, is_any = await self._database.read(upkeep.is_anything_prunable, retention, given)
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

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        return await self._database.read(queries.blockers, job_id, limit)

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        return await self._database.count(queries.dead_groups, limit)

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
            self._notifier.notify_soon()
        return recalled

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        start = LOWEST if after is None else after
        return await self._database.read(dispatch.queued, limit, since, start, self._given(now))

    # Schedules

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        written = await self._write_recorded(schedule_verbs.put_schedules, schedules, entry, now)
        self._notifier.notify_soon()
        return written

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        return await self._database.read(schedule_verbs.schedules, ids, names, after, limit)

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        return await self._database.read_timed(schedule_verbs.due_schedules, limit, now=self._given(now))

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        made = await self._write_recorded(schedule_verbs.fire, firings, entry, now)
        self._notifier.notify_soon()
        return made

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        return await self._write_recorded(schedule_verbs.drop_schedules, ids, entry, now)

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        limit_at = _LATEST if before is None else to_micros(before)
        return await self._database.read(schedule_verbs.occurrences, schedule_id, limit_at, limit)

    # Steps

    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        return await self._database.write_timed(steps.intend, job_id, fence, key, now=self._given(now))

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        return await self._database.write_timed(steps.conclude, job_id, fence, key, outcome, now=self._given(now))

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        return await self._database.write_timed(steps.withdraw, job_id, fence, key, now=None)

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._write_recorded(steps.resolve, resolution, entry, now)

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        return await self._database.read(steps.steps, job_id)

    # Members, leadership, queues

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> None:
        await self._database.write_timed(cluster.beat, members, now=self._given(now))

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        since_micros = _EARLIEST if since is None else to_micros(since)
        return await self._database.read(cluster.members, role, since_micros)

    async def leave(self, boots: Iterable[str]) -> None:
        await self._database.alone(cluster.leave, list(boots))

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        return await self._database.write_timed(cluster.lead, name, holder, lasting, now=self._given(now))

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        return await self._database.read_timed(cluster.leader, name, now=self._given(now))

    async def resign(self, name: str, holder: str) -> None:
        await self._database.alone(cluster.resign, name, holder)

    async def check_in(self, told: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        return await self._database.alone(cluster.check_in, told, self._given(now))

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        written = await self._write_recorded(queues.put_queue, queue, entry, now)
        self._notifier.notify_soon()
        return written

    async def queues(self) -> Sequence[Queue]:
        return await self._database.read(queues.queues)

    # The ledger and tokens

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        await self._database.write_timed(ledger.record, entries, now=self._given(now))

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        return await self._database.read(ledger.ledger, LARGEST if before is None else before, limit)

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        await self._write_recorded(ledger.put_tokens, tokens, entry, None)

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        return await self._database.read(ledger.tokens, ids)

    def _given(self, now: datetime | None) -> int | None:
        """Return the time of a call; None leaves it to the server."""
        if now is None and self._clock is not None:
            now = self._clock()
        return None if now is None else to_micros(now)

    async def _write_recorded(
        self,
        verb: TimedVerb[T],
        subject: Any,  # noqa: ANN401 - the verb's
        entry: LedgerEntry | None,
        now: datetime | None,
    ) -> T:
        """Run a verb, with an entry in the ledger in the same transaction if the verb changed anything."""

        async def run(session: Session, subject: Any, moment: int) -> T:  # noqa: ANN401 - the verb's
            result = await verb(session, subject, moment)
            # By identity: an id may be 0, which is not False.
            has_changed = any(one is not False for one in result) if isinstance(result, list) else result is not False
            if entry is not None and has_changed:
                await ledger.record(session, [entry], moment)
            return result

        return await self._database.write_timed(run, subject, now=self._given(now))


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _start(scan: ScanStart, now: int | None) -> int:
    """Return where to start a scan: at the low-water mark by the server's clock, at the beginning by any other."""
    return scan.start() if now is None else LOWEST


def _differ(ids: Iterable[JobId]) -> bool:
    """Whether no job comes twice."""
    listed = list(ids)
    return len(set(listed)) == len(listed)
