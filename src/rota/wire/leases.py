"""The worker protocol: claim, renew, watch for cancels, settle, in batches with fences; and results passed on."""

from __future__ import annotations

from typing import Annotated, Any, Final, assert_never

import msgspec
from msgspec import Meta, Raw, Struct

from rota.core.duration import parse_duration
from rota.core.ids import to_text
from rota.core.lease import DEFAULT_LEASE, Claim, Renewal, Renewed, WorkerId
from rota.core.limit import check_limit_name
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Stopped, Succeeded, Suspended, Unknown
from rota.core.submission import DEFAULT_QUEUE
from rota.ports.client import AttemptReport
from rota.wire.jobs import ErrorForm, JobForm, error_form, error_of
from rota.wire.scalars import (
    Duration,
    Fence,
    Identifier,
    LeaseToken,
    Moment,
    Name,
    QueueName,
    Text,
    id_in_field,
    job_id_of,
    null_value,
)
from rota.wire.steps import StepKey
from rota.wire.submission import positive_duration, text_of

LARGEST_CLAIM: Final = 1_000
_DEFAULT_LEASE_SECONDS: Final = DEFAULT_LEASE.total_seconds()

#: At most a day.
LeaseSpan = Annotated[float, Meta(ge=1, le=86_400, description="Seconds.")]


class ClaimRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A claim of up to `max` jobs; it waits up to `wait` for the first.

    A repeated `claim_id` returns the jobs of the first claim that are still held under it, and no new ones.
    """

    worker_id: Name
    boot_id: Name
    claim_id: Name | None = None
    queues: Annotated[list[QueueName], Meta(min_length=1, max_length=1_000)] = msgspec.field(
        default_factory=lambda: [DEFAULT_QUEUE]
    )
    types: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    max: Annotated[int, Meta(ge=1, le=LARGEST_CLAIM)] = 1
    wait: Duration = 0.0
    lease: LeaseSpan = _DEFAULT_LEASE_SECONDS


class ClaimReply(Struct, kw_only=True, omit_defaults=True):
    """The leased jobs; empty when there are none to run.

    `lease_tokens` has a token for each job by its id. Every later request about the lease must repeat it. A server that
    needs no token issues none.
    """

    jobs: list[JobForm]
    lease_tokens: dict[str, str] = {}


class RenewalForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The renewal of one lease, with the progress of its attempt."""

    id: Identifier
    fence: Fence
    lease: LeaseSpan = _DEFAULT_LEASE_SECONDS
    progress: Text | None = None
    log_tail: Text | None = None
    lease_token: LeaseToken | None = None


class RenewRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Leases to renew."""

    renewals: Annotated[list[RenewalForm], Meta(max_length=10_000)]


class RenewedForm(Struct, kw_only=True):
    """A renewed lease. `cancel` asks the worker to stop the job."""

    id: Identifier
    fence: Fence
    until: Moment
    cancel: bool


class RenewReply(Struct, kw_only=True):
    """The renewed leases, and the ids of those that are lost."""

    renewed: list[RenewedForm]
    lost: list[Identifier]


class WatchRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A long poll of up to `wait` for cancels of a worker's running jobs."""

    worker_id: Name
    wait: Duration = 0.0


class LeaseForm(Struct, kw_only=True):
    """A lease: the job and its fence."""

    id: Identifier
    fence: Fence


class WatchReply(Struct, kw_only=True):
    """The leases whose jobs are to be stopped; empty after a timeout."""

    cancel: list[LeaseForm]


class _ReportForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="outcome"):
    """The outcome of an attempt, with the fence it ran under."""

    id: Identifier
    fence: Fence
    log_tail: Text | None = None
    progress: Text | None = None
    lease_token: LeaseToken | None = None
    #: The circuit breaker under which it counts: a success, or a failure with `dependency`.
    breaker: Name | None = None


class SucceededForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="succeeded"):
    """The handler returned."""

    result: Raw = msgspec.field(default_factory=null_value)


class FailedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="failed"):
    """The handler raised, or exceeded its timeout."""

    error: ErrorForm
    permanent: bool = False
    #: The error is one by which the dependency of the circuit breaker fails.
    dependency: bool = False


class SnoozedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="snoozed"):
    """The handler asked to run again later, or, with `started: false`, the worker could not start it yet.

    `limit` names a limit under which no job starts for as long: one of a key, or that of the job's queue or type.
    """

    delay: Duration
    started: bool = True
    limit: Name | None = None


class SuspendedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="suspended"):
    """The handler waits for a step of its job, which was begun by `act: wait`."""

    key: StepKey


class ReleasedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="released"):
    """The worker releases the job. `started` says whether the handler had started."""

    started: bool = False


class LostForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="lost"):
    """The handler's process died; `error` has its last output."""

    error: ErrorForm | None = None


class StoppedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="stopped"):
    """The handler stopped after a cancel."""


class UnknownForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="unknown"):
    """A guarded step had started and not ended: its effect is in doubt."""

    error: ErrorForm


ReportForm = (
    SucceededForm | FailedForm | SnoozedForm | SuspendedForm | ReleasedForm | LostForm | StoppedForm | UnknownForm
)


class SettleRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Outcomes to store."""

    reports: Annotated[list[ReportForm], Meta(max_length=10_000)]


class SettleReply(Struct, kw_only=True):
    """The jobs that were settled, and those whose lease was lost."""

    settled: list[Identifier]
    refused: list[Identifier]


def claim_of(form: ClaimRequest) -> Claim:
    return Claim(
        worker=WorkerId(form.worker_id, form.boot_id),
        limit=form.max,
        queues=tuple(dict.fromkeys(form.queues)),
        types=None if form.types is None else tuple(dict.fromkeys(form.types)),
        lease=positive_duration(form.lease, "lease") or DEFAULT_LEASE,
        claim_id=form.claim_id,
    )


def claim_form(claim: Claim, wait_seconds: float) -> ClaimRequest:
    return ClaimRequest(
        worker_id=claim.worker.name,
        boot_id=claim.worker.boot,
        claim_id=claim.claim_id,
        queues=list(claim.queues),
        types=None if claim.types is None else list(claim.types),
        max=claim.limit,
        wait=wait_seconds,
        lease=claim.lease.total_seconds(),
    )


def renewal_of(form: RenewalForm) -> Renewal:
    lease = positive_duration(form.lease, "lease") or DEFAULT_LEASE
    return Renewal(id_in_field(form.id, "id"), form.fence, lease, form.progress, form.log_tail)


def renewal_form(renewal: Renewal, lease_token: str | None = None) -> RenewalForm:
    return RenewalForm(
        id=to_text(renewal.job_id),
        fence=renewal.fence,
        lease=renewal.lease.total_seconds(),
        progress=renewal.progress,
        log_tail=renewal.log_tail,
        lease_token=lease_token,
    )


def renewed_form(renewed: Renewed) -> RenewedForm:
    return RenewedForm(id=to_text(renewed.job_id), fence=renewed.fence, until=renewed.until, cancel=renewed.cancel)


def renewed_of(form: RenewedForm) -> Renewed:
    return Renewed(job_id_of(form.id), form.fence, form.until, form.cancel)


def report_of(form: ReportForm) -> AttemptReport:
    return AttemptReport(
        id_in_field(form.id, "id"), form.fence, _outcome_of(form), form.log_tail, form.progress, form.breaker
    )


def _outcome_of(form: ReportForm) -> Outcome:
    match form:
        case SucceededForm():
            return Succeeded(text_of(form.result))
        case FailedForm():
            return Failed(error_of(form.error), form.permanent, form.dependency)
        case SnoozedForm():
            if form.limit is not None:
                check_limit_name(form.limit, "limit")
            return Snoozed(parse_duration(form.delay, field="delay"), form.started, form.limit)
        case SuspendedForm():
            return Suspended(form.key)
        case ReleasedForm():
            return Released(form.started)
        case LostForm():
            return Lost(None if form.error is None else error_of(form.error))
        case StoppedForm():
            return Stopped()
        case UnknownForm():
            return Unknown(error_of(form.error))
        case _:
            assert_never(form)


def report_form(report: AttemptReport, lease_token: str | None = None) -> ReportForm:
    outcome = report.outcome
    if isinstance(outcome, Succeeded):
        # The common case, without a dictionary.
        return SucceededForm(
            id=to_text(report.job_id),
            fence=report.fence,
            log_tail=report.log_tail,
            progress=report.progress,
            lease_token=lease_token,
            breaker=report.breaker,
            result=Raw(outcome.result),
        )
    known: dict[str, Any] = {
        "id": to_text(report.job_id),
        "fence": report.fence,
        "log_tail": report.log_tail,
        "progress": report.progress,
        "lease_token": lease_token,
        "breaker": report.breaker,
    }
    match outcome:
        case Failed(error, permanent, dependency):
            return FailedForm(**known, error=error_form(error), permanent=permanent, dependency=dependency)
        case Snoozed(delay, started, limit):
            return SnoozedForm(**known, delay=delay.total_seconds(), started=started, limit=limit)
        case Suspended(key):
            return SuspendedForm(**known, key=key)
        case Released(started):
            return ReleasedForm(**known, started=started)
        case Lost(error):
            return LostForm(**known, error=None if error is None else error_form(error))
        case Stopped():
            return StoppedForm(**known)
        case Unknown(error):
            return UnknownForm(**known, error=error_form(error))
        case _:
            assert_never(outcome)


class InputRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's request for the input that its job takes from the jobs before it."""

    id: Identifier
    fence: Fence
    lease_token: LeaseToken | None = None


class InputReply(Struct, kw_only=True):
    """The first argument of the job's handler. `holds` is false, and `value` null, when the lease is lost."""

    holds: bool
    value: Raw
