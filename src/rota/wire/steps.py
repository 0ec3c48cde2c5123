"""Guarded steps: the worker protocol, listing, and resolving by operators."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from rota.core.ids import JobId, to_text
from rota.core.step import Resolution, Step
from rota.wire.scalars import Fence, Identifier, Moment, job_id_of, null_value
from rota.wire.submission import text_of

StepKey = Annotated[str, Meta(min_length=1, max_length=200)]


class StepRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's record of a step of its job: it intends the step, concluded it, or withdraws it."""

    id: Identifier
    fence: Fence
    key: StepKey
    act: Literal["intend", "conclude", "withdraw"]
    outcome: Annotated[str, Meta(max_length=500_000)] | None = None


class StepForm(Struct, kw_only=True):
    """A guarded step. If it began and did not end, and its job does not run, its effect is in doubt."""

    id: Identifier
    key: str
    began_under: Fence
    began_at: Moment
    ended_at: Moment | None
    result: Raw


class StepReply(Struct, kw_only=True):
    """The step as stored. `holds` is false, and nothing was written, when the lease is lost."""

    holds: bool
    is_new: bool = False
    step: StepForm | None = None


class StepList(Struct, kw_only=True):
    """The steps of a job, in the order in which they began."""

    items: list[StepForm]


class ResolveRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An operator's decision about a step in doubt: whether its effect happened, and its result."""

    key: StepKey
    happened: bool
    result: Raw = msgspec.field(default_factory=null_value)


def step_form(step: Step) -> StepForm:
    return StepForm(
        id=to_text(step.job_id),
        key=step.key,
        began_under=step.began_under,
        began_at=step.began_at,
        ended_at=step.ended_at,
        result=Raw((step.outcome or "null").encode()),
    )


def step_of(form: StepForm) -> Step:
    outcome = None if form.ended_at is None else bytes(form.result).decode()
    return Step(job_id_of(form.id), form.key, form.began_under, form.began_at, form.ended_at, outcome)


def resolution_of(job_id: JobId, form: ResolveRequest) -> Resolution:
    return Resolution(job_id, form.key, text_of(form.result) if form.happened else None)
