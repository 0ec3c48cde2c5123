"""Counting at the worker's end of HTTP, where no engine emits: what it leased, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Stopped, Succeeded, Unknown
from rota.ports.faces import Report, WorkSource
from rota.telemetry.metrics import REMEMBERED, Metrics

#: A failure may be the job's last: only the API knows.
_WORDS: Final[dict[type[Outcome], str]] = {
    Succeeded: "succeeded",
    Failed: "failed",
    Snoozed: "snoozed",
    Released: "released",
    Lost: "lost",
    Stopped: "cancelled",
    Unknown: "dead",
}


class MeteredSource:
    """A source of work that counts what passes through it."""

    def __init__(self, source: WorkSource, metrics: Metrics) -> None:
        self._source = source
        self._metrics = metrics
        self._held: dict[JobId, Job] = {}

    async def claim(self, wanted: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        """Lease jobs."""
        jobs = await self._source.claim(wanted, wait=wait)
        self._metrics.begun(jobs)
        self._held.update((job.id, job) for job in jobs)
        while len(self._held) > REMEMBERED:
            del self._held[next(iter(self._held))]
        return jobs

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Keep leases."""
        return await self._source.renew(renewals)

    async def settle(self, reports: Sequence[Report]) -> Sequence[JobId]:
        """Write down what attempts yielded, and count what was taken and what was refused."""
        applied = await self._source.settle(reports)
        taken = set(applied)
        for report in reports:
            job = self._held.get(report.job_id)
            if job is None or job.fence != report.fence:
                continue
            del self._held[report.job_id]
            if report.job_id in taken:
                self._metrics.ended(job, _WORDS[type(report.outcome)])
        self._metrics.refused([report.job_id for report in reports if report.job_id not in taken])
        return applied
