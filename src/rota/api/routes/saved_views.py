"""Saved views of the list of jobs: the caller's own ones, and those that everybody sees."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from rota.api.auth import refuse_change
from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.permissions import require
from rota.api.router import QueueCheck, Route
from rota.core.access import Action
from rota.core.saved_view import SHARED, SavedView
from rota.wire.saved_views import ViewForm, ViewList, ViewName, ViewRequest, view_form


class ViewQueryParameters(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which view: a shared one, or the caller's own one."""

    is_shared: bool = False


async def list_views(request: Request) -> Response:
    items = await request.engine.saved_views.visible_to(_owner(request))
    return json_response(ViewList(items=[view_form(view) for view in items]))


async def save(request: Request) -> Response:
    _refuse_if_read_only(request)
    body = await request.read(ViewRequest)
    owner = _owner_of_change(request, is_shared=body.is_shared)
    view = SavedView(owner, _name(request), body.query, request.actor.name)
    return json_response(view_form(await request.engine.saved_views.save(view, request.actor)))


async def remove(request: Request) -> Response:
    _refuse_if_read_only(request)
    owner = _owner_of_change(request, is_shared=request.query(ViewQueryParameters).is_shared)
    name = _name(request)
    if not await request.engine.saved_views.remove(owner, name, request.actor):
        kind = "shared view" if owner == SHARED else "view of yours"
        raise HttpError(404, "not_found", f"{name!r}: there is no such {kind}", fix="list the views with GET /v1/views")
    return empty_response()


def _owner(request: Request) -> str:
    """Give the owner of the caller's own views. Where no token is needed all callers are one, and share all views."""
    return request.key.name if request.context.settings.keys else SHARED


def _refuse_if_read_only(request: Request) -> None:
    """Refuse a change by a server that is for reading only: the routes need a right to read."""
    if request.context.settings.read_only:
        refuse_change(Action.JOBS_OPERATE)


def _owner_of_change(request: Request, *, is_shared: bool) -> str:
    owner = SHARED if is_shared else _owner(request)
    if owner == SHARED:
        require(request.key, Action.JOBS_OPERATE)
    return owner


def _name(request: Request) -> str:
    name = request.path_params["name"].strip()
    try:
        return msgspec.convert(name, ViewName)
    except msgspec.ValidationError:
        raise invalid([("name", "a view's name has 1 to 100 characters, no slash and no control characters")]) from None


_VIEW: Final = "/v1/views/{name}"
ROUTES = (
    Route(
        method="GET",
        path="/v1/views",
        action=Action.JOBS_READ,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=list_views,
        summary="List the shared views of the list of jobs, and the caller's own ones",
        tag="jobs",
        responses={200: ViewList},
    ),
    Route(
        method="PUT",
        path=_VIEW,
        action=Action.JOBS_READ,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=save,
        summary="Save a view of the list of jobs; a shared one needs `jobs.operate`",
        tag="jobs",
        body=ViewRequest,
        responses={200: ViewForm},
        error_statuses=(409,),
    ),
    Route(
        method="DELETE",
        path=_VIEW,
        action=Action.JOBS_READ,
        queue_check=QueueCheck.NOT_NEEDED,
        handler=remove,
        summary="Remove a view; a shared one needs `jobs.operate`",
        tag="jobs",
        query=ViewQueryParameters,
        responses={204: None},
        error_statuses=(404,),
    ),
)
