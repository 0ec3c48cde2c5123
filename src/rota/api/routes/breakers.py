"""Circuit breakers: their states, and an operator's changes of them."""

from __future__ import annotations

from typing import Any, Final

from rota.api.cursors import decode_cursor, encode_cursor
from rota.api.errors import HttpError
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import Handler, Route
from rota.core.access import Action
from rota.core.errors import InvalidRequest
from rota.wire.breakers import (
    BreakerClose,
    BreakerList,
    BreakerOpen,
    BreakerUsageForm,
    breaker_form,
    breaker_usage_form,
)
from rota.wire.scalars import moment_of
from rota.wire.submission import positive_duration

KIND: Final = "breakers"


async def list_breakers(request: Request) -> Response:
    """List circuit breakers, by name."""
    listing = request.query(PageQuery)
    after = decode_cursor(KIND, listing.cursor) or ""
    found = await request.engine.breakers.page(after, listing.limit + 1)
    items = [breaker_form(one) for one in found[: listing.limit]]
    is_more = len(found) > listing.limit
    return json_response(BreakerList(items=items, next_cursor=encode_cursor(KIND, items[-1].name) if is_more else None))


async def get(request: Request) -> Response:
    """Show a breaker and how many jobs wait for it."""
    name = _name(request)
    report = await request.engine.breakers.get(name)
    if report is None:
        fix = "see `rota breakers list`; a breaker is known once its task was started or it has opened"
        raise HttpError(404, "not_found", f"breaker {name!r}: not known", fix=fix)
    return json_response(breaker_usage_form(report))


async def open_breaker(request: Request) -> Response:
    """Let no job of a breaker start; running ones continue."""
    body = await request.read_or(BreakerOpen, BreakerOpen())
    until, span = moment_of(body.until, "until"), positive_duration(body.open_for, "open_for")
    if until is not None and span is not None:
        raise InvalidRequest("open_for: give either 'until' or 'open_for', not both", field="open_for")
    if span is not None:
        until = await request.engine.store.time() + span
    report = await request.engine.breakers.open(_name(request), until, body.reason, request.actor)
    return json_response(breaker_usage_form(report))


async def close(request: Request) -> Response:
    """Close a breaker and keep it closed, whatever fails."""
    body = await request.read_or(BreakerClose, BreakerClose())
    report = await request.engine.breakers.close(_name(request), body.reason, request.actor)
    return json_response(breaker_usage_form(report))


async def reset(request: Request) -> Response:
    """Close a breaker and let it open by itself again."""
    return json_response(breaker_usage_form(await request.engine.breakers.reset(_name(request), request.actor)))


def _name(request: Request) -> str:
    # A slash ends a segment of the path, so the path has it encoded twice.
    return request.path_params["name"].replace("%2F", "/")


def _route(method: str, path: str, action: Action, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(
        method=method,
        path=f"/v1/breakers{path}",
        action=action,
        handler=handler,
        summary=summary,
        tag="breakers",
        **{"responses": {200: BreakerUsageForm}, **more},
    )


ROUTES = (
    _route(
        "GET", "", Action.QUEUES_READ, list_breakers, "List circuit breakers", query=PageQuery,
        responses={200: BreakerList},
    ),
    _route("GET", "/{name}", Action.QUEUES_READ, get, "Show a circuit breaker", error_statuses=(404,)),
    _route(
        "POST", "/{name}/open", Action.QUEUES_EDIT, open_breaker, "Keep a circuit breaker open", body=BreakerOpen,
        body_is_optional=True,
    ),
    _route(
        "POST", "/{name}/close", Action.QUEUES_EDIT, close, "Keep a circuit breaker closed", body=BreakerClose,
        body_is_optional=True,
    ),
    _route("POST", "/{name}/reset", Action.QUEUES_EDIT, reset, "Let a circuit breaker decide by itself again"),
)  # fmt: skip
