"""Guarded steps: what workers write down about them, looking at them, and resolving those in doubt."""

from __future__ import annotations

import msgspec

from rota.api.calls import Answer, Call, shown
from rota.api.errors import invalid
from rota.api.settings import Scope
from rota.api.table import Route
from rota.core.identity import JobId
from rota.core.step import Step
from rota.wire.scalars import id_within, job_id_of
from rota.wire.steps import ResolveRequest, StepList, StepReply, StepRequest, resolution_of, step_form


async def write(call: Call) -> Answer:
    """Write down what a worker says about a step of a job it runs."""
    request = await call.read(StepRequest)
    job_id, steps = id_within(request.id, "id"), call.engine.steps
    if (request.outcome is not None) != (request.act == "conclude"):
        raise invalid([("outcome", "an outcome, JSON as text, belongs to 'conclude' and to nothing else")])
    if request.outcome is not None:
        try:
            msgspec.json.decode(request.outcome)
        except (msgspec.DecodeError, RecursionError):
            raise invalid([("outcome", "this is not JSON")]) from None
    match request.act:
        case "intend":
            reply = await steps.intend(job_id, request.fence, request.key)
            return shown(StepReply(holds=False) if reply is None else _reply(*reply))
        case "conclude":
            step = await steps.conclude(job_id, request.fence, request.key, request.outcome or "null")
            return shown(StepReply(holds=False) if step is None else _reply(step))
        case _:
            return shown(StepReply(holds=await steps.withdraw(job_id, request.fence, request.key)))


def _reply(step: Step, is_new: bool = False) -> StepReply:  # noqa: FBT001, FBT002 - as the store answers
    return StepReply(holds=True, is_new=is_new, step=step_form(step))


async def list_steps(call: Call) -> Answer:
    """List a job's steps."""
    return shown(await _steps(call, job_id_of(call.path_names["id"])))


async def resolve(call: Call) -> Answer:
    """Take an operator's word about a step in doubt."""
    job_id = job_id_of(call.path_names["id"])
    request = await call.read(ResolveRequest)
    await call.engine.jobs.one(job_id)
    await call.engine.steps.resolve(resolution_of(job_id, request), call.actor)
    return shown(await _steps(call, job_id))


async def _steps(call: Call, job_id: JobId) -> StepList:
    job = await call.engine.jobs.one(job_id)
    return StepList(items=[step_form(step) for step in await call.engine.steps.all(job.id)])


ROUTES = (
    Route(
        method="POST",
        path="/v1/leases:step",
        scope=Scope.WORK,
        handler=write,
        summary="Write down the intent or the outcome of a guarded step",
        family="worker protocol",
        takes=StepRequest,
        gives={200: StepReply},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/steps",
        scope=Scope.READ,
        handler=list_steps,
        summary="List a job's guarded steps",
        family="jobs",
        gives={200: StepList},
        refuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{id}/steps:resolve",
        scope=Scope.ADMIN,
        handler=resolve,
        summary="Say whether the effect of a step in doubt happened",
        family="jobs",
        takes=ResolveRequest,
        gives={200: StepList},
        refuses=(404, 409),
    ),
)
