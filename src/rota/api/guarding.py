"""The HTTP protocol of one connection: what a caller may send, and in which order it is answered.

uvicorn's protocol reads a request's head for as long and as much as it comes; this one does not. All bytes of a request
that are not body (its head, chunk sizes and chunk extensions) have one limit. Fields behind a chunked body (trailers)
are refused, since they would count as headers. `deadlines` says how slow a caller may be, `connections` what is done
when there are too many connections or bytes, and `connection_end` how a connection ends.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, ClassVar, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from rota.api.auth import AUTHENTICATED
from rota.api.connection_end import EndingProtocol
from rota.api.connections import TOO_MANY_BYTES, TOO_MANY_CONNECTIONS, Connections, source_of
from rota.api.deadlines import Timeouts
from rota.api.errors import Refusal
from rota.api.packing import PackingTransport
from rota.api.receiving import CYCLE
from rota.api.rejections import Rejections
from rota.api.replying import knows
from rota.api.settings import Limits

#: A read of this size or less is not counted while its request is under way: nearly all requests are smaller.
_SMALL_BYTES: Final = 16_384
#: The bytes around a chunk of 16 to 255 bytes: its size, and two ends of line.
_CHUNK_BYTES: Final = 6


class _ParserStopped(Exception):
    """Ends the parsing of what came in."""


class GuardedProtocol(EndingProtocol):
    """One connection. Subclassed for each server, with its limits."""

    can_reply: ClassVar[bool] = knows(RequestResponseCycle)

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self._has_begun = False
        #: The request that is being answered; others that came behind it are in the pipeline.
        self._running: RequestResponseCycle | None = None
        #: Bytes of the request being read that are not body.
        self._other_bytes = 0
        # Both limits together and room for the words between: what is just beyond a limit gets its own answer.
        self._most_other_bytes = 2 * (self.limits.header_bytes + self.limits.url_bytes)
        #: Why the parser was stopped, if we stopped it.
        self._complaint: Refusal | None = None
        #: Whether the connection stays open once the request being read has come whole; None if that is decided.
        self._stays_open: bool | None = None
        self.is_authenticated = False
        self.held_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a new connection, and expect a request of it."""
        # So that `pause_writing` is called for whatever the system does not take at once.
        transport.set_write_buffer_limits(0)
        super().connection_made(cast("asyncio.Transport", PackingTransport(transport, self.loop)))
        self.source = source_of(self.client[0]) if self.client else ""
        if self.registry.enter(self):
            self._expect(self.timeouts.head.total_seconds(), self._is_late)
        else:
            self.evict(TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection, and tell the request under way, of which uvicorn knows only if no other is behind it."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        self._running = None
        self.registry.leave(self)

    def data_received(self, data: bytes) -> None:
        """Read on, unless there is no end to it."""
        if self._is_deaf:
            self._drop(data)
            return
        self._other_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ignore_upgrade()
            return
        except httptools.HttpParserError:
            self._refuse(self._complaint or Refusal(400, "invalid_http", "this is not HTTP/1.1"))
            return
        # Most requests come in one piece, and nothing has to be waited for.
        if self._has_begun or self._other_bytes or not self._is_in_head or len(data) > _SMALL_BYTES:
            self._read_part(len(data))

    def _ignore_upgrade(self) -> None:
        """Answer as if no upgrade were asked for: only HTTP/1.1 is spoken here. What comes behind is not read."""
        self._is_deaf, self.cycle.keep_alive = True, False
        headers = dict(self.headers)
        if b"transfer-encoding" in headers or int(headers.get(b"content-length", 0)):
            # The parser has taken the body for the other protocol; the application has not seen the request yet.
            self._is_in_head = False
            detail = "a request with a body cannot ask for another protocol"
            self._refuse(Refusal(400, "invalid_http", detail, fix="send it without 'Upgrade' (curl: --http1.1)"))

    def _read_part(self, size: int) -> None:
        """Have read a part of a request: hold the caller to the limits, and wait for the rest, but not for ever."""
        if self.transport.is_closing():
            return
        has_too_many = self._has_begun and len(self.headers) > self.limits.header_count
        if has_too_many or self._other_bytes > self._most_other_bytes:
            self._refuse(Refusal(431, "headers_too_large", "the head of the request is too large"))
        elif not self.registry.hold(self, size):
            if not self._has_begun and not self._other_bytes:
                # The request came whole with these bytes, and the application has not seen its end: it is refused too.
                self._is_in_head = False
            self._refuse(TOO_MANY_BYTES)
        elif self._due is None and not self._is_in_head:
            self._expect(self.timeouts.body.total_seconds(), self._is_late)
            self._prepare_close()
        elif self._due is None and self._has_begun:
            self._expect(self.timeouts.head.total_seconds(), self._is_late)

    def _prepare_close(self) -> None:
        """Have the connection closed if a request that may have no end is answered before it has come whole."""
        headers = dict(self.headers)
        if b"transfer-encoding" in headers or int(headers.get(b"content-length", 0)) > self.limits.body_bytes:
            self._stays_open, self.cycle.keep_alive = self.cycle.keep_alive, False
            self.transport.on_close = self._end

    def on_message_begin(self) -> None:
        """Begin to read a request's head."""
        super().on_message_begin()
        self._has_begun = True
        # Only now: an empty line is no request, and whoever sends nothing else rests.
        if self._is_idle:
            self._be_content()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; behind a chunked body there may be none."""
        if not self._is_in_head:
            self._complain(Refusal(400, "invalid_http", "fields behind the body (trailers) are not taken"))
        # As uvicorn does, without a call for each field.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Have a request's head."""
        super().on_headers_complete()
        self._is_in_head = self._has_begun = False
        self._due = None
        if not self.pipeline:
            self._running = self.cycle
        elif len(self.pipeline) > self.limits.pipelined:
            self._complain(Refusal(429, "too_many_requests", "too many requests were sent ahead of their answers"))
        if self.can_reply:
            # The application has not begun: that is for the loop's next turn.
            self.scope[CYCLE] = self.cycle  # type: ignore[typeddict-unknown-key]

    def on_chunk_header(self) -> None:
        """Leave out of the count what every chunk needs: small chunks are allowed, long extensions are not."""
        self._other_bytes -= _CHUNK_BYTES

    def on_body(self, body: bytes) -> None:
        """Have a part of a body."""
        self._other_bytes -= len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Have a whole request."""
        super().on_message_complete()
        self._is_in_head = True
        self._other_bytes = 0
        self._due = None
        if self._stays_open is not None:
            self.cycle.keep_alive, self._stays_open = self._stays_open, None
            self.transport.on_close = None
        if self.cycle.response_complete:
            self._be_idle()

    def shutdown(self) -> None:
        """Close after the answer to the request under way, if there is one."""
        super().shutdown()
        if self._stays_open is not None:
            self._stays_open = False

    def on_response_complete(self) -> None:
        """Have answered: go on with the next request, or expect one; whoever is still sending has to finish."""
        if AUTHENTICATED in self.scope:
            self.is_authenticated = True
        if self.pipeline or self.transport.is_closing():
            if self.pipeline:
                self._running = self.pipeline[-1][0]
            # What was answered came whole, and the next one has a time of its own if it did not.
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.held_bytes:
            self.registry.release(self)
            self.cycle.body = bytearray()
        if self._is_deaf:
            if self._last_words is not None:
                self._say(self._last_words)
            return
        self.flow.resume_reading()
        if self.cycle.more_body:
            self._expect(self.timeouts.linger.total_seconds(), self.transport.close)
        elif self._due is None:
            self._be_idle()

    def _be_idle(self) -> None:
        self._expect(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self._is_idle = True

    def _is_late(self) -> None:
        self._refuse(Refusal(408, "too_slow", "the request did not arrive in time"))

    def _complain(self, refusal: Refusal) -> None:
        """Stop the parser; `data_received` gives the refusal."""
        self._complaint = refusal
        # Not the refusal itself: it is kept, and would keep this connection in memory with its traceback.
        raise _ParserStopped


def guarded(limits: Limits, timeouts: Timeouts, rejections: Rejections) -> type[GuardedProtocol]:
    """Make the protocol of one server."""
    # Files and the store need descriptors too; without one, nobody could be let in and nobody be sent away.
    most = min(timeouts.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)
    registry = Connections(limits, most, timeouts.connections_from_one)
    names = {"limits": limits, "timeouts": timeouts, "registry": registry, "rejections": rejections}
    return type("ServerProtocol", (GuardedProtocol,), names)
