"""Guarded steps: the worker protocol for steps, listing, and resolving steps in doubt."""

from __future__ import annotations

import msgspec

from rota.api.errors import invalid
from rota.api.http import Request, Response, json_response
from rota.api.lease_tokens import holds_lease
from rota.api.permissions import require_jobs, require_queues
from rota.api.router import QueueCheck, Route
from rota.core.access import Action
from rota.core.ids import JobId
from rota.core.step import Step
from rota.wire.scalars import id_in_field, job_id_of
from rota.wire.steps import ResolveRequest, StepList, StepReply, StepRequest, resolution_of, step_form, wait_of


async def record(request: Request) -> Response:
    """Record the intent, the outcome or the withdrawal of a step, or begin a wait."""
    body = await request.read(StepRequest)
    job_id, steps = id_in_field(body.id, "id"), request.engine.steps
    await require_jobs(request, [job_id])
    if (body.outcome is not None) != (body.act == "conclude"):
        raise invalid([("outcome", "an outcome, JSON as text, is required with 'conclude' and not allowed otherwise")])
    if body.outcome is not None:
        try:
            msgspec.json.decode(body.outcome)
        except (msgspec.DecodeError, RecursionError):
            raise invalid([("outcome", "this is not JSON")]) from None
    if not holds_lease(request, job_id, body.fence, body.lease_token):
        return json_response(StepReply(holds=False))
    match body.act:
        case "intend":
            reply = await steps.intend(job_id, body.fence, body.key)
            return json_response(StepReply(holds=False) if reply is None else _reply(*reply))
        case "conclude":
            step = await steps.conclude(job_id, body.fence, body.key, body.outcome or "null")
            return json_response(StepReply(holds=False) if step is None else _reply(step))
        case "wait":
            wait = wait_of(body, request.context.settings.defaults)
            if wait.child is not None:
                require_queues(request.key, wait.child)
            found = await steps.begin_wait(job_id, body.fence, wait)
            return json_response(StepReply(holds=False) if found is None else _reply(found))
        case _:
            return json_response(StepReply(holds=await steps.withdraw(job_id, body.fence, body.key)))


def _reply(step: Step, is_new: bool = False) -> StepReply:  # noqa: FBT001, FBT002 - as the store answers
    return StepReply(holds=True, is_new=is_new, step=step_form(step))


async def list_steps(request: Request) -> Response:
    """List a job's steps."""
    return json_response(await _steps(request, job_id_of(request.path_params["id"])))


async def resolve(request: Request) -> Response:
    """Resolve a step in doubt, as an operator decides."""
    job_id = job_id_of(request.path_params["id"])
    body = await request.read(ResolveRequest)
    await request.engine.jobs.one(job_id)
    await request.engine.steps.resolve(resolution_of(job_id, body), request.actor)
    return json_response(await _steps(request, job_id))


async def _steps(request: Request, job_id: JobId) -> StepList:
    job = await request.engine.jobs.one(job_id)
    return StepList(items=[step_form(step) for step in await request.engine.steps.all(job.id)])


ROUTES = (
    Route(
        method="POST",
        path="/v1/leases:step",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=record,
        summary="Record the intent or the outcome of a guarded step, or begin a wait",
        tag="worker protocol",
        body=StepRequest,
        responses={200: StepReply},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/steps",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.JOB,
        handler=list_steps,
        summary="List a job's guarded steps and waits",
        tag="jobs",
        responses={200: StepList},
        error_statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{id}/steps:resolve",
        action=Action.STEPS_RESOLVE,
        queue_check=QueueCheck.JOB,
        handler=resolve,
        summary="Say whether the effect of a step in doubt happened",
        tag="jobs",
        body=ResolveRequest,
        responses={200: StepList},
        error_statuses=(404, 409),
    ),
)
