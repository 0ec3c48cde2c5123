"""Guarded steps and waits: the worker protocol, listing, and resolving by operators."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from rota.core.ids import JobId, to_text
from rota.core.step import LARGEST_STORED, LONGEST_KEY, Resolution, Step, StepKind
from rota.core.waiting import Wait
from rota.wire.scalars import Duration, Fence, Identifier, LeaseToken, Moment, Name, duration_of, job_id_of, null_value
from rota.wire.submission import SERVER_DEFAULTS, Defaults, FollowUp, follow_up_of, template_of, text_of

StepKey = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]


class StepRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's record of a step of its job: it intends the step, concluded it, withdraws it, or waits.

    A wait has a `kind`: `sleep` for a `span`, an `event`, at most for a `span`, or a `call` of the job `child`. If the
    step in the answer has no `ended_at`, the worker settles the job as `suspended`.
    """

    id: Identifier
    fence: Fence
    key: StepKey
    act: Literal["intend", "conclude", "withdraw", "wait"]
    outcome: Annotated[str, Meta(max_length=LARGEST_STORED)] | None = None
    kind: Literal["sleep", "event", "call"] | None = None
    span: Duration | None = None
    event: Name | None = None
    child: FollowUp | None = None
    lease_token: LeaseToken | None = None


class StepForm(Struct, kw_only=True):
    """A guarded step or a wait. If an effect began and did not end, and its job does not run, it is in doubt.

    `until` is the end of a sleep, or of the longest wait for an event; `subject` is the name of the event that is
    waited for, or the id of the job that was called.
    """

    id: Identifier
    key: str
    began_under: Fence
    began_at: Moment
    ended_at: Moment | None
    result: Raw
    kind: StepKind = StepKind.EFFECT
    until: Moment | None = None
    subject: str | None = None


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
        kind=step.kind,
        until=step.until,
        subject=step.subject,
    )


def step_of(form: StepForm) -> Step:
    outcome = None if form.ended_at is None else bytes(form.result).decode()
    wait = (form.kind, form.until, form.subject)
    return Step(job_id_of(form.id), form.key, form.began_under, form.began_at, form.ended_at, outcome, *wait)


def wait_of(form: StepRequest, defaults: Defaults = SERVER_DEFAULTS) -> Wait:
    """Read a wait; its parts are checked by the engine."""
    kind = StepKind.EFFECT if form.kind is None else StepKind(form.kind)
    child = None if form.child is None else template_of(form.child, defaults)
    return Wait(form.key, kind, duration_of(form.span, "span"), form.event, child)


def wait_form(job_id: JobId, fence: int, wait: Wait) -> StepRequest:
    return StepRequest(
        id=to_text(job_id),
        fence=fence,
        key=wait.key,
        act="wait",
        kind=wait.kind.value,  # type: ignore[arg-type]  # never an effect
        span=None if wait.span is None else wait.span.total_seconds(),
        event=wait.event,
        child=None if wait.child is None else follow_up_of(wait.child),
    )


def resolution_of(job_id: JobId, form: ResolveRequest) -> Resolution:
    return Resolution(job_id, form.key, text_of(form.result) if form.happened else None)
