"""Handing due jobs over to a broker, and taking back what it has lost.

A job is first made queued in the store and then put into its line. If we die between the two, or the line is lost
later, it is queued and stands nowhere; whoever dispatches next finds that out and lets it be pending again. If it stood
there after all, it stands there twice, and the second one who is handed it is refused by the store.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from rota.core.errors import BrokerUnavailable
from rota.core.identity import JobId
from rota.engine.parts import Parts
from rota.ports.broker import Line
from rota.ports.store import Dispatched
from rota.telemetry.events import JobsDispatched, JobsRecalled

#: How long a job is queued before it is looked for in its line: another process may be about to put it there.
GRACE: Final = timedelta(seconds=3)
#: How long a job may be queued of which the broker cannot say whether it still stands in line.
LONGEST: Final = timedelta(seconds=60)
#: How many queued jobs are looked at at once.
PAGE: Final = 1000


class Dispatching:
    """Dispatch, audit, recall."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def dispatch(self, line: Line) -> int:
        """Let due jobs stand in line, as many as there is room for, and count them."""
        room = await line.room()
        begun = time.perf_counter()
        jobs = await self._parts.store.dispatch(room)
        if not jobs:
            return 0
        seconds = time.perf_counter() - begun
        try:
            refused = await line.hand_over(jobs)
        except BrokerUnavailable:
            await self._recall(jobs, [job.job_id for job in jobs])
            raise
        if refused:
            # Nobody is told: nothing was lost, and nothing has come. If this fails, the audit finds them in no line.
            await self._parts.store.recall(refused)
        count = len(jobs) - len(refused)
        if count:
            self._parts.telemetry.emit(JobsDispatched(count, seconds))
        return count

    async def audit(self, line: Line) -> int:
        """Recall what is queued and will be handed to nobody, or for too long if nobody can say, and count it."""
        count = 0
        after: JobId | None = None
        unsure: set[JobId] = set()
        while jobs := await self._parts.store.queued(PAGE, since=GRACE, after=after):
            after = jobs[-1].job_id
            missing = await line.missing(jobs)
            unsure.update(missing.unsure)
            count += await self._recall(jobs, missing.lost)
        return count + (await self.recall(LONGEST, among=unsure) if unsure else 0)

    async def recall(self, since: timedelta = timedelta(0), *, among: Collection[JobId] | None = None) -> int:
        """Recall all that has been queued for so long, wherever it stands, or what is among some ids; and count it."""
        count = 0
        after: JobId | None = None
        while jobs := await self._parts.store.queued(PAGE, since=since, after=after):
            after = jobs[-1].job_id
            count += await self._recall(jobs, [job.job_id for job in jobs if among is None or job.job_id in among])
        return count

    async def _recall(self, jobs: Sequence[Dispatched], ids: Sequence[JobId]) -> int:
        """Recall some of these jobs, and tell whoever can take them from the store."""
        if not ids:
            return 0
        begun = time.perf_counter()
        recalled = set(await self._parts.store.recall(ids))
        if recalled:
            self._parts.telemetry.emit(JobsRecalled(len(recalled), time.perf_counter() - begun))
            await self._parts.broker.announce({job.lane.queue for job in jobs if job.job_id in recalled})
        return len(recalled)
