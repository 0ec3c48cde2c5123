"""Client interfaces: `WorkSource`, `StepKeeper` and `InputSource` for workers, `Control` for submitters and operators.

The engine implements them in process, `rota.client` over HTTP; a caller cannot tell which one it uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from rota.core.errors import InvalidRequest
from rota.core.graph import NewWorkflow, Node, StoredWorkflow, WorkflowId
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import State
from rota.core.outcome import Outcome
from rota.core.settlement import JobError, Reason
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.value import value
from rota.core.waiting import Emission, Emitted, Wait
from rota.ports.store import Census, Inserted, JobQuery


@value
class AttemptReport:
    """The outcome of an attempt, with the fence it ran under."""

    job_id: JobId
    fence: int
    outcome: Outcome
    log_tail: str | None = None
    progress: str | None = None
    #: The circuit breaker under which the outcome counts: a success, or a failure of the dependency.
    breaker: str | None = None


class WorkSource(Protocol):
    """What a worker needs: claim, renew, settle."""

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        """Lease jobs; when there are none, wait for some, at most for `wait`."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        """Extend leases; those absent from the answer are lost."""
        ...

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        """Report outcomes; those absent from the answer were refused: another worker has the job, or it has ended."""
        ...


class StepKeeper(Protocol):
    """Where a worker records the guarded steps of the jobs it runs."""

    async def intend(self, job_id: JobId, fence: int, key: str) -> tuple[Step, bool] | None:
        """Record that a step begins, and return whether it is new; None if the lease is lost."""
        ...

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Step | None:
        """Record that a step's effect happened; None if the lease is lost."""
        ...

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        """Delete the record of a step whose effect certainly did not happen."""
        ...

    async def begin_wait(self, job_id: JobId, fence: int, wait: Wait) -> Step | None:
        """Begin a wait, or come back to it; the step is done if it is over. None if the lease is lost."""
        ...


class InputSource(Protocol):
    """Where a worker reads what a job takes from the jobs before it."""

    async def input_of(self, job_id: JobId, fence: int) -> str | None:
        """Return the first argument of a running job, as JSON; None if the lease is lost.

        Raises `InvalidRequest` if it is too large, or if the job does not follow the jobs that it needs for it.
        """
        ...


@value
class Actor:
    """The person or program that acts, its address, and the surface it uses (api, cli, ui, sdk), for the ledger."""

    name: str = "unknown"
    origin: str = ""
    surface: str = ""


class Deed(StrEnum):
    """What an operator's action did to a job."""

    CANCELLED = "cancelled"
    #: It is running; its worker has been asked to stop it.
    ASKED_TO_STOP = "asked_to_stop"
    RETRIED = "retried"
    STARTED = "started"
    DISCARDED = "discarded"


@value
class ActionResult:
    """Result of an action on one job: what was done, or why it was refused."""

    job_id: JobId
    deed: Deed | None = None
    refusal: InvalidRequest | None = None

    def __repr__(self) -> str:
        return f"<ActionResult job {to_text(self.job_id)}: {self.deed or self.refusal}>"


@value
class WorkflowReceipt:
    """The answer to the submission of a workflow; `is_replayed` if an earlier submission had stored it."""

    workflow_id: WorkflowId
    is_replayed: bool = False


@value
class NodeResult:
    """A node of a workflow, and how its job ended; `result` is JSON."""

    position: int
    name: str
    job_id: JobId
    state: State | None
    reason: Reason | None
    result: str | None = None
    error: JobError | None = None


class WorkflowControl(Protocol):
    """What submitters and operators of workflows need."""

    async def submit_workflow(self, workflow: NewWorkflow) -> WorkflowReceipt:
        """Submit a workflow with its jobs, all of them or none; it is on stable storage when this returns."""
        ...

    async def workflow(self, workflow_id: WorkflowId) -> StoredWorkflow:
        """Return a workflow and how far it is."""
        ...

    async def workflow_nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        """Return the nodes of a workflow by position, those of earlier runs included."""
        ...

    async def workflow_results(self, workflow_id: WorkflowId) -> Sequence[NodeResult]:
        """Return the current nodes of a workflow by position, with the results of their jobs."""
        ...

    async def cancel_workflow(self, workflow_id: WorkflowId, by: Actor) -> StoredWorkflow:
        """Cancel all jobs of a workflow that wait, and ask those that run to stop."""
        ...

    async def retry_workflow(self, workflow_id: WorkflowId, by: Actor, *, node: str | None = None) -> StoredWorkflow:
        """Run the failed nodes of a workflow again, or one node; and all nodes after them."""
        ...

    async def skip_node(self, workflow_id: WorkflowId, node: str, by: Actor) -> StoredWorkflow:
        """Skip a node: the nodes after it go on as if it had succeeded."""
        ...


class Control(WorkflowControl, Protocol):
    """What submitters and operators need: submit, read, wait, cancel, retry, count."""

    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs; they are on stable storage when this returns."""
        ...

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Return the jobs of these ids; unknown ones are absent."""
        ...

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Return the jobs that match a query."""
        ...

    async def wait(self, job_id: JobId, at_most: timedelta) -> Job:
        """Wait until a job has ended, at most for a while, and return it as it is then."""
        ...

    async def cancel(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        """Cancel jobs, or ask running ones to stop; one result for each id, in order."""
        ...

    async def retry(self, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
        """Run finished jobs again, make scheduled and retrying ones due at once; one result per id, in order."""
        ...

    async def emit(self, emission: Emission, by: Actor) -> Emitted:
        """Emit an event, unless it was emitted before, and wake the jobs that wait for it."""
        ...

    async def census(self) -> Census:
        """Count all jobs."""
        ...
