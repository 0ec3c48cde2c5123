"""Dependencies between jobs: what the state of a job means for the jobs that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from rota.core.job import Job
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Reason
from rota.core.submission import TAKES, Need, NewJob, Takes


class DependencyStatus(StrEnum):
    """The status of one dependency."""

    WAIT = "wait"
    MET = "met"
    FAILED = "failed"
    #: The child is for a case that did not happen: its parent was to fail, and succeeded.
    NOT_NEEDED = "not_needed"


def dependency_status(need: Need, parent: State | None, *, reason: Reason | None = None) -> DependencyStatus:
    """Return the status of a dependency on a parent, given why the parent ended.

    A missing parent was pruned, and how it ended is unknown. A parent that was cancelled because it was not needed
    neither succeeded nor failed. A parent that an operator skipped counts as one that succeeded, without a result.
    """
    if parent is None:
        return DependencyStatus.MET if need is Need.END else DependencyStatus.FAILED
    if parent not in FINISHED:
        return DependencyStatus.WAIT
    if need is Need.END:
        return DependencyStatus.MET
    if reason is Reason.NOT_NEEDED:
        return DependencyStatus.NOT_NEEDED
    has_succeeded = parent is State.COMPLETED or reason is Reason.SKIPPED
    if need is Need.FAILURE:
        return DependencyStatus.NOT_NEEDED if has_succeeded else DependencyStatus.MET
    return DependencyStatus.MET if has_succeeded else DependencyStatus.FAILED


#: The statuses after which the child never runs, and the reason with which it is cancelled.
CANCELLING: Final[Mapping[DependencyStatus, Reason]] = MappingProxyType(
    {DependencyStatus.FAILED: Reason.DEPENDENCY_FAILED, DependencyStatus.NOT_NEEDED: Reason.NOT_NEEDED}
)


def takes_of(job: Job) -> Takes:
    """Return what a job takes from the jobs before it."""
    return Takes(job.meta.get(TAKES, Takes.NOTHING)) if job.meta else Takes.NOTHING


def reads_parent(job: NewJob) -> bool:
    """Whether a new job reads the result or the failure of the job that it follows; that is kept until it has ended."""
    return job.parent_id is not None and job.meta.get(TAKES, Takes.NOTHING) != Takes.NOTHING
