"""Model of a worker's source: claims, renewals and reports, directly on the store, decided by the core.

It shows `rota.ports.client.WorkSource`, and so does the real engine: a worker cannot tell which one it was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from rota.core.decision import DecisionInputs, decide
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import State
from rota.core.outcome import Suspended
from rota.core.settlement import Settlement
from rota.core.step import Step
from rota.core.waiting import Wait
from rota.engine import Engine
from rota.ports.client import AttemptReport
from simulation.loops.store_view import engine_on
from simulation.models.environment import Environment

_NO_WAIT: Final = timedelta(0)


class StoreSource:
    """A work source directly on the store."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        #: The claimed jobs, and when their claim was sent, by the steady clock.
        self._known: dict[tuple[JobId, int], tuple[Job, float]] = {}

    async def claim(self, claim: Claim, *, wait: timedelta = _NO_WAIT) -> Sequence[Job]:
        """Lease jobs; when there are none, wait and ask once more."""
        jobs = await self._claim_once(claim)
        if jobs or not wait:
            return jobs
        await asyncio.sleep(wait.total_seconds())
        return await self._claim_once(claim)

    async def _claim_once(self, claim: Claim) -> Sequence[Job]:
        sent_at = self._environment.now()
        jobs = await self._environment.store.claim(claim)
        self._known.update(((job.id, job.fence), (job, sent_at)) for job in jobs)
        return jobs

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Keep leases."""
        return await self._environment.store.renew(renewals)

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        """Write outcomes back; look again at what was refused.

        A job that was asked to stop meanwhile is not sent back, and left alone it would run into the end of its lease.
        """
        applied = list(await self._environment.store.settle([await self._settlement(report) for report in reports]))
        refused = [report for report in reports if report.job_id not in applied]
        if refused:
            again = await self._reconsidered(refused)
            applied += await self._environment.store.settle(again) if again else ()
        return applied

    async def _reconsidered(self, reports: Iterable[AttemptReport]) -> list[Settlement]:
        settlements = []
        for report in reports:
            for job in await self._environment.store.get([report.job_id]):
                if job.state is State.RUNNING and job.fence == report.fence:
                    self._known[job.id, job.fence] = job, self._known[job.id, job.fence][1]
                    settlements.append(await self._settlement(report))
        return settlements

    # Waits and inputs are read and written by the engine, which does so with a few calls of the store.

    def _engine(self) -> Engine:
        return engine_on(self._environment)

    async def begin_wait(self, job_id: JobId, fence: int, wait: Wait) -> Step | None:
        """Begin a durable wait, or come back to it."""
        return await self._engine().steps.begin_wait(job_id, fence, wait)

    async def input_of(self, job_id: JobId, fence: int) -> str | None:
        """Read what a job takes from the jobs before it."""
        return await self._engine().inputs.input_of(job_id, fence)

    async def _settlement(self, report: AttemptReport) -> Settlement:
        job, sent_at = self._known[report.job_id, report.fence]
        outcome = report.outcome
        step = await self._environment.store.step(job.id, outcome.key) if isinstance(outcome, Suspended) else None
        # When the claim was made the store's clock showed the start of the attempt; this host's may be an hour off.
        elapsed = timedelta(seconds=self._environment.now() - sent_at)
        now = (job.started_at or job.updated_at) + elapsed
        return decide(
            job, outcome, DecisionInputs(now, self._environment.rng.random(), self._environment.fresh_id(), step=step)
        )
