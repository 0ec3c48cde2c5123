"""Our two faces. The engine shows them in process, the client over HTTP, and nobody can tell which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from rota.core.errors import InvalidRequest
from rota.core.identity import JobId, to_text
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.outcome import Outcome
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.value import value
from rota.ports.store import Census, Inserted, JobQuery


@value
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


class StepKeeper(Protocol):
    """Where a worker writes down the guarded steps of the jobs it runs."""

    async def intend(self, job_id: JobId, fence: int, key: str) -> tuple[Step, bool] | None:
        """Write down the intent to perform a step, and say whether it is new; None when the job is someone else's."""
        ...

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Step | None:
        """Write down that a step's effect happened; None when the job is someone else's."""
        ...

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        """Forget the intent to perform a step whose effect surely did not happen."""
        ...


@value
class Actor:
    """Who asks, and from where: for the ledger."""

    name: str = "unknown"
    origin: str = ""


class Deed(StrEnum):
    """What was done about a job at someone's word."""

    CANCELLED = "cancelled"
    #: It runs; its worker has been asked to stop it.
    ASKED_TO_STOP = "asked_to_stop"
    RETRIED = "retried"
    STARTED = "started"
    DISCARDED = "discarded"


@value
class Answer:
    """What came of a wish about one job: a deed, or the reason why not."""

    job_id: JobId
    deed: Deed | None = None
    refusal: InvalidRequest | None = None

    def __repr__(self) -> str:
        return f"<Answer about job {to_text(self.job_id)}: {self.deed or self.refusal}>"


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

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        """Wait until a job has ended, at most for a while, and give it as it is then."""
        ...

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Cancel jobs, or ask running ones to stop; one answer for each id, in order."""
        ...

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[Answer]:
        """Run finished jobs again, and those that wait for their time at once; one answer for each id, in order."""
        ...

    async def census(self) -> Census:
        """Count the jobs."""
        ...
