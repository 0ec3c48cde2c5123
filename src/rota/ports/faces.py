"""Our two faces. The engine shows them in process, the client over HTTP, and nobody can tell which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.outcome import Outcome
from rota.core.submission import NewJob
from rota.ports.store import Census, Inserted, JobQuery


@dataclass(frozen=True, slots=True)
class Report:
    """What an attempt yielded, told under the fence it ran with."""

    job_id: JobId
    fence: int
    outcome: Outcome
    log_tail: str | None = None


class WorkSource(Protocol):
    """What a worker sees."""

    async def claim(self, wanted: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        """Lease jobs; when there are none, wait for some, at most for `wait`."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Keep leases; those absent from the answer are lost."""
        ...

    async def settle(self, reports: Sequence[Report]) -> Sequence[JobId]:
        """Report outcomes; those absent from the answer were refused, their job belongs to someone else."""
        ...


class Control(Protocol):
    """What everyone else sees."""

    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs; they are on stable storage when this returns."""
        ...

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Look at jobs."""
        ...

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Look for jobs."""
        ...

    async def cancel(self, ids: Sequence[JobId], *, actor: str) -> Sequence[JobId]:
        """Cancel jobs, or ask running ones to stop; give the ids for which one of the two was done."""
        ...

    async def retry(self, ids: Sequence[JobId], *, actor: str) -> Sequence[JobId]:
        """Run jobs again, or at once."""
        ...

    async def census(self) -> Census:
        """Count the jobs."""
        ...
