"""Operations: retry, cancel, delete or start all jobs of a selection, in batches, with progress."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rota.api.auth import authorize
from rota.api.cursors import cut_page, decode_cursor
from rota.api.errors import invalid
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import PageQuery, searched_jobs
from rota.api.router import Route
from rota.core.access import Action
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest, JobNotFound
from rota.core.ids import to_number, to_text
from rota.core.operation import Operation, OperationAction, OperationId, check_operation
from rota.wire.operations import (
    OperationArguments,
    OperationForm,
    OperationPage,
    OperationRequest,
    operation_form,
)
from rota.wire.scalars import id_in_field, job_id_of

KIND: Final = "operations"
#: The action that a token needs for a single job, and so for many.
_ACTIONS: Final = {
    OperationAction.RETRY: Action.JOBS_RETRY,
    OperationAction.RUN_NOW: Action.JOBS_RETRY,
    OperationAction.CANCEL: Action.JOBS_CANCEL,
    OperationAction.DELETE: Action.DEAD_LETTERS_DISCARD,
}


async def create(request: Request) -> Response:
    """Create an operation (202), or count its jobs with `dry_run` (200)."""
    body = await request.read(OperationRequest)
    authorize(request.key, _ACTIONS[body.action])
    if body.q is not None and Action.SECRETS_READ not in request.key.actions:
        await searched_jobs(request, body.q)
    operation = await _operation(request, body)
    if body.dry_run:
        counted = await request.engine.operations.count(operation)
        operation = replace(operation, matched=counted.count, is_exact=counted.is_exact)
        return json_response(operation_form(operation, operation.created_at, is_dry_run=True))
    made = await request.engine.operations.create(operation, surface=request.actor.surface)
    return json_response(operation_form(made, made.created_at), 202, location=f"/v1/operations/{to_text(made.id)}")


async def _operation(request: Request, body: OperationRequest) -> Operation:
    now = await request.engine.store.time()
    arguments = body.arguments or OperationArguments()
    try:
        wait = parse_duration(body.start_after or 0, field="start_after")
        operation = Operation(
            id=OperationId(request.engine.fresh_id()),
            action=body.action,
            created_at=now,
            due_at=now + wait,
            by=request.actor.name,
            origin=request.actor.origin,
            q=_search(body),
            ids=tuple(id_in_field(text, "ids") for text in body.ids or ()),
            rate=arguments.rate,
            canary=arguments.canary or 0,
        )
        check_operation(operation)
    except (InvalidRequest, OverflowError) as error:
        field = error.field if isinstance(error, InvalidRequest) else "start_after"
        raise invalid([(field or "q", str(error))]) from None
    return operation


def _search(body: OperationRequest) -> str | None:
    """Return the search of a request; a cause of dead jobs is a search, too."""
    if body.fingerprint is None:
        return body.q
    if body.q is not None or body.ids is not None:
        raise invalid([("fingerprint", "select jobs by 'q', by 'ids' or by 'fingerprint', and by one of them only")])
    literal = body.fingerprint.replace("\\", "\\\\").replace('"', '\\"')
    return f'status:dead fingerprint:"{literal}"'


async def list_operations(request: Request) -> Response:
    """List operations, newest first."""
    listing = request.query(PageQuery)
    found = await request.engine.store.operations(before=_place(listing.cursor), limit=listing.limit + 1)
    items, cursor = cut_page(KIND, found, listing.limit, lambda one: to_text(one.id))
    now = await request.engine.store.time()
    return json_response(OperationPage(items=[operation_form(one, now) for one in items], next_cursor=cursor))


def _place(cursor: str | None) -> OperationId | None:
    place = decode_cursor(KIND, cursor)
    try:
        return None if place is None else OperationId(to_number(place))
    except JobNotFound:
        raise invalid([("cursor", "this is not a cursor of this list; take it from 'next_cursor'")]) from None


async def get(request: Request) -> Response:
    """Show an operation and how far it is."""
    operation = await request.engine.operations.one(_id_in_path(request))
    return json_response(operation_form(operation, await request.engine.store.time()))


async def cancel(request: Request) -> Response:
    """Cancel an operation; what it has done stays done."""
    operation = await request.engine.operations.cancel(_id_in_path(request), request.actor)
    return json_response(operation_form(operation, await request.engine.store.time()))


def _id_in_path(request: Request) -> OperationId:
    return OperationId(job_id_of(request.path_params["id"]))


ROUTES = (
    Route(
        method="POST",
        path="/v1/operations",
        action=Action.JOBS_OPERATE,
        handler=create,
        summary="Retry, cancel, delete or start all jobs of a selection (202), or count them (200)",
        tag="operations",
        body=OperationRequest,
        responses={202: OperationForm, 200: OperationForm},
    ),
    Route(
        method="GET",
        path="/v1/operations",
        action=Action.JOBS_READ,
        handler=list_operations,
        summary="List operations, newest first",
        tag="operations",
        query=PageQuery,
        responses={200: OperationPage},
    ),
    Route(
        method="GET",
        path="/v1/operations/{id}",
        action=Action.JOBS_READ,
        handler=get,
        summary="Show an operation and how far it is",
        tag="operations",
        responses={200: OperationForm},
    ),
    Route(
        method="POST",
        path="/v1/operations/{id}/cancel",
        action=Action.JOBS_OPERATE,
        handler=cancel,
        summary="Cancel an operation; what it has done stays done",
        tag="operations",
        responses={200: OperationForm},
        error_statuses=(409,),
    ),
)
