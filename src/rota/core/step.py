"""Guarded steps: a side effect that happens once, or is known to be in doubt.

A step is recorded before its effect (intent) and after it (outcome). For a step with an intent and no outcome it is
unknown whether the effect happened; the step's policy decides what to do then.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from rota.core.ids import JobId
from rota.core.value import value


class DoubtPolicy(StrEnum):
    """What to do with a step that began and has no outcome."""

    RETRY = "retry"
    VERIFY = "verify"
    PARK = "park"


class StepAction(StrEnum):
    """What the worker does with a step now."""

    PERFORM = "perform"
    REUSE = "reuse"
    VERIFY = "verify"
    PARK = "park"


@value
class Step:
    """A side effect of a job, guarded by (job, key). `began_under` is the fence of the attempt that began it."""

    job_id: JobId
    key: str
    began_under: int
    began_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the effect is known to have happened."""
        return self.ended_at is not None


@value
class Resolution:
    """An operator's resolution of a step in doubt: with an outcome its effect happened, without one it did not."""

    job_id: JobId
    key: str
    outcome: str | None


def advise(step: Step, *, is_new: bool, doubt: DoubtPolicy) -> StepAction:
    """Return what to do with a step that an attempt is about to perform."""
    if is_new:
        return StepAction.PERFORM
    if step.is_done:
        return StepAction.REUSE
    return {
        DoubtPolicy.RETRY: StepAction.PERFORM,
        DoubtPolicy.VERIFY: StepAction.VERIFY,
        DoubtPolicy.PARK: StepAction.PARK,
    }[doubt]
