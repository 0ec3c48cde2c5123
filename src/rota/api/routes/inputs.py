"""Results passed on: the worker protocol for what a job takes from the jobs before it."""

from __future__ import annotations

from msgspec import Raw

from rota.api.http import Request, Response, json_response
from rota.api.router import Route
from rota.api.settings import Scope
from rota.wire.inputs import InputReply, InputRequest
from rota.wire.scalars import id_in_field


async def read_input(request: Request) -> Response:
    """Return the first argument of a job that the worker runs."""
    body = await request.read(InputRequest)
    value = await request.engine.inputs.input_of(id_in_field(body.id, "id"), body.fence)
    return json_response(InputReply(holds=value is not None, value=Raw(b"null" if value is None else value.encode())))


ROUTES = (
    Route(
        method="POST",
        path="/v1/leases:input",
        scope=Scope.WORK,
        handler=read_input,
        summary="Read what a running job takes from the jobs before it: a result, the results, or a failure",
        tag="worker protocol",
        body=InputRequest,
        responses={200: InputReply},
    ),
)
