"""The OpenAPI 3.1 document, generated from the routes and the forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from rota.api.http import JSON, PROBLEM
from rota.api.router import Body, Route
from rota.core.access import Action
from rota.wire.problem import Problem
from rota.wire.scalars import Identifier

_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {"content": {PROBLEM: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}}}
#: Below these paths `{id}` is an id; elsewhere it may be a name.
_IDS: Final = ("/v1/jobs/", "/jobs/", "/tasks/", "/v1/dead-letters/")
_RETRY_LATER: Final = {429, 503}

Plain = dict[str, Any]
_IF_NONE_MATCH: Final[Plain] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "the ETag of an earlier answer; 304 without a body if it is still the same",
    "schema": {"type": "string"},
}


def openapi_document(routes: Sequence[Route], version: str, *, requires_key: bool = False) -> Plain:
    schemas = Schemas(routes)
    paths: dict[str, Plain] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, requires_key=requires_key)
    components: Plain = {"schemas": schemas.components}
    if requires_key:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rota",
            "version": version or "0",
            "description": (
                "A durable task queue and scheduler. Times are RFC 3339 in UTC; durations are seconds, in requests "
                "also text such as '5m'. Every error is application/problem+json. A name that is repeated in one JSON "
                "object is refused (422), as are numbers beyond a double's range; NaN, Infinity and lone surrogates "
                "are not JSON (400). Unknown fields and query parameters are refused (422), and so are an "
                "Idempotency-Key or an If-Match that would have no effect. Host, Origin and Sec-Fetch-Site of every "
                "request are checked, to refuse requests from pages of other sites; X-Forwarded-For, Forwarded and "
                "Via are only used to see that a request for /metrics came through a proxy. Rota-Client (api, cli, ui, "
                "sdk) is written to the ledger with an operator's action. Rota-Namespace chooses a namespace, for "
                "callers of the default one that may; a token of a namespace is for that one only, and all "
                "else is not found."
            ),
        },
        "paths": paths,
        "components": components,
    }


class Schemas:
    """The JSON schemas of all forms that the routes use."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._types: list[Any] = [Problem, Identifier]
        for route in routes:
            self._types += [route.body, route.query]
            self._types += [part for body in route.responses.values() for part in parts_of(body)]
        unique = list(dict.fromkeys(one for one in self._types if one is not None and not isinstance(one, str)))
        schemas, components = msgspec.json.schema_components(unique, ref_template=_REFERENCE)
        self._schemas = dict(zip(unique, schemas, strict=True))
        self.components: Plain = components

    def of(self, form: Any) -> Plain:  # noqa: ANN401 - any type
        """Return the schema of a form, or of a union of forms."""
        forms = get_args(form) if isinstance(form, UnionType) else (form,)
        schemas = [self._schemas[one] for one in forms]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def resolved(self, struct: type[Struct]) -> Plain:
        """Return a form's schema itself, not a reference to it."""
        schema: Plain = self.components[struct.__name__]
        return schema


def parts_of(body: Body) -> tuple[Any, ...]:
    """Return the forms that a body may have."""
    if isinstance(body, tuple):
        return tuple(part for one in body for part in parts_of(one))
    return get_args(body) if isinstance(body, UnionType) else (body,)


def _operation(route: Route, schemas: Schemas, *, requires_key: bool) -> Plain:
    operation: Plain = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "x-rota-action": route.action.value,
        "responses": _responses(route, schemas),
    }
    parameters = [*_path_parameters(route, schemas), *_query_parameters(route, schemas), *_header_parameters(route)]
    if _has_etag(route):
        parameters.append(_IF_NONE_MATCH)
        operation["responses"]["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        operation["responses"]["304"] = {"description": "The answer is the one whose ETag was named"}
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {JSON: {"schema": schemas.of(route.body)}}
        operation["requestBody"] = {"required": not route.body_is_optional, "content": content}
    if requires_key:
        operation["security"] = [] if route.action is Action.PUBLIC else [{"bearer": []}]
    return operation


def _has_etag(route: Route) -> bool:
    """Return whether answers have an ETag: those of GET below /v1 that are JSON and no stream."""
    response = route.responses.get(200)
    return (
        route.method == "GET"
        and route.path.startswith("/v1/")
        and response is not None
        and not isinstance(response, str)
    )


def _operation_id(route: Route) -> str:
    words = "".join(character if character.isalnum() else " " for character in route.path).split()
    return "_".join([route.method.lower(), *words])


def _path_parameters(route: Route, schemas: Schemas) -> Iterable[Plain]:
    for part in route.path.split("/"):
        if part.startswith("{"):
            is_id = route.path.startswith(_IDS)
            schema = schemas.of(Identifier) if is_id else {"type": "string", "minLength": 1}
            yield {"name": part.strip("{}"), "in": "path", "required": True, "schema": schema}


def _query_parameters(route: Route, schemas: Schemas) -> Iterable[Plain]:
    if route.query is None:
        return
    form = schemas.resolved(route.query)
    for name, schema in form["properties"].items():
        yield {"name": name, "in": "query", "required": name in form.get("required", ()), "schema": _present(schema)}


def _present(schema: Plain) -> Plain:
    """Remove null from a schema: in a query a value is absent instead."""
    if "anyOf" not in schema:
        return schema
    rest = [one for one in schema["anyOf"] if one != {"type": "null"}]
    return rest[0] if len(rest) == 1 else {"anyOf": rest}


def _header_parameters(route: Route) -> Iterable[Plain]:
    for header in route.headers:
        yield {
            "name": header.name,
            "in": "header",
            "required": False,
            "description": header.about,
            "schema": header.schema(),
        }


def _responses(route: Route, schemas: Schemas) -> dict[str, Plain]:
    responses = {str(status): _response(status, body, schemas) for status, body in route.responses.items()}
    for status in sorted(_error_statuses(route)):
        known = responses.setdefault(str(status), {"description": HTTPStatus(status).phrase, "content": {}})
        known["content"] = {**known["content"], **_PROBLEM["content"]}
        if status in _RETRY_LATER:
            known["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    for status, description in route.descriptions.items():
        responses[str(status)]["description"] = description
    return responses


def _error_statuses(route: Route) -> set[int]:
    """List the error statuses that follow from the fields of a route."""
    statuses = {403, 429, 503, *route.error_statuses}
    if route.action is not Action.PUBLIC:
        statuses.add(401)
    # Also where no body is read, since a request may have one.
    statuses |= {400, 408, 413, 415}
    # Input that a route does not declare is refused.
    statuses.add(422)
    # Also where nothing is in the path: the header Rota-Namespace may name an unknown namespace.
    statuses.add(404)
    return statuses


def _response(status: int, body: Body, schemas: Schemas) -> Plain:
    response: Plain = {"description": HTTPStatus(status).phrase}
    bodies = body if isinstance(body, tuple) else (body,)
    content: Plain = {}
    for one in bodies:
        if isinstance(one, str):
            content[one] = {"schema": {"type": "string"}}
        elif one is not None:
            content[JSON] = {"schema": schemas.of(one)}
    if content:
        response["content"] = content
    return response
