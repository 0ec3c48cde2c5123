"""Results passed on: the worker protocol for what a job takes from the jobs before it."""

from __future__ import annotations

from msgspec import Raw

from rota.api.http import Request, Response, json_response
from rota.api.lease_tokens import holds_lease
from rota.api.permissions import require_jobs
from rota.api.router import QueueCheck, Route
from rota.core.access import Action
from rota.wire.inputs import InputReply, InputRequest
from rota.wire.scalars import id_in_field


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
        path="/v1/leases:input",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=read_input,
        summary="Read what a running job takes from the jobs before it: a result, the results, or a failure",
        tag="worker protocol",
        body=InputRequest,
        responses={200: InputReply},
    ),
)
