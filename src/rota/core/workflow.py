"""What the end of one job means for the jobs that wait for it."""

from __future__ import annotations

from enum import StrEnum

from rota.core.lifecycle import FINISHED, State
from rota.core.submission import Need


class Verdict(StrEnum):
    """What a parent's state means for one wait on it."""

    WAIT = "wait"
    MET = "met"
    FAILED = "failed"


def judge(need: Need, parent: State | None) -> Verdict:
    """Say whether a wait is over. A parent that is gone was pruned after its end, which can no longer be told."""
    if parent is None:
        return Verdict.MET if need is Need.END else Verdict.FAILED
    if parent not in FINISHED:
        return Verdict.WAIT
    if need is Need.END or parent is State.COMPLETED:
        return Verdict.MET
    return Verdict.FAILED
