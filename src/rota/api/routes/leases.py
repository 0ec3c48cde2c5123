"""The worker protocol: claim, renew, settle. Batches, fenced; the busiest routes there are."""

from __future__ import annotations

from datetime import timedelta

from rota.api.calls import Answer, Call, shown
from rota.api.job_pages import within_bytes
from rota.api.settings import Scope
from rota.api.table import Route
from rota.api.waiting import cancelled, claimed
from rota.core.duration import parse_duration
from rota.core.identity import to_text
from rota.core.outcome import Released
from rota.ports.faces import Report
from rota.wire.jobs import form_of
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


async def claim(call: Call) -> Answer:
    """Lease jobs to a worker; when there are none, wait for some as long as the worker wants to."""
    request = await call.read(ClaimRequest)
    wait: timedelta = parse_duration(request.wait, field="wait")
    jobs = await claimed(call, claim_of(request), wait)
    fitting = within_bytes(jobs)
    if fitting < len(jobs):
        # Handed back at once, without using an attempt; the next claim gets them.
        await call.engine.settle([Report(job.id, job.fence, Released()) for job in jobs[fitting:]])
        jobs = jobs[:fitting]
    return shown(ClaimReply(jobs=[form_of(job) for job in jobs]))


async def renew(call: Call) -> Answer:
    """Keep leases; those that are lost are named."""
    renewals = [renewal_of(form) for form in (await call.read(RenewRequest)).renewals]
    renewed = await call.engine.renew(renewals) if renewals else ()
    held = {(one.job_id, one.fence) for one in renewed}
    lost = [to_text(one.job_id) for one in renewals if (one.job_id, one.fence) not in held]
    return shown(RenewReply(renewed=[renewed_form(one) for one in renewed], lost=lost))


async def watch(call: Call) -> Answer:
    """Wait for cancels of jobs that a worker runs."""
    request = await call.read(WatchRequest)
    jobs = await cancelled(call, request.worker_id, parse_duration(request.wait, field="wait"))
    return shown(WatchReply(cancel=[LeaseForm(id=to_text(job.id), fence=job.fence) for job in jobs]))


async def settle(call: Call) -> Answer:
    """Write down what attempts yielded; those that came too late are named and change nothing."""
    reports = [report_of(form) for form in (await call.read(SettleRequest)).reports]
    settled = await call.engine.settle(reports) if reports else ()
    applied = set(settled)
    refused = [to_text(one.job_id) for one in reports if one.job_id not in applied]
    return shown(SettleReply(settled=[to_text(one) for one in settled], refused=refused))


ROUTES = (
    Route(
        method="POST",
        path="/v1/leases:claim",
        scope=Scope.WORK,
        handler=claim,
        summary="Lease jobs to a worker; wait for some if there are none",
        family="leases",
        takes=ClaimRequest,
        gives={200: ClaimReply},
    ),
    Route(
        method="POST",
        path="/v1/leases:renew",
        scope=Scope.WORK,
        handler=renew,
        summary="Keep leases; lost ones are named",
        family="leases",
        takes=RenewRequest,
        gives={200: RenewReply},
    ),
    Route(
        method="POST",
        path="/v1/leases:watch",
        scope=Scope.WORK,
        handler=watch,
        summary="Wait until jobs that a worker runs are cancelled through this API; a heartbeat brings all cancels",
        family="leases",
        takes=WatchRequest,
        gives={200: WatchReply},
    ),
    Route(
        method="POST",
        path="/v1/leases:settle",
        scope=Scope.WORK,
        handler=settle,
        summary="Report outcomes; late ones are named and change nothing",
        family="leases",
        takes=SettleRequest,
        gives={200: SettleReply},
    ),
)
