"""Forms of operations: actions on all jobs of a selection."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from rota.core.ids import to_text
from rota.core.operation import ENDED, MOST_CANARIES, Operation, OperationAction, OperationState
from rota.wire.scalars import Count, Duration, Identifier, Name


class OperationArguments(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`rate`: jobs a second. `canary`: the number of jobs to act on first; the others follow only if these succeed."""

    rate: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    canary: Annotated[int, Meta(ge=1, le=MOST_CANARIES)] | None = None


class OperationRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An action on jobs, selected by a search, by ids or by the cause of dead jobs.

    `dry_run` only counts the jobs. `start_after` delays the start, so that the operation can still be cancelled.
    """

    action: OperationAction
    q: Annotated[str, Meta(max_length=2_000)] | None = None
    ids: Annotated[list[Identifier], Meta(min_length=1, max_length=1_000)] | None = None
    fingerprint: Name | None = None
    arguments: OperationArguments | None = None
    dry_run: bool = False
    start_after: Duration | None = None


class RefusalForm(Struct, kw_only=True):
    """A job that was not acted on, and why."""

    id: Identifier
    reason: str


class OperationForm(Struct, kw_only=True):
    """An operation and how far it is. `matched` is exact if `is_exact`; only the first refusals are shown.

    `eta` estimates its end; null if there is no estimate. `dry_run`: only counted, not stored.
    """

    id: Identifier | None
    action: OperationAction
    q: str | None
    id_count: Count
    state: OperationState
    matched: Count
    is_exact: bool
    done: Count
    refused: Count
    refusals: list[RefusalForm]
    rate: float | None
    canary: Count
    canary_ids: list[Identifier]
    by: str
    created_at: datetime
    due_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    eta: datetime | None
    reason: str
    dry_run: bool = False


class OperationPage(Struct, kw_only=True):
    """A page of operations, newest first."""

    items: list[OperationForm]
    next_cursor: str | None


def operation_form(operation: Operation, now: datetime, *, is_dry_run: bool = False) -> OperationForm:
    return OperationForm(
        id=None if is_dry_run else to_text(operation.id),
        action=operation.action,
        q=operation.q,
        id_count=len(operation.ids),
        state=operation.state,
        matched=operation.matched,
        is_exact=operation.is_exact,
        done=operation.done,
        refused=operation.refused,
        refusals=[RefusalForm(id=to_text(one.id), reason=one.reason) for one in operation.refusals],
        rate=operation.rate,
        canary=operation.canary,
        canary_ids=[to_text(job_id) for job_id in operation.canary_ids],
        by=operation.by,
        created_at=operation.created_at,
        due_at=operation.due_at,
        started_at=operation.started_at,
        ended_at=operation.ended_at,
        eta=None if is_dry_run else _eta(operation, now),
        reason=operation.reason,
        dry_run=is_dry_run,
    )


def _eta(operation: Operation, now: datetime) -> datetime | None:
    """Estimate the end: by the rate, or by the speed so far."""
    seen = operation.done + operation.refused
    left = operation.matched - seen
    if operation.state in ENDED or not operation.is_exact or left < 0:
        return None
    if operation.rate is not None:
        start = now if operation.started_at is not None or operation.due_at is None else max(now, operation.due_at)
        return start + timedelta(seconds=left / operation.rate)
    if operation.started_at is None or not seen or now <= operation.started_at:
        return None
    return now + (now - operation.started_at) * (left / seen)
