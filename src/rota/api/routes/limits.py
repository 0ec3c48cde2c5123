"""Limits: how many jobs of a queue, task or key run at once, and how often they start."""

from __future__ import annotations

from typing import Any, Final

from rota.api.cursors import decode_cursor, encode_cursor
from rota.api.errors import HttpError
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import Handler, Route
from rota.api.settings import Scope
from rota.core.limit import Limit
from rota.wire.limits import LimitChange, LimitClose, LimitList, LimitUsageForm, limit_form, usage_form
from rota.wire.scalars import moment_of

KIND: Final = "limits"


async def list_limits(request: Request) -> Response:
    """List the limits that are set, by name."""
    listing = request.query(PageQuery)
    after = decode_cursor(KIND, listing.cursor) or ""
    found = await request.engine.limits.page(after, listing.limit + 1)
    items = [limit_form(one) for one in found[: listing.limit]]
    is_more = len(found) > listing.limit
    return json_response(LimitList(items=items, next_cursor=encode_cursor(KIND, items[-1].name) if is_more else None))


async def get(request: Request) -> Response:
    """Show a limit with what runs and waits under it; one that is not set limits nothing, or a key to one job."""
    return json_response(usage_form(await request.engine.limits.get(_name(request))))


async def put(request: Request) -> Response:
    """Set a limit. It holds from the next claim on."""
    body = await request.read(LimitChange)
    limit = Limit(_name(request), body.max_running, body.rate_limit, body.per_key_max_running, body.per_key_rate_limit)
    return json_response(usage_form(await request.engine.limits.put(limit, request.actor)))


async def delete(request: Request) -> Response:
    """Delete a limit."""
    name = _name(request)
    if not await request.engine.limits.delete(name, request.actor):
        raise HttpError(404, "not_found", f"limit {name!r}: not set", fix="see `rota limits list` for those that are")
    return json_response(usage_form(await request.engine.limits.get(name)))


async def close(request: Request) -> Response:
    """Start no jobs under a limit; running ones continue."""
    body = await request.read_or(LimitClose, LimitClose())
    until = moment_of(body.until, "until")
    return json_response(
        usage_form(await request.engine.limits.close(_name(request), until, body.reason, request.actor))
    )


async def open_limit(request: Request) -> Response:
    """Open a limit that was closed."""
    return json_response(usage_form(await request.engine.limits.open(_name(request), request.actor)))


def _name(request: Request) -> str:
    # A slash ends a segment of the path, so the path has it encoded twice.
    return request.path_params["name"].replace("%2F", "/")


def _route(method: str, path: str, scope: Scope, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(
        method=method,
        path=f"/v1/limits{path}",
        scope=scope,
        handler=handler,
        summary=summary,
        tag="limits",
        **{"responses": {200: LimitUsageForm}, **more},
    )


ROUTES = (
    _route("GET", "", Scope.READ, list_limits, "List limits", query=PageQuery, responses={200: LimitList}),
    _route("GET", "/{name}", Scope.READ, get, "Show a limit and its use"),
    _route("PUT", "/{name}", Scope.ADMIN, put, "Set a limit", body=LimitChange),
    _route("DELETE", "/{name}", Scope.ADMIN, delete, "Delete a limit", error_statuses=(404,)),
    _route("POST", "/{name}/close", Scope.ADMIN, close, "Close a limit", body=LimitClose, body_is_optional=True),
    _route("POST", "/{name}/open", Scope.ADMIN, open_limit, "Open a closed limit"),
)
