"""Requests and responses: a thin layer over ASGI, without a framework.

Routes get a `Request` and return a `Response`, or a `StreamResponse` whose body is made while it is sent. Where the
server below is our own, bodies and responses bypass ASGI (`server.fast_io`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from rota.api.context import Context
from rota.api.errors import HttpError, body_too_large, http_error_of, invalid, malformed
from rota.api.headers import surface_of
from rota.api.json_body import LARGE_BYTES, decode, decode_body, did_you_mean
from rota.api.server.fast_io import COMMON_HEADERS, CYCLE, buffered_body, write_response
from rota.api.sessions import SESSION
from rota.api.settings import ApiKey
from rota.api.value_errors import wrong_value
from rota.engine import Engine
from rota.ports.client import Actor

AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

T = TypeVar("T")
Q = TypeVar("Q", bound=msgspec.Struct)
_encoder: Final = msgspec.json.Encoder()


@dataclass(slots=True)
class Response:
    """A complete response."""

    body: bytes
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    media: str = JSON
    #: The form that the body was encoded from, if it is JSON.
    form: object = None


@dataclass(slots=True)
class StreamResponse:
    """A response whose body is made while it is sent."""

    chunks: AsyncGenerator[bytes, None]
    media: str
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class Request:
    """One HTTP request, with the context that all routes share."""

    __slots__ = ("_is_received", "_query", "_receive", "context", "headers", "key", "path_params", "scope")

    def __init__(
        self,
        scope: AsgiScope,
        receive: Receive,
        context: Context,
        headers: Mapping[bytes, bytes],
        key: ApiKey,
        path_params: Mapping[str, str],
    ) -> None:
        self.scope = scope
        self._receive = receive
        self._is_received = False
        self._query: msgspec.Struct | None = None
        self.context = context
        self.headers = headers
        self.key = key
        self.path_params = path_params

    @property
    def engine(self) -> Engine:
        return self.context.engine

    @property
    def actor(self) -> Actor:
        """The caller's name, address and surface, for the ledger."""
        client = self.scope.get("client")
        return Actor(self.key.name, client[0] if client else "", surface_of(self.headers))

    @property
    def caller(self) -> str:
        """The token and address whose streams are counted together."""
        client = self.scope.get("client")
        return f"{self.engine.namespace}/{self.key.name} {client[0] if client else ''}"

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    def header(self, name: bytes) -> str | None:
        """Return a header; text that is not ASCII is read as UTF-8."""
        value = self.headers.get(name)
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            label = name.decode()
            raise invalid([(label, "this header is not UTF-8")]) from None

    async def body(self) -> bytes:
        """Read the body, unless it is too large. The server enforces the deadline (`server.deadlines`)."""
        body, limits = buffered_body(self.scope), self.context.settings.limits
        if body is None:
            return await self._receive_body(limits.body_bytes_at(self.path))
        if len(body) > limits.body_bytes and len(body) > limits.body_bytes_at(self.path):
            raise body_too_large(limits.body_bytes_at(self.path))
        return body

    async def _receive_body(self, most_bytes: int) -> bytes:
        if self._is_received:
            return b""
        parts = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise malformed("the request ended before its body did")
            parts += message.get("body", b"")
            if len(parts) > most_bytes:
                raise body_too_large(most_bytes)
            if not message.get("more_body"):
                self._is_received = True
                return bytes(parts)

    async def read(self, form: type[T]) -> T:
        """Decode the JSON body; a large one off the event loop."""
        body, limits = await self.json(), self.context.settings.limits
        return decode(body, form, limits) if len(body) <= LARGE_BYTES else await decode_body(body, form, limits)

    async def read_or(self, form: type[T], default: T) -> T:
        """Decode the JSON body; an empty one stands for the default."""
        body = await self.body()
        if not body:
            return default
        self.require_json()
        return await decode_body(body, form, self.context.limits)

    def json(self) -> Awaitable[bytes]:
        """Read a body that must be JSON."""
        self.require_json()
        return self.body()

    def require_json(self) -> None:
        """Refuse a body of another media type.

        This also keeps pages of other sites from submitting jobs: a browser sends this type only after a preflight.
        """
        content_type = self.headers.get(b"content-type", b"")
        if content_type == b"application/json":
            return
        media = content_type.split(b";")[0].strip().lower()
        if media != b"application/json" and not media.endswith(b"+json"):
            raise HttpError(
                415, "unsupported_media_type", "the body must be JSON", fix="send 'Content-Type: application/json'"
            )

    def query(self, form: type[Q]) -> Q:
        """Decode the query string."""
        if type(self._query) is form:
            return self._query
        values: dict[str, Any] = {}
        try:
            pairs = parse_qsl(self.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            raise invalid([("query", "the query is not UTF-8")]) from None
        # Not msgspec.structs.fields: it evaluates all annotations on every call, which took longer than the store.
        known = form.__struct_encode_fields__
        for name, value in pairs:
            if name not in known:
                raise invalid([(name[:100], f"unknown query parameter{did_you_mean(name, list(known))}")])
            if name in values:
                raise invalid([(name, "this query parameter is repeated; send it once")])
            values[name] = value
        try:
            self._query = query = msgspec.convert(values, form, strict=False)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$.")
            name = place.rstrip("`")
            types = {one.encode_name: one.type for one in msgspec.structs.fields(form)}
            raise invalid([(name or "query", wrong_value(text, values.get(name), types.get(name), name))]) from None
        return query

    async def abandoned(self) -> None:
        """Wait until the caller has disconnected, its access has ended, or the server stops.

        Only after the body was read.
        """
        ends = [asyncio.ensure_future(end) for end in (self.context.closing.wait(), self._disconnected())]
        expires_at = self.scope.get(SESSION) or self.key.expires_at
        if self.key.token_id or expires_at is not None:
            ends.append(asyncio.ensure_future(self.context.tokens.end_of(self.key.token_id, expires_at)))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def json_response(value: object, status: int = 200, **headers: str) -> Response:
    named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return Response(_encoder.encode(value), status, named, JSON, value)


def empty_response(status: int = 204) -> Response:
    return Response(b"", status, media="")


def problem_response(error: HttpError) -> Response:
    headers = [(name.lower().encode(), text.encode()) for name, text in error.headers.items()]
    return Response(_encoder.encode(error.problem()), error.status, headers, PROBLEM)


async def send_response(response: Response, scope: AsgiScope, send: Send) -> None:
    """Send a complete response."""
    # Removed from the scope, which it refers to: the cycle would be left to the garbage collector.
    cycle = scope.pop(CYCLE, None)
    body, headers = response.body, response.headers
    if cycle is not None and write_response(cycle, response.status, headers, response.media, body):
        return
    sent = [*COMMON_HEADERS, (b"content-length", b"%d" % len(body)), *headers]
    if response.media:
        sent.append((b"content-type", response.media.encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def send_stream(response: StreamResponse, request: Request, send: Send) -> None:
    """Send a stream. Its first chunk is made before the head is sent, so that an error still gets its status."""
    request.scope.pop(CYCLE, None)
    try:
        request.context.streams.enter(request.caller)
    except HttpError as error:
        await send_response(problem_response(error), request.scope, send)
        return
    try:
        has_body = request.scope["method"] != "HEAD"
        try:
            first = await anext(response.chunks, None) if has_body else None
        except Exception as error:  # noqa: BLE001 - every error has a response
            await send_response(problem_response(http_error_of(error)), request.scope, send)
            return
        headers = [*COMMON_HEADERS, (b"content-type", response.media.encode()), *response.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if first is not None:
            await send({"type": "http.response.body", "body": first, "more_body": True})
            await _send_chunks(response, request, send)
        await send({"type": "http.response.body", "body": b""})
    finally:
        request.context.streams.leave(request.caller)


async def _send_chunks(response: StreamResponse, request: Request, send: Send) -> None:
    """Send chunk after chunk until there are no more, or until the caller has disconnected."""
    abandoned = asyncio.ensure_future(request.abandoned())
    try:
        while True:
            chunk = asyncio.ensure_future(anext(response.chunks, None))
            await asyncio.wait((chunk, abandoned), return_when=asyncio.FIRST_COMPLETED)
            if not chunk.done():
                chunk.cancel()
                await asyncio.wait((chunk,))
                return
            data = chunk.result()
            if data is None:
                return
            await send({"type": "http.response.body", "body": data, "more_body": True})
    except Exception as error:  # noqa: BLE001 - an error of any kind ends the stream and is logged
        # Too late for an error response: the stream ends, and the client reconnects.
        http_error_of(error)
    finally:
        abandoned.cancel()
        await response.chunks.aclose()
