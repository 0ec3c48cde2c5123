"""One connection to a server: how it is made, and the one exchange that may be under way on it."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from ipaddress import ip_address
from typing import Final, cast

import httptools

from rota.lean import httpx
from rota.sockets import LARGEST_ANSWER, LARGEST_HEAD, LONGEST_SECONDS, notice_silence_of

#: How long the first address of a host is tried before the next one is tried beside it.
HEAD_START_SECONDS: Final = 0.25
_INFORMATIONAL: Final = range(100, 200)


class SilentError(Exception):
    """The other side hung up without a word."""


Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


class Line(asyncio.Protocol):
    """One connection, and the one exchange that may be under way on it."""

    def __init__(self) -> None:
        self.used_at = 0.0
        self.may_be_kept = True
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._patience: asyncio.Timeout | None = None
        self._seconds: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._is_silent = True
        self._has_head = False
        self._has_end = False
        self._is_answered = False
        self._received = 0
        self._until = math.inf

    async def ask(self, message: bytes, seconds: float | None) -> Answer:
        """Send a message and wait for the answer, for so many seconds from one piece of it to the next.

        All of it must come within these and `LONGEST_SECONDS`, and be no larger than `LARGEST_ANSWER`.
        """
        assert self._transport is not None
        assert self._answer is None
        self._begin()
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self._seconds = seconds
        if seconds is not None:
            self._until = loop.time() + seconds + LONGEST_SECONDS
        try:
            if not self.may_be_kept:
                raise SilentError("the connection was closed")
            self._transport.write(message)
            async with asyncio.timeout(seconds) as self._patience:
                return await self._answer
        except TimeoutError:
            told = f"no answer within {seconds:g} s" if self._is_silent else "the answer took too long to come"
            raise httpx.ReadTimeout(told) from None
        finally:
            self._answer = self._patience = None

    def abort(self) -> None:
        """Close at once."""
        self.may_be_kept = False
        if self._transport is not None:
            self._transport.abort()

    # What the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn through what to speak."""
        self._transport = cast("asyncio.Transport", transport)
        notice_silence_of(transport)

    def data_received(self, data: bytes) -> None:
        """Take a piece of the answer."""
        if self._answer is None:
            # Nobody has asked for anything.
            self.abort()
            return
        self._is_silent = False
        if self._patience is not None and self._seconds is not None:
            self._patience.reschedule(min(asyncio.get_running_loop().time() + self._seconds, self._until))
        # Looked at before the parser takes more: it keeps a head in pieces until it is whole.
        if self._received > LARGEST_ANSWER or (self._received > LARGEST_HEAD and not self._has_head):
            self._fail(httpx.RemoteProtocolError(f"the answer is too large: over {self._received} bytes"))
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx.RemoteProtocolError(f"the answer is no HTTP: {error}"))

    def eof_received(self) -> None:
        """Learn that the other side says no more."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that the connection is gone."""
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        self.may_be_kept = False
        if self._is_silent:
            self._fail(SilentError(f"the server closed the connection without an answer{_because(error)}"))
        elif self._has_head and not self._has_end and error is None:
            # An answer that does not say how long it is ends with its connection.
            self.on_message_complete()
        else:
            self._fail(httpx.RemoteProtocolError(f"the answer broke off{_because(error)}"))

    def _fail(self, error: Exception) -> None:
        self.may_be_kept = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # What the parser tells

    def on_message_begin(self) -> None:
        """See that nobody says more than was asked."""
        # More than one answer to one question: what else may come on this line belongs to nobody.
        self.may_be_kept = self.may_be_kept and not self._is_answered

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. What comes behind the body, a trailer, is none."""
        if self._has_head:
            return
        self._headers.append((name, value))
        self._has_end = self._has_end or name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        """Learn that the head is whole."""
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Hand over the answer."""
        status = self._parser.get_status_code()
        if status in _INFORMATIONAL:
            self._headers, self._has_head, self._has_end = [], False, False
            return
        self.may_be_kept = self.may_be_kept and self._parser.should_keep_alive()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, self._headers, b"".join(self._body)))
        self._headers, self._body, self._is_answered = [], [], True


async def connected(host: str, port: int, context: ssl.SSLContext | None) -> Line:
    """Connect to a host, at whichever of its addresses answers first; each next one is tried a little later."""
    addresses = await _addresses(host, port)
    tries: list[asyncio.Task[Line]] = []
    failures: list[BaseException] = []
    try:
        for address in addresses:
            tries.append(asyncio.ensure_future(_connect(address, host, port, context)))
            line = await _first(tries, failures, None if address == addresses[-1] else HEAD_START_SECONDS)
            if line is not None:
                return line
        raise failures[0]
    finally:
        for one in tries:
            one.add_done_callback(_hang_up)
            one.cancel()


async def _first(tries: list[asyncio.Task[Line]], failures: list[BaseException], seconds: float | None) -> Line | None:
    """Wait until one of some tries has made it, for so many seconds, or until the last one has failed."""
    until = None if seconds is None else asyncio.get_running_loop().time() + seconds
    while tries:
        left = None if until is None else max(until - asyncio.get_running_loop().time(), 0.0)
        done, _ = await asyncio.wait(tries, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            break
        for one in done:
            tries.remove(one)
            error = one.exception()
            if error is None:
                return one.result()
            failures.append(error)
    return None


async def _connect(address: str, host: str, port: int, context: ssl.SSLContext | None) -> Line:
    name = None if context is None else host
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(Line, address, port, ssl=context, server_hostname=name)
    return line


def _hang_up(one: asyncio.Task[Line]) -> None:
    """Close the connection of one who came second."""
    if not one.cancelled() and one.exception() is None:
        one.result().abort()


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _because(error: Exception | None) -> str:
    return "" if error is None else f": {error}"
