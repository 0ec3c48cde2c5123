"""Workflow dependencies: what the state of a job means for the jobs that wait for it."""

from __future__ import annotations

from enum import StrEnum

from rota.core.lifecycle import FINISHED, State
from rota.core.submission import Need


class DependencyStatus(StrEnum):
    """The status of one dependency."""

    WAIT = "wait"
    MET = "met"
    FAILED = "failed"


def dependency_status(need: Need, parent: State | None) -> DependencyStatus:
    """Return the status of a dependency on a parent. A missing parent was pruned, and how it ended is unknown."""
    if parent is None:
        return DependencyStatus.MET if need is Need.END else DependencyStatus.FAILED
    if parent not in FINISHED:
        return DependencyStatus.WAIT
    if need is Need.END or parent is State.COMPLETED:
        return DependencyStatus.MET
    return DependencyStatus.FAILED
