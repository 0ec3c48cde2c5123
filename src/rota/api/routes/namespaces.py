"""Namespaces: create, list, set limits, delete. Within a namespace these paths are not found."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.api.context import NamespaceHost
from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, json_response
from rota.api.router import Handler, Route
from rota.core.access import Action
from rota.wire.namespaces import (
    NamespaceForm,
    NamespaceLimitsForm,
    NamespaceList,
    NamespaceRequest,
    namespace_form,
    namespace_limits_of,
)


class DeleteQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The confirmation of a deletion: the name of the namespace again."""

    confirm: Annotated[str, Meta(max_length=100)] = ""


async def create(request: Request) -> Response:
    """Create a namespace with its tables."""
    body = await request.read(NamespaceRequest)
    host = _host(request)
    namespace = await host.create(body.name, namespace_limits_of(body.limits), request.actor)
    return json_response(namespace_form(namespace), 201, location=f"/v1/namespaces/{namespace.name}")


async def list_namespaces(request: Request) -> Response:
    _host(request)
    return json_response(NamespaceList(items=[namespace_form(one) for one in await request.engine.namespaces.all()]))


async def get(request: Request) -> Response:
    _host(request)
    return json_response(namespace_form(await request.engine.namespaces.one(request.path_params["name"])))


async def set_limits(request: Request) -> Response:
    """Replace all limits of a namespace; every API process keeps them within seconds."""
    limits = namespace_limits_of(await request.read(NamespaceLimitsForm))
    host = _host(request)
    namespace = await request.engine.namespaces.set_limits(request.path_params["name"], limits, request.actor)
    await host.refresh()
    return json_response(namespace_form(namespace))


async def delete(request: Request) -> Response:
    """Delete a namespace with all that is in it, if the query repeats its name."""
    name, confirmed = request.path_params["name"], request.query(DeleteQuery).confirm
    host = _host(request)
    if confirmed != name:
        raise invalid([("confirm", f"repeat the name to delete it with all jobs, as in ?confirm={name[:60]}")])
    namespace = await request.engine.namespaces.delete(name, request.actor)
    await host.refresh()
    return json_response(namespace_form(namespace))


def _host(request: Request) -> NamespaceHost:
    host = request.context.namespaces
    if host is None:
        raise HttpError(404, "not_found", "there is nothing here", fix="use the default namespace")
    return host


def _route(method: str, path: str, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401 - its fields
    action = Action.NAMESPACES_READ if method == "GET" else Action.NAMESPACES_EDIT
    return Route(method=method, path=path, action=action, handler=handler, summary=summary, tag="namespaces", **more)


_ALL: Final = "/v1/namespaces"
_ONE: Final = "/v1/namespaces/{name}"
ROUTES = (
    _route(
        "POST",
        _ALL,
        create,
        "Create a namespace",
        body=NamespaceRequest,
        responses={201: NamespaceForm},
        error_statuses=(409,),
    ),
    _route("GET", _ALL, list_namespaces, "List namespaces", responses={200: NamespaceList}),
    _route("GET", _ONE, get, "Show a namespace", responses={200: NamespaceForm}),
    _route(
        "PUT",
        f"{_ONE}/limits",
        set_limits,
        "Replace the limits of a namespace",
        body=NamespaceLimitsForm,
        responses={200: NamespaceForm},
        error_statuses=(409,),
    ),
    _route(
        "DELETE",
        _ONE,
        delete,
        "Delete a namespace with all that is in it",
        query=DeleteQuery,
        responses={200: NamespaceForm},
        error_statuses=(409,),
    ),
)
