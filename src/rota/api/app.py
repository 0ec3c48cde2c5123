"""The HTTP API as an ASGI application."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from rota.api.auth import LOOK_UP, NO_ACCESS, Authenticator, admit, authorize, refuse_change, refuse_foreign_hosts
from rota.api.context import Context
from rota.api.errors import HttpError, http_error_of
from rota.api.etags import with_etag
from rota.api.forwarded import MOUNT, forwarded
from rota.api.http import (
    AsgiScope,
    Receive,
    Request,
    Response,
    Send,
    StreamResponse,
    problem_response,
    send_response,
    send_stream,
)
from rota.api.limits import check_request
from rota.api.namespaces import NAMESPACE, namespace_of
from rota.api.openapi import openapi_document
from rota.api.permissions import check_path
from rota.api.redaction import redact_response
from rota.api.router import CHECKED_HEADERS, Route, Router, check_declared, methods_by_path
from rota.api.routes import ROUTES
from rota.api.server.fast_io import CYCLE
from rota.api.settings import ApiKey, ApiSettings
from rota.api.token_limits import Quota
from rota.api.ui import PREFIX, is_below, redirect, serve_ui, wants_page
from rota.core.access import Action
from rota.engine import Engine

_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
#: Routes that answer with a stream.
_UNSHARED: Final = frozenset(
    {"/v1/events/stream", "/v1/jobs/{id}/events", "/v1/dead-letters/export", "/v1/events:export"}
)


def create_app(engine: Engine, *, settings: ApiSettings | None = None) -> Api:
    """Make the API of an engine."""
    return Api(Context(engine, settings or ApiSettings()), ROUTES)


class Api:
    """An ASGI application. `close` ends long polls and streams, so that a server can stop without breaking requests."""

    def __init__(self, context: Context, routes: Sequence[Route]) -> None:
        self.context = context
        context.describe = self._describe
        self.routes = routes
        self.rejections = context.rejections
        self._authenticator = Authenticator(context.tokens, context.settings, context.rejections)
        self._router = Router(methods_by_path(routes))
        self._in_flight = 0

    def _describe(self) -> dict[str, Any]:
        settings = self.context.settings
        return openapi_document(self.routes, settings.version, requires_key=bool(settings.keys))

    @property
    def settings(self) -> ApiSettings:
        return self.context.settings

    def start_counting(self) -> None:
        """Start the first count of all jobs before a request needs it; within a running loop."""
        self.context.counts.start()

    def close(self) -> None:
        """Answer long polls at once and end the streams; other requests are still served."""
        self.context.closing.set()
        for other in () if self.context.namespaces is None else self.context.namespaces.contexts():
            other.closing.set()

    async def aclose(self) -> None:
        """Close, and cancel the work that goes on behind answered requests."""
        self.close()
        await self.context.aclose()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope.get("root_path"):
            await self._serve_other(scope, receive, send)
            return
        self._in_flight += 1
        try:
            proxies = self.context.settings.proxies
            pairs: Mapping[bytes, bytes] = dict(scope["headers"])
            headers = forwarded(scope, pairs, proxies) if proxies else pairs
            request = Request(scope, receive, self.context, headers, NO_ACCESS, _EMPTY)
            response: Response | StreamResponse
            try:
                path = scope["path"]
                # Tested here for the same reason as below: a function call for each request would cost more.
                if (path in {"", "/"} or path.startswith(PREFIX)) and self.context.settings.ui:  # noqa: SIM102
                    if await self._serve_ui(scope, headers, send):
                        return
                context = self.context
                key = admit(scope, headers, context.settings, self.rejections, self._in_flight, context.tokens)
                if key is LOOK_UP or key.namespace or NAMESPACE in headers:
                    key, context = await self._look_up(key, scope, headers)
                    request.context = context
                request.key = key
                route = self._route(scope, request)
                authorize(key, route.action)
                if key.queues or context.settings.read_only:
                    await self._check_limits(route, request)
                # Tested here rather than in the function: nearly all requests need no further check.
                if route.body is None or scope["query_string"] or not CHECKED_HEADERS.isdisjoint(headers):
                    await check_declared(route, request)
                sees_all = key.limits is None and context.quota is None and Action.SECRETS_READ in key.actions
                is_plain = sees_all and b"rota-client" not in headers
                response = await (route.handler(request) if is_plain else self._answer_other(route, request))
            except Exception as error:  # noqa: BLE001 - every error has a response
                response = problem_response(http_error_of(error))
            if type(response) is Response:
                await send_response(with_etag(response, scope), scope, send)
            elif isinstance(response, StreamResponse):
                await send_stream(response, request, send)
        finally:
            self._in_flight -= 1

    async def _serve_other(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve below the mount point of another application, or what is no request."""
        if scope["type"] == "http":
            # Everything below sees the path as it is without the mount.
            root = scope["root_path"]
            inner = {**scope, "root_path": "", MOUNT: root, "path": _path_below(root, scope["path"])}
            await self(inner, receive, _sent_below(send, root))
        elif scope["type"] == "lifespan":
            await _serve_lifespan(receive, send)
        else:
            # No route uses WebSockets, so they are closed without looking for a key.
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _look_up(self, key: ApiKey, scope: AsgiScope, headers: Mapping[bytes, bytes]) -> tuple[ApiKey, Context]:
        """Return the key of a request whose token is not cached, and the context of its namespace."""
        if key is LOOK_UP:
            key = await self._authenticator.look_up(scope, headers)
        return key, await namespace_of(key, headers, self.context)

    async def _serve_ui(self, scope: AsgiScope, headers: Mapping[bytes, bytes], send: Send) -> bool:
        """Serve the dashboard's files if the path is theirs; return False otherwise."""
        path = scope["path"]
        is_home = path in {"", "/"} and wants_page(scope, headers)
        if not (is_home or is_below(path)):
            return False
        check_request(scope, headers, self.context.settings.limits, self._in_flight)
        # Only the host is checked, not the page that a link was followed from: the files are the same for everyone.
        refuse_foreign_hosts(headers.get(b"host", b""), self.context.settings)
        scope.pop(CYCLE, None)
        root = scope.get(MOUNT, "")
        await (redirect(root, headers, send) if is_home else serve_ui(path, scope, headers, send))
        return True

    async def _answer_other(self, route: Route, request: Request) -> Response | StreamResponse:
        """Answer a request of a token with limits, or that may not see everything, or of a front end."""
        key, is_limited = request.key, request.context.quota is not None
        if is_limited or key.limits is not None or Action.SECRETS_READ not in key.actions:
            return await self._answer_limited(route, request)
        is_tab = request.headers.get(b"rota-client") == b"ui"
        return await (self._answer_tab(route, request) if is_tab else route.handler(request))

    async def _answer_tab(self, route: Route, request: Request) -> Response | StreamResponse:
        """Answer a tab of the dashboard: what several tabs ask for at once is asked of the store once."""
        scope, shared = request.scope, request.context.shared_answers
        if route.method != "GET":
            try:
                return await route.handler(request)
            finally:
                shared.forget()
        if route.action is Action.SIGNED_IN or route.path in _UNSHARED or b"wait=" in scope["query_string"]:
            return await route.handler(request)
        key = (request.key, scope["path"], scope["query_string"], request.headers.get(b"accept"))
        answer: Response | StreamResponse = await shared.get(key, lambda: route.handler(request))
        return answer

    async def _answer_limited(self, route: Route, request: Request) -> Response | StreamResponse:
        """Answer a request of a token or a namespace with limits, or of one that may not see everything."""
        quotas = [quota for quota in (Quota.of_key(request.key), request.context.quota) if quota is not None]
        response = await (self._answer_paced(route, request, quotas) if quotas else route.handler(request))
        if type(response) is Response:
            redact_response(response, route, request)
        return response

    async def _answer_paced(self, route: Route, request: Request, quotas: list[Quota]) -> Response | StreamResponse:
        """Answer a request that counts towards limits on requests."""
        context, key = request.context, request.key
        try:
            with ExitStack() as counted:
                for quota in quotas:
                    size = context.token_limiter.begin(quota, request.headers)
                    counted.callback(context.token_limiter.end, quota, size)
                response = await route.handler(request)
            if isinstance(response, StreamResponse):
                for quota in quotas:
                    context.token_limiter.begin_stream(quota)
        except HttpError as error:
            if error.code in {"token_limit", "namespace_limit"}:
                context.rejections.add(error.code, key.name)
            raise
        return response

    async def _check_limits(self, route: Route, request: Request) -> None:
        """Refuse changes on a read-only server, and what is outside the queues of a limited token."""
        if self.context.settings.read_only:
            refuse_change(route.action)
        if request.key.queues:
            await check_path(route, request)

    def _route(self, scope: AsgiScope, request: Request) -> Route:
        method = scope["method"]
        methods, request.path_params = self._router.find(scope["path"]) or (_EMPTY, _EMPTY)
        route: Route | None = methods.get(method)
        if route is None:
            raise _no_route(method, methods)
        return route


def _path_below(root: str, path: str) -> str:
    """Return the path below the mount point; an application that mounts the API leaves it in, a proxy may remove it."""
    root = root.rstrip("/")
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path


def _sent_below(send: Send, root: str) -> Send:
    """Put the mount point before the addresses in the headers of a response."""
    prefix = quote(root.rstrip("/")).encode()

    async def send_with_root(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [(name, _address_below(prefix, name, value)) for name, value in message["headers"]]
        await send(message)

    return send_with_root


def _address_below(prefix: bytes, name: bytes, value: bytes) -> bytes:
    if name == b"link" and value.startswith(b"</"):
        return b"<" + prefix + value[1:]
    # The address of the dashboard has it already.
    is_resource = name == b"location" and value.startswith(b"/") and not value.endswith(b"/ui")
    return prefix + value if is_resource else value


def _no_route(method: str, methods: Mapping[str, Route]) -> HttpError:
    if not methods:
        return HttpError(404, "not_found", "there is nothing here", fix="see /docs for what there is")
    allowed = ", ".join(sorted(methods))
    detail = f"{method} is not possible here; {allowed} are"
    return HttpError(405, "method_not_allowed", detail, headers={"Allow": allowed})


async def _serve_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
