"""Dispatch: hand due jobs to an external broker, and recall those that the broker has lost.

A job is first made `queued` in the store and then put into the broker's dispatch queue. If this process dies between
the two, or the broker loses its data later, the job is queued in the store only; the audit finds it and makes it
pending again. If the broker had it after all, it has it twice, and the store refuses the second claim.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from rota.core.errors import BrokerUnavailable
from rota.core.ids import JobId
from rota.engine.deps import EngineDeps
from rota.ports.broker import DispatchQueue
from rota.ports.store import Dispatched
from rota.telemetry.events import JobsDispatched, JobsRecalled

#: How long a job is queued before the audit checks that the broker has it: another process may be adding it just now.
GRACE: Final = timedelta(seconds=3)
#: How long a job may be queued if the broker cannot say whether it still has it.
LONGEST: Final = timedelta(seconds=60)
#: How many queued jobs are read at once.
PAGE: Final = 1000


class Dispatch:
    """Dispatch, audit, recall."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def dispatch(self, queue: DispatchQueue) -> int:
        """Hand over due jobs, as many as the broker has room for, and count them."""
        room = await queue.room()
        begun = time.perf_counter()
        jobs = await self._deps.store.dispatch(room)
        if not jobs:
            return 0
        seconds = time.perf_counter() - begun
        try:
            refused = await queue.hand_over(jobs)
        except BrokerUnavailable:
            await self._recall(jobs, [job.job_id for job in jobs])
            raise
        if refused:
            # No wake-up: nothing was lost, and nothing is new. If this fails, the audit finds and recalls them.
            await self._deps.store.recall(refused)
        count = len(jobs) - len(refused)
        if count:
            self._deps.telemetry.emit(JobsDispatched(count, seconds))
        return count

    async def audit(self, queue: DispatchQueue) -> int:
        """Recall queued jobs that the broker has lost, or cannot account for and has had for too long; count them."""
        count = 0
        after: JobId | None = None
        unsure: set[JobId] = set()
        while jobs := await self._deps.store.queued(PAGE, since=GRACE, after=after):
            after = jobs[-1].job_id
            missing = await queue.missing(jobs)
            unsure.update(missing.unsure)
            count += await self._recall(jobs, missing.lost)
        return count + (await self.recall(LONGEST, among=unsure) if unsure else 0)

    async def recall(self, since: timedelta = timedelta(0), *, among: Collection[JobId] | None = None) -> int:
        """Recall jobs that have been queued for that long, all or those `among` some ids; count them."""
        count = 0
        after: JobId | None = None
        while jobs := await self._deps.store.queued(PAGE, since=since, after=after):
            after = jobs[-1].job_id
            count += await self._recall(jobs, [job.job_id for job in jobs if among is None or job.job_id in among])
        return count

    async def _recall(self, jobs: Sequence[Dispatched], ids: Sequence[JobId]) -> int:
        """Recall some of these jobs, and wake workers that can claim them from the store."""
        if not ids:
            return 0
        begun = time.perf_counter()
        recalled = set(await self._deps.store.recall(ids))
        if recalled:
            self._deps.telemetry.emit(JobsRecalled(len(recalled), time.perf_counter() - begun))
            await self._deps.broker.announce({job.lane.queue for job in jobs if job.job_id in recalled})
        return len(recalled)
