"""Guarded steps: how they are asked about by workers, shown, and resolved by operators."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from rota.core.identity import JobId, to_text
from rota.core.step import Resolution, Step
from rota.wire.scalars import Fence, Identifier, Moment, job_id_of, no_value
from rota.wire.submission import text_of

StepKey = Annotated[str, Meta(min_length=1, max_length=200)]


class StepRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's word about a step of a job it runs: that it is about to perform it, that it did, that it did not."""

    id: Identifier
    fence: Fence
    key: StepKey
    act: Literal["intend", "conclude", "withdraw"]
    outcome: Annotated[str, Meta(max_length=500_000)] | None = None


class StepForm(Struct, kw_only=True):
    """A guarded step. Begun and not ended while its job does not run, its effect is in doubt."""

    id: Identifier
    key: str
    began_under: Fence
    began_at: Moment
    ended_at: Moment | None
    result: Raw


class StepReply(Struct, kw_only=True):
    """The step as it stands. `holds` is false, and nothing was written, when the job belongs to someone else."""

    holds: bool
    is_new: bool = False
    step: StepForm | None = None


class StepList(Struct, kw_only=True):
    """The steps of a job, in the order in which they began."""

    items: list[StepForm]


class ResolveRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An operator's word about a step in doubt: whether its effect happened, and what it yielded."""

    key: StepKey
    happened: bool
    result: Raw = msgspec.field(default_factory=no_value)


def step_form(step: Step) -> StepForm:
    """Show a step."""
    return StepForm(
        id=to_text(step.job_id),
        key=step.key,
        began_under=step.began_under,
        began_at=step.began_at,
        ended_at=step.ended_at,
        result=Raw((step.outcome or "null").encode()),
    )


def step_of(form: StepForm) -> Step:
    """Read a step as the server showed it."""
    outcome = None if form.ended_at is None else bytes(form.result).decode()
    return Step(job_id_of(form.id), form.key, form.began_under, form.began_at, form.ended_at, outcome)


def resolution_of(job_id: JobId, form: ResolveRequest) -> Resolution:
    """Read an operator's word."""
    return Resolution(job_id, form.key, text_of(form.result) if form.happened else None)
