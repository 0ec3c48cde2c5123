"""The HTTP/1.1 protocol of one connection: uvicorn's, with limits.

uvicorn reads a request's head without a limit of size or time. Here all bytes of a request that are not body (its head,
chunk sizes and chunk extensions) have one limit. Fields behind a chunked body (trailers) are refused, since they would
count as headers. `deadlines` limits the time, `connections` the number of connections and the bytes they hold.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, ClassVar, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from rota.api.auth import AUTHENTICATED
from rota.api.errors import HttpError
from rota.api.limits import RejectionCounts
from rota.api.server.connections import TOO_MANY_BYTES, TOO_MANY_CONNECTIONS, ConnectionRegistry, client_network
from rota.api.server.deadlines import ClosingProtocol, Timeouts
from rota.api.server.fast_io import CYCLE, CoalescingTransport, is_supported_cycle
from rota.api.settings import Limits

#: A read of this size or less is not counted while its request is under way: nearly all requests are smaller.
_SMALL_BYTES: Final = 16_384
#: The bytes around a chunk of 16 to 255 bytes: its size, and two ends of line.
_CHUNK_BYTES: Final = 6


class _ParserStopped(Exception):
    """Raised in a callback of the parser to stop it."""


class ApiProtocol(ClosingProtocol):
    """One connection. Subclassed for each server, with its limits."""

    uses_fast_io: ClassVar[bool] = is_supported_cycle(RequestResponseCycle)

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self._has_begun = False
        #: The request that is being answered; later ones are in the pipeline.
        self._current: RequestResponseCycle | None = None
        #: Bytes of the request being read that are not body.
        self._head_bytes = 0
        # More than both limits together: a request just beyond one of them gets the error of that limit instead.
        self._most_head_bytes = 2 * (self.limits.header_bytes + self.limits.url_bytes)
        #: Why a callback stopped the parser.
        self._parse_error: HttpError | None = None
        #: Whether the connection stays open once the request being read has arrived whole; None if that is decided.
        self._stays_open: bool | None = None
        self.is_authenticated = False
        self.held_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a new connection, and wait for its first request."""
        super().connection_made(cast("asyncio.Transport", CoalescingTransport(transport, self.loop)))
        self.source = client_network(self.client[0]) if self.client else ""
        # So that `pause_writing` is called for whatever the system does not take at once.
        transport.set_write_buffer_limits(0)
        if self.registry.enter(self):
            self._wait_for(self.timeouts.head.total_seconds(), self._on_request_late)
        else:
            self.evict(TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and end its request under way; uvicorn does so only if no other is behind it."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if self._current is not None and not self._current.response_complete:
            self._current.disconnected = True
            self._current.message_event.set()
        self._current = None
        self.registry.leave(self)

    def data_received(self, data: bytes) -> None:
        """Parse input, within the limits."""
        if self._discards_input:
            self._discard(data)
            return
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ignore_upgrade()
            return
        except httptools.HttpParserError:
            self._refuse(self._parse_error or HttpError(400, "invalid_http", "this is not HTTP/1.1"))
            return
        # Most requests arrive in one piece, and need no deadline.
        if self._has_begun or self._head_bytes or not self._is_in_head or len(data) > _SMALL_BYTES:
            self._read_part(len(data))

    def _ignore_upgrade(self) -> None:
        """Answer over HTTP/1.1 as if no upgrade were requested. Input behind the request is discarded."""
        self._discards_input, self.cycle.keep_alive = True, False
        headers = dict(self.headers)
        if b"transfer-encoding" in headers or int(headers.get(b"content-length", 0)):
            # The parser took the body for the other protocol; the application has not seen the request yet.
            self._is_in_head = False
            detail = "a request with a body cannot ask for another protocol"
            self._refuse(HttpError(400, "invalid_http", detail, fix="send it without 'Upgrade' (curl: --http1.1)"))

    def _read_part(self, size: int) -> None:
        """Check a part of a request against the limits, and set the deadline for the rest."""
        if self.transport.is_closing():
            return
        has_too_many = self._has_begun and len(self.headers) > self.limits.header_count
        if has_too_many or self._head_bytes > self._most_head_bytes:
            self._refuse(HttpError(431, "headers_too_large", "the head of the request is too large"))
        elif not self.registry.hold(self, size):
            if not self._has_begun and not self._head_bytes:
                # These bytes completed a request that the application has not seen: it is refused too.
                self._is_in_head = False
            self._refuse(TOO_MANY_BYTES)
        elif self._deadline is None and not self._is_in_head:
            self._wait_for(self.timeouts.body.total_seconds(), self._on_request_late)
            self._prepare_close()
        elif self._deadline is None and self._has_begun:
            self._wait_for(self.timeouts.head.total_seconds(), self._on_request_late)

    def _prepare_close(self) -> None:
        """Close after the response if it is sent before a request of unknown or excessive length has arrived whole."""
        headers = dict(self.headers)
        if b"transfer-encoding" in headers or int(headers.get(b"content-length", 0)) > self.limits.body_bytes:
            self._stays_open, self.cycle.keep_alive = self.cycle.keep_alive, False
            self.transport.on_close = self._finish

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun = True
        # Only now: empty lines are no request, and a connection that sends only those is idle.
        if self._is_idle:
            self._stop_waiting()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; refuse trailers."""
        if not self._is_in_head:
            self._stop_parser(HttpError(400, "invalid_http", "fields behind the body (trailers) are not accepted"))
        # As in uvicorn, without a call of the base class for each field.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._is_in_head = self._has_begun = False
        self._deadline = None
        if not self.pipeline:
            self._current = self.cycle
        elif len(self.pipeline) > self.limits.pipelined:
            self._stop_parser(
                HttpError(429, "too_many_requests", "too many requests were sent ahead of their responses")
            )
        if self.uses_fast_io:
            # The application starts in the next turn of the loop.
            self.scope[CYCLE] = self.cycle  # type: ignore[typeddict-unknown-key]

    def on_chunk_header(self) -> None:
        """Do not count what every chunk needs: small chunks are allowed, long extensions are not."""
        self._head_bytes -= _CHUNK_BYTES

    def on_body(self, body: bytes) -> None:
        self._head_bytes -= len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._head_bytes = 0
        self._deadline = None
        if self._stays_open is not None:
            self.cycle.keep_alive, self._stays_open = self._stays_open, None
            self.transport.on_close = None
        if self.cycle.response_complete:
            self._wait_for_request()

    def shutdown(self) -> None:
        """Close after the response to the request under way, if there is one."""
        super().shutdown()
        if self._stays_open is not None:
            self._stays_open = False

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one; a caller that is still sending gets a moment to finish."""
        if AUTHENTICATED in self.scope:
            self.is_authenticated = True
        if self.pipeline or self.transport.is_closing():
            if self.pipeline:
                self._current = self.pipeline[-1][0]
            # The answered request had arrived whole; the next one has its own deadline if it has not.
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.held_bytes:
            self.registry.release(self)
            self.cycle.body = bytearray()
        if self._discards_input:
            if self._final_error is not None:
                self._send_error(self._final_error)
            return
        self.flow.resume_reading()
        if self.cycle.more_body:
            self._wait_for(self.timeouts.linger.total_seconds(), self.transport.close)
        elif self._deadline is None:
            self._wait_for_request()

    def _wait_for_request(self) -> None:
        self._wait_for(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self._is_idle = True

    def _on_request_late(self) -> None:
        self._refuse(HttpError(408, "too_slow", "the request did not arrive in time"))

    def _stop_parser(self, error: HttpError) -> None:
        """Stop the parser; `data_received` sends the error."""
        self._parse_error = error
        # Not the error itself: it is stored, and its traceback would keep this connection in memory.
        raise _ParserStopped


def protocol_class(limits: Limits, timeouts: Timeouts, rejections: RejectionCounts) -> type[ApiProtocol]:
    """Make the class that uvicorn instantiates for each connection, with the limits and counters of one server."""
    # Files and the store need descriptors too; without a free one, a connection could not even be refused.
    most = min(timeouts.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)
    registry = ConnectionRegistry(limits, most, timeouts.connections_from_one)
    names = {"limits": limits, "timeouts": timeouts, "registry": registry, "rejections": rejections}
    return type("ServerProtocol", (ApiProtocol,), names)
