"""The API as an ASGI application: the door that every request comes through, and the routes behind it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from rota.api.auth import NOBODY, authorize, identify, refuse_strangers
from rota.api.calls import Answer, AsgiScope, Call, Context, Receive, Send, Stream, refused
from rota.api.declared import CHECKED, check_declared
from rota.api.endpoint import deliver, respond
from rota.api.errors import Refusal, refusal_of, too_busy
from rota.api.openapi import document
from rota.api.paths import Paths
from rota.api.rejections import Rejections
from rota.api.routes import ROUTES
from rota.api.settings import ApiKey, ApiSettings, Limits
from rota.api.table import Route
from rota.engine import Engine

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
#: A name, an IPv4 address or an IPv6 address in brackets, and perhaps a port; may be empty.
_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?")
#: Headers that have one value and are read before a route is known; routes declare the others that they read.
_SINGLE: Final = frozenset({b"authorization", b"content-encoding", b"content-type", b"host", b"origin"})


def create_app(engine: Engine, *, settings: ApiSettings | None = None) -> Api:
    """Make the API of an engine."""
    return Api(Context(engine, settings or ApiSettings()), ROUTES)


class Api:
    """An ASGI application. `close` ends what waits, so that a server can stop without cutting anyone off."""

    def __init__(self, context: Context, routes: Sequence[Route]) -> None:
        self.context = context
        context.describe = self._describe
        self.routes = routes
        self.rejections = context.rejections
        self._paths = Paths(_by_path(routes))
        self._in_flight = 0

    def _describe(self) -> dict[str, Any]:
        settings = self.context.settings
        return document(self.routes, settings.version, asks_for_key=bool(settings.keys))

    @property
    def settings(self) -> ApiSettings:
        """What it was told."""
        return self.context.settings

    def begin(self) -> None:
        """Begin what is to be known before the first request asks for it; within a running loop."""
        self.context.counting.begin()

    def close(self) -> None:
        """Answer whoever waits, and end the streams; requests are still served."""
        self.context.closing.set()

    async def aclose(self) -> None:
        """Close, and end what goes on behind answered requests."""
        self.close()
        self.context.stop_metrics()
        self.context.stop_cancels()
        errands = tuple(self.context.errands)
        for errand in errands:
            errand.cancel()
        await asyncio.gather(*errands, return_exceptions=True)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Let a request in."""
        if scope["type"] != "http":
            await _serve_other(scope, receive, send)
            return
        self._in_flight += 1
        try:
            headers: Mapping[bytes, bytes] = dict(scope["headers"])
            call = Call(scope, receive, self.context, headers, NOBODY, _NOTHING)
            answer: Answer | Stream
            try:
                call.key = key = admit(scope, headers, self.context.settings, self.rejections, self._in_flight)
                route = self._route(scope, call)
                authorize(key, route.scope)
                # Looked at here, since hardly any request needs more, and a call would cost more than the look.
                if route.takes is None or scope["query_string"] or not CHECKED.isdisjoint(headers):
                    await check_declared(route, call)
                answer = await route.handler(call)
            except Exception as error:  # noqa: BLE001 - every error has an answer
                answer = refused(refusal_of(error))
            if type(answer) is Answer:
                await respond(answer, scope, send)
            else:
                await deliver(answer, call, send)
        finally:
            self._in_flight -= 1

    def _route(self, scope: AsgiScope, call: Call) -> Route:
        """Find what is asked for."""
        path, root, method = scope["path"], scope.get("root_path"), scope["method"]
        if root:
            path = _below(root, path)
        methods, call.path_names = self._paths.find(path) or (_NOTHING, _NOTHING)
        route: Route | None = methods.get(method)
        if route is None:
            raise _not_here(method, methods)
        return route


def admit(
    scope: AsgiScope, headers: Mapping[bytes, bytes], settings: ApiSettings, rejections: Rejections, in_flight: int
) -> ApiKey:
    """Say with which key a request comes, or refuse it at the door."""
    _refuse_excess(scope, headers, settings.limits, in_flight)
    if len(headers) < len(scope["headers"]) or not _is_host(headers.get(b"host")):
        _refuse_ambiguity(scope, headers)
    refuse_strangers(headers, settings)
    try:
        return identify(scope, headers, settings)
    except Refusal as refusal:
        rejections.add(refusal.code, (scope.get("client") or ("unknown",))[0])
        raise


def _by_path(routes: Sequence[Route]) -> dict[str, dict[str, Route]]:
    """Gather the methods of each path."""
    paths: dict[str, dict[str, Route]] = {}
    for route in routes:
        methods = paths.setdefault(route.path, {})
        if route.method in methods:
            raise ValueError(f"{route.method} {route.path} is described twice")
        methods[route.method] = route
    for methods in paths.values():
        if "GET" in methods and methods["GET"].answers_head:
            methods["HEAD"] = methods["GET"]
    return paths


def _below(root: str, path: str) -> str:
    """Give our own part of a path: who mounts us leaves theirs in front of it, and a proxy may have taken it away."""
    root = root.rstrip("/")
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path


def _not_here(method: str, methods: Mapping[str, Route]) -> Refusal:
    if not methods:
        return Refusal(404, "not_found", "there is nothing here", fix="see /docs for what there is")
    allowed = ", ".join(sorted(methods))
    detail = f"{method} is not possible here; {allowed} are"
    return Refusal(405, "method_not_allowed", detail, headers={"Allow": allowed})


def _refuse_excess(scope: AsgiScope, headers: Mapping[bytes, bytes], limits: Limits, in_flight: int) -> None:
    if in_flight > limits.in_flight:
        raise too_busy("too many requests are under way")
    address = scope.get("raw_path") or scope["path"].encode()
    if len(address) + len(scope["query_string"]) > limits.url_bytes:
        raise Refusal(414, "url_too_long", f"the address is longer than {limits.url_bytes} bytes")
    pairs = scope["headers"]
    if len(pairs) > limits.header_count or sum(map(len, chain.from_iterable(pairs))) > limits.header_bytes:
        allowed = f"{limits.header_count} headers of {limits.header_bytes} bytes together are allowed"
        raise Refusal(431, "headers_too_large", f"too many or too long headers; {allowed}")
    length = headers.get(b"content-length")
    if length is not None and not (length.isdigit() and int(length) <= limits.body_bytes):
        detail = f"the body is larger than {limits.body_bytes} bytes"
        raise Refusal(413, "too_large", detail, fix="send less at once")
    if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
        raise Refusal(415, "unsupported_media_type", "compressed bodies are not taken", fix="send it plain")


def _refuse_ambiguity(scope: AsgiScope, headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request without a host, with a wrong one (RFC 9112, 3.2), or with two values where one is read."""
    host = headers.get(b"host")
    if host is None:
        if scope.get("http_version") == "1.1":
            raise Refusal(400, "invalid_http", "the header 'Host' is missing")
    elif not _is_host(host):
        raise Refusal(400, "invalid_http", "the header 'Host' is no name or address of a server")
    if len(headers) < len(scope["headers"]):
        names = [name for name, _ in scope["headers"] if name in _SINGLE]
        for name in names:
            if names.count(name) > 1:
                raise Refusal(400, "invalid_http", f"the header '{name.decode().title()}' stands twice; send it once")


@lru_cache(maxsize=64)
def _is_host(host: bytes | None) -> bool:
    return host is not None and _HOST.fullmatch(host) is not None


async def _serve_other(scope: AsgiScope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _live(receive, send)
    else:
        # No route speaks anything else, so nothing else needs a key: it ends here.
        await receive()
        await send({"type": "websocket.close", "code": 1008})


async def _live(receive: Receive, send: Send) -> None:
    """Take part in a server's start and stop, in which we have nothing to do."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
