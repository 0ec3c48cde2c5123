"""Guarded steps: an effect that happens once, or is known to be in doubt.

A step is written down before its effect (the intent) and after it (the outcome). Found with an intent and no outcome,
nobody can know whether the effect happened; the step's policy decides what to do then, and never silently.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from rota.core.identity import JobId
from rota.core.value import value


class Doubt(StrEnum):
    """What to do with a step that was begun and never finished."""

    RETRY = "retry"
    VERIFY = "verify"
    PARK = "park"


class Advice(StrEnum):
    """What the worker is to do about a step now."""

    PERFORM = "perform"
    REUSE = "reuse"
    VERIFY = "verify"
    PARK = "park"


@value
class Step:
    """A side effect of a job, guarded by (job, key). `began_under` is the fence of the attempt that recorded it."""

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
    """An operator's word about a step in doubt: with an outcome its effect happened, without one it did not."""

    job_id: JobId
    key: str
    outcome: str | None


def advise(step: Step, *, is_new: bool, doubt: Doubt) -> Advice:
    """Say what to do about a step that an attempt is about to perform."""
    if is_new:
        return Advice.PERFORM
    if step.is_done:
        return Advice.REUSE
    return {Doubt.RETRY: Advice.PERFORM, Doubt.VERIFY: Advice.VERIFY, Doubt.PARK: Advice.PARK}[doubt]
