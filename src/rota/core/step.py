"""Steps of a job: guarded side effects, and durable waits.

An effect is recorded before it happens (intent) and after it (outcome). For one with an intent and no outcome it is
unknown whether it happened; the step's policy decides what to do then. A wait (a sleep, an event, a child job) has no
outcome until it is over, and is never in doubt.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.value import value

#: The longest key of a step.
LONGEST_KEY: Final = 200
#: How many steps a job may have: all of them are read when its handler runs again.
MOST_STEPS: Final = 1_000
#: The largest outcome of a step, in characters of JSON.
LARGEST_OUTCOME: Final = 65_536
#: The same as it is stored: encrypted, it is a third longer.
LARGEST_STORED: Final = 2 * LARGEST_OUTCOME


class StepKind(StrEnum):
    """What a step is: a guarded effect, or a wait."""

    EFFECT = "effect"
    SLEEP = "sleep"
    EVENT = "event"
    CALL = "call"


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
    """A step of a job, known by (job, key). `began_under` is the fence of the attempt that began it.

    `until` is the end of a sleep, or of the longest wait for an event. `subject` is what is waited for: the name of an
    event, or the id of a child job.
    """

    job_id: JobId
    key: str
    began_under: int
    began_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None
    kind: StepKind = StepKind.EFFECT
    until: datetime | None = None
    subject: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the effect is known to have happened, or the wait is over."""
        return self.ended_at is not None


def require_kind(step: Step, kind: StepKind) -> None:
    """Refuse a key that is used for steps of two kinds."""
    if step.kind is not kind:
        raise InvalidRequest(
            f"step {step.key!r}: the key is used for a step of kind {step.kind}, and now for one of kind {kind}; give"
            " each step of a job a key of its own",
            field="key",
        )


def check_key(key: object) -> None:
    """Refuse a key that no step may have."""
    if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY:
        given = f"this one has {len(key)}" if isinstance(key, str) else f"{key!r} is no text"
        raise InvalidRequest(f"step: a key has 1 to {LONGEST_KEY} characters, {given}", field="key")
    if not key.isprintable():
        raise InvalidRequest(f"step: the key {key!a} contains characters that are not printable", field="key")


def too_many_steps(job_id: JobId) -> InvalidRequest:
    """Make the error for a job that begins one step too many."""
    return InvalidRequest(
        f"job {to_text(job_id)} has {MOST_STEPS:,} steps, and no job may have more; split its work into several jobs",
        field="key",
    )


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
