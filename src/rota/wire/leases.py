"""The worker protocol: asking for work, keeping it, and telling what came of it. Batches throughout, all fenced."""

from __future__ import annotations

from typing import Annotated, Any, Final, assert_never

import msgspec
from msgspec import Meta, Raw, Struct

from rota.core.duration import parse_duration
from rota.core.identity import to_text
from rota.core.lease import DEFAULT_LEASE, Claim, Renewal, Renewed, WorkerId
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Stopped, Succeeded, Unknown
from rota.core.submission import DEFAULT_QUEUE
from rota.ports.faces import Report
from rota.wire.jobs import ErrorForm, JobForm, plain_error, shown_error
from rota.wire.scalars import (
    Duration,
    Fence,
    Identifier,
    Moment,
    Name,
    QueueName,
    Text,
    id_within,
    job_id_of,
    no_value,
)
from rota.wire.submission import positive, text_of

LARGEST_CLAIM: Final = 1_000
_DEFAULT_LEASE_SECONDS: Final = DEFAULT_LEASE.total_seconds()

#: A lease longer than a day is no lease.
LeaseSpan = Annotated[float, Meta(ge=1, le=86_400, description="Seconds.")]


class ClaimRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker asks for up to `max` jobs and waits up to `wait` for the first.

    The same `claim_id` again gives the jobs of the first time that are still held under it, and no new ones.
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


class ClaimReply(Struct, kw_only=True):
    """The jobs leased; none when there was nothing to do."""

    jobs: list[JobForm]


class RenewalForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's word that it still runs a job."""

    id: Identifier
    fence: Fence
    lease: LeaseSpan = _DEFAULT_LEASE_SECONDS
    progress: Text | None = None
    log_tail: Text | None = None


class RenewRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Leases to keep."""

    renewals: Annotated[list[RenewalForm], Meta(max_length=10_000)]


class RenewedForm(Struct, kw_only=True):
    """A lease that holds. `cancel` asks to stop the job."""

    id: Identifier
    fence: Fence
    until: Moment
    cancel: bool


class RenewReply(Struct, kw_only=True):
    """The leases that hold, and the ids of those that are lost."""

    renewed: list[RenewedForm]
    lost: list[Identifier]


class WatchRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker waits up to `wait` for jobs that it runs to be cancelled."""

    worker_id: Name
    wait: Duration = 0.0


class LeaseForm(Struct, kw_only=True):
    """A lease: a job, and the number that its holder has."""

    id: Identifier
    fence: Fence


class WatchReply(Struct, kw_only=True):
    """The leases whose jobs are to be stopped; none when the time has passed."""

    cancel: list[LeaseForm]


class _ReportForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="outcome"):
    """What an attempt yielded, told under the fence it ran with."""

    id: Identifier
    fence: Fence
    log_tail: Text | None = None


class SucceededForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="succeeded"):
    """The handler returned."""

    result: Raw = msgspec.field(default_factory=no_value)


class FailedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="failed"):
    """The handler raised, or ran past its time."""

    error: ErrorForm
    permanent: bool = False


class SnoozedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="snoozed"):
    """The handler asked to be called again later."""

    delay: Duration


class ReleasedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="released"):
    """The worker hands the job back. `started` says whether the handler had begun."""

    started: bool = False


class LostForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="lost"):
    """The handler took its process down; `error` holds its last words."""

    error: ErrorForm | None = None


class StoppedForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="stopped"):
    """The handler obeyed a cancel."""


class UnknownForm(_ReportForm, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="unknown"):
    """A guarded step was found begun and not finished."""

    error: ErrorForm


ReportForm = SucceededForm | FailedForm | SnoozedForm | ReleasedForm | LostForm | StoppedForm | UnknownForm


class SettleRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Outcomes to write down."""

    reports: Annotated[list[ReportForm], Meta(max_length=10_000)]


class SettleReply(Struct, kw_only=True):
    """Those that were written, and those that came too late: their job belongs to someone else."""

    settled: list[Identifier]
    refused: list[Identifier]


def claim_of(form: ClaimRequest) -> Claim:
    """Read a claim."""
    return Claim(
        worker=WorkerId(form.worker_id, form.boot_id),
        limit=form.max,
        queues=tuple(dict.fromkeys(form.queues)),
        types=None if form.types is None else tuple(dict.fromkeys(form.types)),
        lease=positive(form.lease, "lease") or DEFAULT_LEASE,
        claim_id=form.claim_id,
    )


def claim_form(claim: Claim, wait_seconds: float) -> ClaimRequest:
    """Write a claim."""
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
    """Read a renewal."""
    lease = positive(form.lease, "lease") or DEFAULT_LEASE
    return Renewal(id_within(form.id, "id"), form.fence, lease, form.progress, form.log_tail)


def renewal_form(renewal: Renewal) -> RenewalForm:
    """Write a renewal."""
    return RenewalForm(
        id=to_text(renewal.job_id),
        fence=renewal.fence,
        lease=renewal.lease.total_seconds(),
        progress=renewal.progress,
        log_tail=renewal.log_tail,
    )


def renewed_form(renewed: Renewed) -> RenewedForm:
    """Write the answer to a renewal."""
    return RenewedForm(id=to_text(renewed.job_id), fence=renewed.fence, until=renewed.until, cancel=renewed.cancel)


def renewed_of(form: RenewedForm) -> Renewed:
    """Read the answer to a renewal."""
    return Renewed(job_id_of(form.id), form.fence, form.until, form.cancel)


def report_of(form: ReportForm) -> Report:
    """Read what an attempt yielded."""
    return Report(id_within(form.id, "id"), form.fence, _outcome_of(form), form.log_tail)


def _outcome_of(form: ReportForm) -> Outcome:
    match form:
        case SucceededForm():
            return Succeeded(text_of(form.result))
        case FailedForm():
            return Failed(plain_error(form.error), form.permanent)
        case SnoozedForm():
            return Snoozed(parse_duration(form.delay, field="delay"))
        case ReleasedForm():
            return Released(form.started)
        case LostForm():
            return Lost(None if form.error is None else plain_error(form.error))
        case StoppedForm():
            return Stopped()
        case UnknownForm():
            return Unknown(plain_error(form.error))
        case _:
            assert_never(form)


def report_form(report: Report) -> ReportForm:
    """Write what an attempt yielded."""
    outcome = report.outcome
    if isinstance(outcome, Succeeded):
        # Nearly all of them: no detour over a dictionary.
        return SucceededForm(
            id=to_text(report.job_id), fence=report.fence, log_tail=report.log_tail, result=Raw(outcome.result)
        )
    known: dict[str, Any] = {"id": to_text(report.job_id), "fence": report.fence, "log_tail": report.log_tail}
    match outcome:
        case Failed(error, permanent):
            return FailedForm(**known, error=shown_error(error), permanent=permanent)
        case Snoozed(delay):
            return SnoozedForm(**known, delay=delay.total_seconds())
        case Released(started):
            return ReleasedForm(**known, started=started)
        case Lost(error):
            return LostForm(**known, error=None if error is None else shown_error(error))
        case Stopped():
            return StoppedForm(**known)
        case Unknown(error):
            return UnknownForm(**known, error=shown_error(error))
        case _:
            assert_never(outcome)
