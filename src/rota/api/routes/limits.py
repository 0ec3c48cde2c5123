"""Limits: how many jobs of a queue, task or key run at once, and how often they start."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from rota.api.cursors import decode_cursor, encode_cursor
from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, json_response
from rota.api.job_filter import PageQuery
from rota.api.router import Handler, Route
from rota.core.access import Action
from rota.core.limit import ALLOWED_FIELDS, Limit
from rota.wire.limits import LimitChange, LimitClose, LimitList, LimitPatch, LimitUsageForm, limit_form, usage_form
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
    limit = Limit(_name(request), **{field: getattr(body, field) for field in ALLOWED_FIELDS})
    return json_response(usage_form(await request.engine.limits.put(limit, request.actor)))


async def change(request: Request) -> Response:
    """Change some fields of a limit."""
    body = await request.read(LimitPatch)
    changes = {field: value for field in ALLOWED_FIELDS if (value := getattr(body, field)) is not UNSET}
    if not changes:
        raise invalid([("max_running", f"nothing is changed; give one of {', '.join(ALLOWED_FIELDS)}")])
    return json_response(usage_form(await request.engine.limits.change(_name(request), changes, request.actor)))


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


def _route(method: str, path: str, action: Action, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(
        method=method,
        path=f"/v1/limits{path}",
        action=action,
        handler=handler,
        summary=summary,
        tag="limits",
        **{"responses": {200: LimitUsageForm}, **more},
    )


ROUTES = (
    _route("GET", "", Action.QUEUES_READ, list_limits, "List limits", query=PageQuery, responses={200: LimitList}),
    _route("GET", "/{name}", Action.QUEUES_READ, get, "Show a limit and its use"),
    _route("PUT", "/{name}", Action.QUEUES_EDIT, put, "Set a limit", body=LimitChange),
    _route("PATCH", "/{name}", Action.QUEUES_EDIT, change, "Change some fields of a limit", body=LimitPatch),
    _route("DELETE", "/{name}", Action.QUEUES_EDIT, delete, "Delete a limit", error_statuses=(404,)),
    _route("POST", "/{name}/close", Action.QUEUES_EDIT, close, "Close a limit", body=LimitClose, body_is_optional=True),
    _route("POST", "/{name}/open", Action.QUEUES_EDIT, open_limit, "Open a closed limit"),
)
