"""One HTTP/1.1 client connection, with at most one exchange under way."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from ipaddress import ip_address
from typing import Final, cast

import httptools

from rota._httpx import httpx
from rota.sockets import LARGEST_ANSWER, LARGEST_HEAD, LONGEST_SECONDS, detect_half_open_on

#: How long an address is tried before the next one is tried beside it.
HEAD_START_SECONDS: Final = 0.25
_INFORMATIONAL: Final = range(100, 200)


class NoResponseError(Exception):
    """The server closed the connection without a response."""


RawResponse = tuple[int, list[tuple[bytes, bytes]], bytes]


class ClientConnection(asyncio.Protocol):
    """A connection, and the exchange under way on it."""

    def __init__(self) -> None:
        self.used_at = 0.0
        self.is_reusable = True
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[RawResponse] | None = None
        self._timeout: asyncio.Timeout | None = None
        self._seconds: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._has_no_response = True
        self._has_head = False
        self._has_length = False
        self._is_complete = False
        self._received = 0
        self._deadline = math.inf

    async def exchange(self, message: bytes, seconds: float | None) -> RawResponse:
        """Send a request and wait for the response, at most `seconds` from one piece of it to the next.

        The whole response must arrive within `seconds` and `LONGEST_SECONDS`, and be no larger than `LARGEST_ANSWER`.
        """
        assert self._transport is not None
        assert self._response is None
        self._begin()
        loop = asyncio.get_running_loop()
        self._response = loop.create_future()
        self._seconds = seconds
        if seconds is not None:
            self._deadline = loop.time() + seconds + LONGEST_SECONDS
        try:
            if not self.is_reusable:
                raise NoResponseError("the connection was closed")
            self._transport.write(message)
            async with asyncio.timeout(seconds) as self._timeout:
                return await self._response
        except TimeoutError:
            problem = f"no response within {seconds:g} s" if self._has_no_response else "the response took too long"
            raise httpx.ReadTimeout(problem) from None
        finally:
            self._response = self._timeout = None

    def abort(self) -> None:
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        detect_half_open_on(transport)

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            # There is no exchange under way.
            self.abort()
            return
        self._has_no_response = False
        if self._timeout is not None and self._seconds is not None:
            self._timeout.reschedule(min(asyncio.get_running_loop().time() + self._seconds, self._deadline))
        # Checked before the parser gets more: it buffers an incomplete head.
        if self._received > LARGEST_ANSWER or (self._received > LARGEST_HEAD and not self._has_head):
            self._fail(httpx.RemoteProtocolError(f"the response is too large: over {self._received} bytes"))
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx.RemoteProtocolError(f"the response is not HTTP: {error}"))

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        self.is_reusable = False
        if self._has_no_response:
            self._fail(NoResponseError(f"the server closed the connection without a response{_because(error)}"))
        elif self._has_head and not self._has_length and error is None:
            # A response without a length ends with its connection.
            self.on_message_complete()
        else:
            self._fail(httpx.RemoteProtocolError(f"the response is incomplete{_because(error)}"))

    def _fail(self, error: Exception) -> None:
        self.is_reusable = False
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        # A second response to one request: the connection cannot be used again.
        self.is_reusable = self.is_reusable and not self._is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; ignore trailers."""
        if self._has_head:
            return
        self._headers.append((name, value))
        self._has_length = self._has_length or name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status in _INFORMATIONAL:
            self._headers, self._has_head, self._has_length = [], False, False
            return
        self.is_reusable = self.is_reusable and self._parser.should_keep_alive()
        if self._response is not None and not self._response.done():
            self._response.set_result((status, self._headers, b"".join(self._body)))
        self._headers, self._body, self._is_complete = [], [], True


async def open_connection(host: str, port: int, context: ssl.SSLContext | None) -> ClientConnection:
    """Connect to the first address of a host that answers; each next one is tried a little later (RFC 8305)."""
    addresses = await _addresses(host, port)
    attempts: list[asyncio.Task[ClientConnection]] = []
    failures: list[BaseException] = []
    try:
        for address in addresses:
            attempts.append(asyncio.ensure_future(_connect(address, host, port, context)))
            connection = await _first(attempts, failures, None if address == addresses[-1] else HEAD_START_SECONDS)
            if connection is not None:
                return connection
        raise failures[0]
    finally:
        for one in attempts:
            one.add_done_callback(_close_late)
            one.cancel()


async def _first(
    attempts: list[asyncio.Task[ClientConnection]], failures: list[BaseException], seconds: float | None
) -> ClientConnection | None:
    """Wait at most `seconds` until one attempt succeeds, or all have failed."""
    until = None if seconds is None else asyncio.get_running_loop().time() + seconds
    while attempts:
        left = None if until is None else max(until - asyncio.get_running_loop().time(), 0.0)
        done, _ = await asyncio.wait(attempts, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            break
        for one in done:
            attempts.remove(one)
            error = one.exception()
            if error is None:
                return one.result()
            failures.append(error)
    return None


async def _connect(address: str, host: str, port: int, context: ssl.SSLContext | None) -> ClientConnection:
    name = None if context is None else host
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(ClientConnection, address, port, ssl=context, server_hostname=name)
    return connection


def _close_late(one: asyncio.Task[ClientConnection]) -> None:
    """Close a connection that was made after another one succeeded."""
    if not one.cancelled() and one.exception() is None:
        one.result().abort()


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in infos))


def _because(error: Exception | None) -> str:
    return "" if error is None else f": {error}"
