"""The worker protocol: claim, renew, settle, and watch for cancels. Batches, fenced."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from rota.api.http import Request, Response, json_response
from rota.api.job_pages import count_that_fit
from rota.api.long_poll import claim_or_wait, wait_for_cancels
from rota.api.permissions import require_queue, uncovered_jobs
from rota.api.router import QueueCheck, Route
from rota.core.access import Action
from rota.core.duration import parse_duration
from rota.core.ids import to_text
from rota.core.lease import Renewal
from rota.core.outcome import Released
from rota.ports.client import AttemptReport
from rota.wire.jobs import job_form
from rota.wire.leases import (
    ClaimReply,
    ClaimRequest,
    LeaseForm,
    RenewReply,
    RenewRequest,
    SettleReply,
    SettleRequest,
    WatchReply,
    WatchRequest,
    claim_of,
    renewal_of,
    renewed_form,
    report_of,
)

T = TypeVar("T", AttemptReport, Renewal)


async def claim(request: Request) -> Response:
    """Lease jobs to a worker; when there are none, wait up to `wait`."""
    body = await request.read(ClaimRequest)
    wait: timedelta = parse_duration(body.wait, field="wait")
    for queue in body.queues if request.key.queues else ():
        require_queue(request.key, queue)
    jobs = await claim_or_wait(request, claim_of(body), wait)
    fitting = count_that_fit(jobs)
    if fitting < len(jobs):
        # Released without using an attempt; the next claim gets them.
        await request.engine.settle([AttemptReport(job.id, job.fence, Released()) for job in jobs[fitting:]])
        jobs = jobs[:fitting]
    return json_response(ClaimReply(jobs=[job_form(job) for job in jobs]))


async def renew(request: Request) -> Response:
    """Renew leases; list those that are lost."""
    renewals = [renewal_of(form) for form in (await request.read(RenewRequest)).renewals]
    covered = await _covered(request, renewals) if request.key.queues else renewals
    renewed = await request.engine.renew(covered) if covered else ()
    held = {(one.job_id, one.fence) for one in renewed}
    lost = [to_text(one.job_id) for one in renewals if (one.job_id, one.fence) not in held]
    return json_response(RenewReply(renewed=[renewed_form(one) for one in renewed], lost=lost))


async def watch(request: Request) -> Response:
    """Wait for cancels of a worker's running jobs."""
    body = await request.read(WatchRequest)
    jobs = await wait_for_cancels(request, body.worker_id, parse_duration(body.wait, field="wait"))
    return json_response(WatchReply(cancel=[LeaseForm(id=to_text(job.id), fence=job.fence) for job in jobs]))


async def settle(request: Request) -> Response:
    """Settle attempts; list those whose lease was lost, which change nothing."""
    reports = [report_of(form) for form in (await request.read(SettleRequest)).reports]
    covered = await _covered(request, reports) if request.key.queues else reports
    settled = await request.engine.settle(covered) if covered else ()
    applied = set(settled)
    refused = [to_text(one.job_id) for one in reports if one.job_id not in applied]
    return json_response(SettleReply(settled=[to_text(one) for one in settled], refused=refused))


async def _covered(request: Request, items: list[T]) -> list[T]:
    """Leave out the items whose job is in a queue that the token does not cover: they are answered as lost."""
    uncovered = await uncovered_jobs(request, [item.job_id for item in items])
    return [item for item in items if item.job_id not in uncovered]


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
        queue_check=QueueCheck.NOT_NEEDED,
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
)
