"""Batching of submissions: concurrent callers share a transaction, and each batch takes its cheapest statement.

A plain job that comes alone is one statement, with the notification attached to it; it may be handed over to an open
claim (`handoff`). A batch of plain jobs is one statement too. What these leave aside is stored in a transaction of
several statements.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from operator import attrgetter
from typing import Any, Final, cast

from rota.batching import Batcher
from rota.core.bulk import as_uniform, representatives
from rota.core.submission import NewJob
from rota.ports.store import AllCreated, Inserted
from rota.stores.handoff import can_hand_off
from rota.stores.limit_memory import LimitMemory
from rota.stores.postgres import insert
from rota.stores.postgres.database import Database
from rota.stores.postgres.handoff import OpenClaims
from rota.stores.postgres.low_water import LowWaterMarks
from rota.stores.postgres.notify import TIMES, Notification, Notifier, somewhere
from rota.stores.postgres.partitions import TodayPartition
from rota.stores.rows import are_plain, is_plain

_place: Final = attrgetter("queue", "type", "priority")
_times: Final = attrgetter("run_at", "expires_at")


class Submissions:
    """Stores new jobs of concurrent callers in batches."""

    def __init__(
        self,
        database: Database,
        notifier: Notifier,
        open_claims: OpenClaims,
        low_water: LowWaterMarks,
        today: TodayPartition,
        memory: LimitMemory,
    ) -> None:
        self._database = database
        self._notifier = notifier
        self._open_claims = open_claims
        self._low_water = low_water
        self._today = today
        self._memory = memory
        self._batches: Batcher[NewJob, Inserted] = Batcher(self._insert_batch, prompt=True)

    async def insert(self, jobs: Sequence[NewJob], bound: int | None, now: int | None) -> Sequence[Inserted]:
        """Store new jobs and return a receipt for each, in order."""
        return await self._batches.run(jobs, bound, now)

    async def close(self) -> None:
        """Store what was begun."""
        await self._batches.close()

    def notify_of(self, jobs: Sequence[NewJob]) -> None:
        """Wake workers that wait for jobs like these."""
        # A job with a key is announced as being somewhere in its queue: no claim finds it in its lane.
        keyed = {job.queue for job in jobs if job.concurrency_key is not None}
        places = {_place(job) for job in jobs if job.concurrency_key is None}.union(map(somewhere, keyed))
        if keyed:
            self._memory.note_in_use()
        self._low_water.note_stored(places)
        has_times = set(map(_times, jobs)) != {(None, None)}
        self._notifier.notify_soon((*places, TIMES) if has_times else places)

    def _insert_batch(
        self, jobs: Sequence[NewJob], bound: int | None, now: int | None
    ) -> Coroutine[Any, Any, Sequence[Inserted]]:
        is_alone = len(jobs) == 1 and bound is None and is_plain(jobs[0])
        return self._insert_one(jobs, now) if is_alone else self._insert_all(jobs, bound, now)

    async def _insert_all(self, jobs: Sequence[NewJob], bound: int | None, now: int | None) -> Sequence[Inserted]:
        """Store a batch. Plain jobs are one statement; what it leaves aside takes the general way."""
        # A batch is mostly of one task: then one job stands for all.
        alike = as_uniform(jobs)
        kinds = representatives(jobs if alike is None else alike)
        receipts: Sequence[Inserted | None] = [None] * len(jobs)
        if are_plain(kinds):
            id_ranges = self._today.id_range
            if alike is not None and alike.model.run_at is None:
                receipts = await self._database.alone(insert.insert_bulk, alike, id_ranges, bound, now)
            else:
                receipts = await self._database.alone(insert.insert_plain, jobs, id_ranges, bound, now)
        if type(receipts) is not AllCreated and not all(receipts):
            left = [place for place, receipt in enumerate(receipts) if receipt is None]
            rest = await self._database.write_timed(insert.insert, [jobs[place] for place in left], bound, now=now)
            given = dict(zip(left, rest, strict=True))
            receipts = [given.get(place, receipt) for place, receipt in enumerate(receipts)]
        self.notify_of(kinds)
        return cast("Sequence[Inserted]", receipts)

    async def _insert_one(self, jobs: Sequence[NewJob], now: int | None) -> Sequence[Inserted]:
        (job,) = jobs
        places = (_place(job),) if job.run_at is None else (_place(job), TIMES)
        notification = self._notifier.attach(places, is_one=job.run_at is None)
        receipt: Inserted | None = None
        try:
            receipt = await self._insert_alone(job, notification, now)
        finally:
            self._notifier.committed(notification, places, has_changed=receipt is not None)
        if receipt is None:
            return await self._insert_all(jobs, None, now)
        self._low_water.note_stored(places)
        return [receipt]

    async def _insert_alone(self, job: NewJob, notification: Notification | None, now: int | None) -> Inserted | None:
        """Store a plain job with the cheapest statement that does; None if it was left aside."""
        id_ranges = self._today.id_range
        if notification is None and job.run_at is None:
            return await self._database.alone(insert.insert_due, job, id_ranges, now)
        if notification is None or not notification.announces_one or not can_hand_off(job):
            return await self._database.alone(insert.insert_one, job, id_ranges, now, notification)
        stored = await self._database.alone(insert.insert_for_open_claim, job, id_ranges, now, notification)
        if stored is None:
            return None
        receipt, answer = stored
        if answer is not None:
            # The claim may be of this process, and need not wait for the notification.
            self._open_claims.deliver(answer)
        return receipt
