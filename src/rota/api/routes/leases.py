"""The worker protocol: claim, renew, settle, watch for cancels, and read what a job takes from the jobs before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from msgspec import Raw

from rota.api.http import Request, Response, json_response
from rota.api.job_pages import count_that_fit
from rota.api.lease_tokens import bound_claim, holds_lease, lease_tokens
from rota.api.long_poll import claim_or_wait, wait_for_cancels
from rota.api.permissions import require_jobs, require_queue, uncovered_jobs
from rota.api.router import QueueCheck, Route
from rota.core.access import Action, covers_queue
from rota.core.duration import parse_duration
from rota.core.ids import to_text
from rota.core.lease import Renewal
from rota.core.limit import names_of
from rota.core.outcome import Released, Snoozed
from rota.ports.client import AttemptReport
from rota.wire.jobs import job_form
from rota.wire.leases import (
    ClaimReply,
    ClaimRequest,
    InputReply,
    InputRequest,
    LeaseForm,
    RenewalForm,
    RenewReply,
    RenewRequest,
    ReportForm,
    SettleReply,
    SettleRequest,
    WatchReply,
    WatchRequest,
    claim_of,
    renewal_of,
    renewed_form,
    report_of,
)
from rota.wire.scalars import id_in_field

T = TypeVar("T", AttemptReport, Renewal)


async def claim(request: Request) -> Response:
    """Lease jobs to a worker; when there are none, wait up to `wait`."""
    body = await request.read(ClaimRequest)
    wait: timedelta = parse_duration(body.wait, field="wait")
    for queue in body.queues if request.key.queues else ():
        require_queue(request.key, queue)
    jobs = await claim_or_wait(request, bound_claim(request, claim_of(body)), wait)
    fitting = count_that_fit(jobs)
    if fitting < len(jobs):
        # Released without using an attempt; the next claim gets them.
        await request.engine.settle([AttemptReport(job.id, job.fence, Released()) for job in jobs[fitting:]])
        jobs = jobs[:fitting]
    return json_response(ClaimReply(jobs=[job_form(job) for job in jobs], lease_tokens=lease_tokens(request, jobs)))


async def renew(request: Request) -> Response:
    """Renew leases; list those that are lost."""
    forms = (await request.read(RenewRequest)).renewals
    renewals = [renewal_of(form) for form in forms]
    covered = await _own(request, renewals, forms)
    renewed = await request.engine.renew(covered) if covered else ()
    held = {(one.job_id, one.fence) for one in renewed}
    lost = [to_text(one.job_id) for one in renewals if (one.job_id, one.fence) not in held]
    return json_response(RenewReply(renewed=[renewed_form(one) for one in renewed], lost=lost))


async def watch(request: Request) -> Response:
    """Wait for cancels of a worker's running jobs."""
    body = await request.read(WatchRequest)
    jobs = await wait_for_cancels(request, body.worker_id, parse_duration(body.wait, field="wait"))
    own = [job for job in jobs if covers_queue(request.key.queues, job.queue)]
    return json_response(WatchReply(cancel=[LeaseForm(id=to_text(job.id), fence=job.fence) for job in own]))


async def settle(request: Request) -> Response:
    """Settle attempts; list those whose lease was lost, which change nothing."""
    forms = (await request.read(SettleRequest)).reports
    reports = [report_of(form) for form in forms]
    covered = await _own(request, reports, forms)
    if request.key.queues:
        covered = await _within_limits(request, covered)
    settled = await request.engine.settle(covered) if covered else ()
    applied = set(settled)
    refused = [to_text(one.job_id) for one in reports if one.job_id not in applied]
    return json_response(SettleReply(settled=[to_text(one) for one in settled], refused=refused))


async def _own(request: Request, items: list[T], forms: Sequence[RenewalForm | ReportForm]) -> list[T]:
    """Leave out the items without the token of their lease, or outside the caller's queues; they count as lost."""
    if not request.context.settings.keys and not request.key.queues:
        return items
    own = [
        item
        for item, form in zip(items, forms, strict=True)
        if holds_lease(request, item.job_id, item.fence, form.lease_token)
    ]
    return await _covered(request, own) if request.key.queues else own


async def _within_limits(request: Request, reports: list[AttemptReport]) -> list[AttemptReport]:
    """Have a token that is limited to queues close no limits but those of its jobs' own queues and keys.

    Other names are ignored, as everywhere in settlements: the outcome counts all the same.
    """
    closing = [one.job_id for one in reports if isinstance(one.outcome, Snoozed) and one.outcome.limit is not None]
    if not closing:
        return reports
    own = {job.id: names_of(job.queue, "", job.concurrency_key) for job in await request.engine.get(closing)}
    return [
        replace(one, outcome=replace(one.outcome, limit=None))
        if isinstance(one.outcome, Snoozed) and one.outcome.limit not in own.get(one.job_id, ())
        else one
        for one in reports
    ]


async def _covered(request: Request, items: list[T]) -> list[T]:
    """Leave out the items whose job is in a queue that the token does not cover: they are answered as lost."""
    uncovered = await uncovered_jobs(request, [item.job_id for item in items])
    return [item for item in items if item.job_id not in uncovered]


async def read_input(request: Request) -> Response:
    """Return the first argument of a job that the worker runs."""
    body = await request.read(InputRequest)
    job_id = id_in_field(body.id, "id")
    await require_jobs(request, [job_id])
    if not holds_lease(request, job_id, body.fence, body.lease_token):
        return json_response(InputReply(holds=False, value=Raw(b"null")))
    value = await request.engine.inputs.input_of(job_id, body.fence)
    return json_response(InputReply(holds=value is not None, value=Raw(b"null" if value is None else value.encode())))


ROUTES = (
    Route(
        method="POST",
        path="/v1/leases:claim",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=claim,
        summary="Lease jobs to a worker; wait for some if there are none",
        tag="leases",
        body=ClaimRequest,
        responses={200: ClaimReply},
    ),
    Route(
        method="POST",
        path="/v1/leases:renew",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=renew,
        summary="Renew leases; lost ones are listed",
        tag="leases",
        body=RenewRequest,
        responses={200: RenewReply},
    ),
    Route(
        method="POST",
        path="/v1/leases:watch",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=watch,
        summary="Wait until jobs that a worker runs are cancelled through this API; a heartbeat brings all cancels",
        tag="leases",
        body=WatchRequest,
        responses={200: WatchReply},
    ),
    Route(
        method="POST",
        path="/v1/leases:settle",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=settle,
        summary="Report outcomes; late ones are listed and change nothing",
        tag="leases",
        body=SettleRequest,
        responses={200: SettleReply},
    ),
    Route(
        method="POST",
        path="/v1/leases:input",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=read_input,
        summary="Read what a running job takes from the jobs before it: a result, the results, or a failure",
        tag="leases",
        body=InputRequest,
        responses={200: InputReply},
    ),
)
