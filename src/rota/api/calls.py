"""One request and its answer, as the routes see them: plain ASGI below, no framework's objects in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from rota.api.cancels import Cancels
from rota.api.counting import Counting
from rota.api.errors import Refusal, invalid, malformed, too_busy
from rota.api.large_bodies import read_large
from rota.api.live import Live
from rota.api.reading import meant
from rota.api.receiving import whole_body
from rota.api.rejections import Rejections
from rota.api.settings import ApiKey, ApiSettings, Limits
from rota.engine import Engine
from rota.ports.faces import Actor
from rota.telemetry.metrics import Metrics
from rota.wire.kinds import Kinds

AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

T = TypeVar("T")
Q = TypeVar("Q", bound=msgspec.Struct)
_encoder: Final = msgspec.json.Encoder()


class Streams:
    """Counts the open streams, all of them and by caller: each holds a connection for as long as it likes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()

    def enter(self, caller: str) -> None:
        """Count a stream of a caller, or refuse it."""
        limits = self._limits
        if self._open.total() >= limits.streams:
            raise too_busy(f"{limits.streams} streams are open already")
        if self._open[caller] >= limits.streams_per_caller:
            raise too_busy(f"{limits.streams_per_caller} streams of yours are open already; close one")
        self._open[caller] += 1

    def leave(self, caller: str) -> None:
        """Count a stream no longer."""
        self._open[caller] -= 1
        if not self._open[caller]:
            del self._open[caller]


@dataclass
class Context:
    """What all routes share."""

    engine: Engine
    settings: ApiSettings
    #: Set when the server is to stop: whoever waits for something is answered at once.
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    #: What goes on after its request was answered.
    errands: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.started_at = self.engine.clock()
        self.streams = Streams(self.limits)
        self.counting = Counting(self.engine, self.errands)
        self.live = Live(self.engine, self.counting)
        self.kinds = Kinds()
        self.rejections = Rejections()
        self.metrics = Metrics(clock=self.engine.clock)
        #: Ends the counting of what happens.
        self.stop_metrics = self.engine.telemetry.listen(self.metrics.heard)
        self.cancels = Cancels()
        self.stop_cancels = self.engine.telemetry.listen(self.cancels.heard)
        self.describe: Callable[[], dict[str, Any]] = dict

    @cached_property
    def document(self) -> dict[str, Any]:
        """The published description, made of all routes when it is first asked for."""
        return self.describe()

    @property
    def limits(self) -> Limits:
        """How much is too much."""
        return self.settings.limits


@dataclass(slots=True)
class Answer:
    """An answer that is ready."""

    body: bytes
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    media: str = JSON


@dataclass(slots=True)
class Stream:
    """An answer that is made while it is sent."""

    chunks: AsyncGenerator[bytes, None]
    media: str
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class Call:
    """One request."""

    __slots__ = ("_is_received", "_query", "_receive", "context", "headers", "key", "path_names", "scope")

    def __init__(
        self,
        scope: AsgiScope,
        receive: Receive,
        context: Context,
        headers: Mapping[bytes, bytes],
        key: ApiKey,
        path_names: Mapping[str, str],
    ) -> None:
        self.scope = scope
        self._receive = receive
        self._is_received = False
        self._query: msgspec.Struct | None = None
        self.context = context
        self.headers = headers
        self.key = key
        self.path_names = path_names

    @property
    def engine(self) -> Engine:
        """The verbs."""
        return self.context.engine

    @property
    def actor(self) -> Actor:
        """Who asks, for the ledger."""
        client = self.scope.get("client")
        return Actor(self.key.name, client[0] if client else "")

    @property
    def caller(self) -> str:
        """Whose streams are counted together: those of one token from one address."""
        return f"{self.key.name} {self.actor.origin}"

    @property
    def path(self) -> str:
        """The path that was asked for."""
        return str(self.scope["path"])

    def header(self, name: bytes) -> str | None:
        """Give a header; text that is not ASCII is read as UTF-8."""
        value = self.headers.get(name)
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            label = name.decode()
            raise invalid([(label, "this header is not UTF-8")]) from None

    async def body(self) -> bytes:
        """Read the body, if it is not too large. That it comes in time is seen to by the server (`guarding`)."""
        body, limits = whole_body(self.scope), self.context.settings.limits
        if body is None:
            return await self._received(limits)
        if len(body) > limits.body_bytes:
            raise too_large(limits)
        return body

    async def _received(self, limits: Limits) -> bytes:
        if self._is_received:
            return b""
        parts = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise malformed("the request ended before its body did")
            parts += message.get("body", b"")
            if len(parts) > limits.body_bytes:
                raise too_large(limits)
            if not message.get("more_body"):
                self._is_received = True
                return bytes(parts)

    async def read(self, form: type[T]) -> T:
        """Read the body as a form; a large one off the loop."""
        return await read_large(await self.json(), form, self.context.limits)

    async def read_or(self, form: type[T], default: T) -> T:
        """Read the body as a form; an empty one stands for the default."""
        body = await self.body()
        if not body:
            return default
        self.must_be_json()
        return await read_large(body, form, self.context.limits)

    def json(self) -> Awaitable[bytes]:
        """Read a body that must be JSON."""
        self.must_be_json()
        return self.body()

    def must_be_json(self) -> None:
        """Refuse a body of another type."""
        # Also what keeps web pages of others from submitting: they may not send this type without asking first.
        said = self.headers.get(b"content-type", b"")
        if said == b"application/json":
            return
        media = said.split(b";")[0].strip().lower()
        if media != b"application/json" and not media.endswith(b"+json"):
            raise Refusal(
                415, "unsupported_media_type", "the body must be JSON", fix="send 'Content-Type: application/json'"
            )

    def query(self, form: type[Q]) -> Q:
        """Read the query as a form."""
        if type(self._query) is form:
            return self._query
        values: dict[str, Any] = {}
        try:
            pairs = parse_qsl(self.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            raise invalid([("query", "the query is not UTF-8")]) from None
        # Not by msgspec.structs.fields: it reads all annotations anew, which took longer than finding the page.
        known = form.__struct_encode_fields__
        for name, value in pairs:
            if name not in known:
                raise invalid([(name[:100], f"unknown query parameter{meant(name, list(known))}")])
            if name in values:
                raise invalid([(name, "this query parameter stands twice")])
            values[name] = value
        try:
            self._query = found = msgspec.convert(values, form, strict=False)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$.")
            raise invalid([(place.rstrip("`") or "query", text)]) from None
        return found

    async def gone(self) -> None:
        """Wait until the caller has gone or the server is to stop. Only after the body was read."""
        closing = asyncio.ensure_future(self.context.closing.wait())
        left = asyncio.ensure_future(self._disconnected())
        try:
            await asyncio.wait((closing, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            left.cancel()

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def too_large(limits: Limits) -> Refusal:
    """Refuse a body beyond the limit."""
    fix = "send less at once"
    return Refusal(413, "too_large", f"the body is larger than {limits.body_bytes} bytes", fix=fix)


def shown(value: object, status: int = 200, **headers: str) -> Answer:
    """Answer with a form."""
    named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return Answer(_encoder.encode(value), status, named)


def nothing(status: int = 204) -> Answer:
    """Answer without a word."""
    return Answer(b"", status, media="")


def refused(refusal: Refusal) -> Answer:
    """Answer with a refusal."""
    headers = [(name.lower().encode(), text.encode()) for name, text in refusal.headers.items()]
    return Answer(_encoder.encode(refusal.problem()), refusal.status, headers, PROBLEM)
