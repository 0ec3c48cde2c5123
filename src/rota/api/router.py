"""Routes and the router: what each route reads and returns, and which route a path belongs to.

One description of a route serves the router, the check of actions, the check of the input and the OpenAPI document.
A route cannot be described without an action. Input that a route does not declare would have no effect, so it is
refused: an unknown query parameter, a body where none is read, a wrong or repeated value of a header that is read,
and a condition (`Idempotency-Key`, `If-Match`) that the route would ignore. Names within a declared query or body are
checked against their form (`Request.query`, `json_body`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl

from msgspec import Struct

from rota.api.errors import HttpError, invalid
from rota.api.headers import IDEMPOTENCY_KEY, IF_MATCH, LAST_EVENT, PREFER, Header
from rota.api.http import Request, Response, StreamResponse
from rota.api.json_body import decode_body
from rota.core.access import Action

Handler = Callable[[Request], Awaitable[Response | StreamResponse]]
#: A form, a media type, or None for an empty body.
Body = Any
EVENT_STREAM: Final = "text/event-stream"
JSON_LINES: Final = "application/x-ndjson"
HTML: Final = "text/html"
PLAIN_TEXT: Final = "text/plain"

T = TypeVar("T")
_NO_PARAMS: Final[Mapping[str, str]] = MappingProxyType({})
#: Headers on which the effect of a change depends: a route that changes something reads them or refuses them.
CONDITIONAL_HEADERS: Final = {IDEMPOTENCY_KEY.key: IDEMPOTENCY_KEY, IF_MATCH.key: IF_MATCH}
CHECKED_HEADERS: Final = frozenset({*CONDITIONAL_HEADERS, LAST_EVENT.key, PREFER.key})
_SAFE: Final = frozenset({"GET", "HEAD"})


class QueueCheck(Enum):
    """How a route keeps a token within its queues."""

    #: Not at all: tokens that are limited to queues are refused.
    NONE = "none"
    #: It shows and changes nothing of a queue.
    NOT_NEEDED = "not_needed"
    #: The job (or the schedule) whose id is in the path is looked up.
    JOB = "job"
    SCHEDULE = "schedule"
    #: The name of the queue is in the path.
    QUEUE = "queue"
    #: The handler checks each item, or leaves out what the token does not cover.
    HANDLER = "handler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method on one path."""

    method: str
    path: str
    action: Action
    handler: Handler
    summary: str
    tag: str
    responses: Mapping[int, Body]
    body: type[Struct] | None = None
    body_is_optional: bool = False
    query: type[Struct] | None = None
    #: The headers it reads, beyond those that are read for every request.
    headers: tuple[Header, ...] = ()
    #: Statuses of errors beyond those that follow from the other fields.
    error_statuses: tuple[int, ...] = ()
    #: What a status means here, where its standard phrase is not enough.
    descriptions: Mapping[int, str] = field(default_factory=dict)
    #: How the queues of a token are checked here, if the action is on queues.
    queue_check: QueueCheck = QueueCheck.NONE
    #: Whether HEAD is answered as GET; not where GET changes something.
    allows_head: bool = True

    def at(self, path: str, **changes: Any) -> Route:  # noqa: ANN401 - any field
        """Return the same route at another path."""
        return replace(self, path=path, **changes)


def methods_by_path(routes: Sequence[Route]) -> dict[str, dict[str, Route]]:
    paths: dict[str, dict[str, Route]] = {}
    for route in routes:
        methods = paths.setdefault(route.path, {})
        if route.method in methods:
            raise ValueError(f"{route.method} {route.path} is described twice")
        methods[route.method] = route
    for methods in paths.values():
        if "GET" in methods and methods["GET"].allows_head:
            methods["HEAD"] = methods["GET"]
    return paths


class Router(Generic[T]):
    """Finds the entry of a path. A path without a parameter wins over one with a parameter that would match too.

    A path has at most one parameter (`/v1/jobs/{id}/cancel`), so a lookup takes at most a few dictionary reads,
    however many paths there are. A router that tries one pattern after the other took half of the time of `GET`.
    """

    def __init__(self, entries: Mapping[str, T]) -> None:
        self._plain: dict[str, T] = {}
        #: By the number of other segments, the position of the parameter, and the other segments.
        self._with_param: dict[tuple[int, int, str], tuple[str, T]] = {}
        positions: dict[int, set[int]] = {}
        for path, entry in entries.items():
            segments = path.split("/")
            params = [position for position, segment in enumerate(segments) if "{" in segment]
            if not params:
                self._plain[path] = entry
                continue
            (position,) = params
            name = segments.pop(position)
            if not (name.startswith("{") and name.endswith("}")):
                raise ValueError(f"{path}: a parameter must be a whole segment")
            key = (len(segments), position, "/".join(segments))
            if key in self._with_param:
                raise ValueError(f"{path} is described twice")
            self._with_param[key] = (name[1:-1], entry)
            positions.setdefault(len(segments), set()).add(position)
        self._positions = {number: sorted(known) for number, known in positions.items()}

    def find(self, path: str) -> tuple[T, Mapping[str, str]] | None:
        """Return the entry of a path and its parameters; None if there is none."""
        plain = self._plain.get(path)
        if plain is not None:
            return plain, _NO_PARAMS
        segments = path.split("/")
        for position in self._positions.get(len(segments) - 1, ()):
            value = segments[position]
            others = "/".join(segments[:position] + segments[position + 1 :])
            match = self._with_param.get((len(segments) - 1, position, others))
            if match is not None and value:
                return match[1], {match[0]: value}
        return None


class NoBody(Struct, forbid_unknown_fields=True):
    """The only body accepted by a route that reads none: an empty object."""


async def check_declared(route: Route, request: Request) -> None:
    """Refuse input that the route does not declare."""
    scope, headers = request.scope, request.headers
    if scope["query_string"]:
        if route.query is None:
            refuse_query(scope["query_string"])
        else:
            request.query(route.query)
    if not CHECKED_HEADERS.isdisjoint(headers):
        _check_headers(route, request)
    if route.body is None and (b"content-length" in headers or b"transfer-encoding" in headers):
        await _refuse_body(request)


def refuse_query(query: bytes) -> None:
    """Refuse every query parameter."""
    names = [name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)]
    raise invalid([((names or ["query"])[0][:100], "unknown query parameter; none is read here")])


def _check_headers(route: Route, request: Request) -> None:
    declared = {header.key: header for header in route.headers}
    for name in CHECKED_HEADERS.intersection(request.headers):
        header = declared.get(name)
        if header is not None:
            _check_value(header, request)
        elif name in CONDITIONAL_HEADERS and request.scope["method"] not in _SAFE:
            raise invalid([(CONDITIONAL_HEADERS[name].name, "this header has no effect here; leave it out")])


def _check_value(header: Header, request: Request) -> None:
    if sum(1 for name, _ in request.scope["headers"] if name == header.key) > 1:
        raise invalid([(header.name, "this header is repeated; send it once")])
    try:
        fault = header.check(request.headers[header.key].decode())
    except UnicodeDecodeError:
        fault = "this header is not UTF-8"
    if fault is not None:
        raise invalid([(header.name, fault)])


async def _refuse_body(request: Request) -> None:
    """Refuse a body other than `{}`, which many clients send with every POST."""
    body = await request.body()
    if not body:
        return
    request.require_json()
    try:
        await decode_body(body, NoBody, request.context.limits)
    except HttpError as error:
        if error.code != "invalid_request":
            raise
        fix = "send no body; to run a job with another payload, submit a new job"
        detail = f"this route takes no body: {error.detail}"
        raise HttpError(422, error.code, detail[:2_000], errors=error.errors, fix=fix) from None
