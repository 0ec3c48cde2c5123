"""The wire under the client: HTTP/1.1 on asyncio, read by httptools.

httpx's own wire is made for any loop and any protocol, and passes every request through three libraries: a claim of a
hundred jobs took 2 ms of it, more than everything else that a worker does for them. This one does what Rota's own API
needs and no more: whole messages, connections that are kept, TLS. What fails is told in httpx's words.

A connection that was kept may have been closed by the other side at the very moment it is used again. Every request of
Rota's client is safe to repeat, so one that was sent on such a connection and got not a byte back is sent once more.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from ipaddress import ip_address
from typing import Final, cast

import httptools

from rota.lean import httpx

#: How many requests are under way at a time, and how long a connection is kept that nobody uses. Servers keep theirs
#: longer.
MOST_REQUESTS: Final = 20
KEPT_SECONDS: Final = 50.0
#: How long the first address of a host is tried before the next one is tried beside it.
HEAD_START_SECONDS: Final = 0.25

Origin = tuple[str, str, int]
_PORTS: Final = {"http": 80, "https": 443}
_INFORMATIONAL: Final = range(100, 200)


class Wire(httpx.AsyncBaseTransport):
    """Carries requests over connections that are kept and used again."""

    def __init__(self, most: int = MOST_REQUESTS, context: ssl.SSLContext | None = None) -> None:
        self._idle: defaultdict[Origin, list[_Line]] = defaultdict(list)
        self._places = asyncio.Semaphore(most)
        self._context = context
        self._is_closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and give the whole answer."""
        message = _message(request, await request.aread())
        limits = request.extensions.get("timeout", {})
        try:
            async with asyncio.timeout(limits.get("pool")):
                await self._places.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("all connections are busy") from None
        try:
            return await self._carry(request, message, limits)
        finally:
            self._places.release()

    async def _carry(self, request: httpx.Request, message: bytes, limits: dict[str, float | None]) -> httpx.Response:
        origin = _origin(request.url)
        line = self._kept(origin)
        if line is not None:
            try:
                return await self._ask(line, origin, request, message, limits.get("read"))
            except _SilentError:
                pass
        line = await self._connected(origin, limits.get("connect"))
        try:
            return await self._ask(line, origin, request, message, limits.get("read"))
        except _SilentError as error:
            raise httpx.RemoteProtocolError(str(error)) from None

    async def _ask(
        self, line: _Line, origin: Origin, request: httpx.Request, message: bytes, patience: float | None
    ) -> httpx.Response:
        try:
            status, headers, body = await line.ask(message, patience)
        except BaseException:
            # Also if nobody waits any more: nobody knows what is still to come on it.
            line.abort()
            raise
        if line.may_be_kept and not self._is_closed:
            line.used_at = asyncio.get_running_loop().time()
            self._idle[origin].append(line)
        else:
            line.abort()
        return httpx.Response(status, headers=headers, content=body, request=request)

    def _kept(self, origin: Origin) -> _Line | None:
        """Give the connection that was used last: the others may rest, and grow old."""
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        for lines in self._idle.values():
            while lines and lines[0].used_at <= oldest:
                lines.pop(0).abort()
        lines = self._idle[origin]
        while lines:
            line = lines.pop()
            if line.may_be_kept:
                return line
            line.abort()
        return None

    async def _connected(self, origin: Origin, patience: float | None) -> _Line:
        scheme, host, port = origin
        context = self._tls() if scheme == "https" else None
        try:
            async with asyncio.timeout(patience) as limit:
                return await connected(host, port, context)
        except TimeoutError as error:
            told = f"within {patience} s" if limit.expired() else f": {error}"
            raise httpx.ConnectTimeout(f"no connection to {host}:{port} {told}") from None
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(str(error) or type(error).__name__) from error

    def _tls(self) -> ssl.SSLContext:
        # When it is first needed: to read all authorities that one may trust takes longer than a hundred requests.
        if self._context is None:
            self._context = httpx.create_ssl_context(trust_env=False)
        return self._context

    async def aclose(self) -> None:
        """Let go of the connections that nobody uses; of the others, when they have been used."""
        self._is_closed = True
        for lines in self._idle.values():
            while lines:
                lines.pop().abort()


class _SilentError(Exception):
    """The other side hung up without a word."""


Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


class _Line(asyncio.Protocol):
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

    async def ask(self, message: bytes, seconds: float | None) -> Answer:
        """Send a message and wait for the answer, for so many seconds from one piece of it to the next."""
        assert self._transport is not None
        assert self._answer is None
        self._begin()
        self._answer = asyncio.get_running_loop().create_future()
        self._seconds = seconds
        try:
            if not self.may_be_kept:
                raise _SilentError("the connection was closed")
            self._transport.write(message)
            async with asyncio.timeout(seconds) as self._patience:
                return await self._answer
        except TimeoutError:
            raise httpx.ReadTimeout(f"no answer within {seconds:g} s") from None
        finally:
            self._answer = self._patience = None

    def abort(self) -> None:
        """Close at once."""
        self.may_be_kept = False
        if self._transport is not None:
            self._transport.abort()

    # What the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            # Nobody has asked for anything.
            self.abort()
            return
        self._is_silent = False
        if self._patience is not None and self._seconds is not None:
            self._patience.reschedule(asyncio.get_running_loop().time() + self._seconds)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx.RemoteProtocolError(f"the answer is no HTTP: {error}"))

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        self.may_be_kept = False
        if self._is_silent:
            self._fail(_SilentError(f"the server closed the connection without an answer{_because(error)}"))
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
        # More than one answer to one question: what else may come on this line belongs to nobody.
        self.may_be_kept = self.may_be_kept and not self._is_answered

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))
        self._has_end = self._has_end or name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status in _INFORMATIONAL:
            self._headers, self._has_head, self._has_end = [], False, False
            return
        self.may_be_kept = self.may_be_kept and self._parser.should_keep_alive()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, self._headers, b"".join(self._body)))
        self._headers, self._body, self._is_answered = [], [], True


async def connected(host: str, port: int, context: ssl.SSLContext | None) -> _Line:
    """Connect to a host, at whichever of its addresses answers first; each next one is tried a little later."""
    addresses = await _addresses(host, port)
    tries: list[asyncio.Task[_Line]] = []
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


async def _first(
    tries: list[asyncio.Task[_Line]], failures: list[BaseException], seconds: float | None
) -> _Line | None:
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


async def _connect(address: str, host: str, port: int, context: ssl.SSLContext | None) -> _Line:
    name = None if context is None else host
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(_Line, address, port, ssl=context, server_hostname=name)
    return line


def _hang_up(one: asyncio.Task[_Line]) -> None:
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


def _origin(url: httpx.URL) -> Origin:
    if url.scheme not in _PORTS:
        raise httpx.UnsupportedProtocol(f"{url}: an address begins with http:// or https://")
    return url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


def _message(request: httpx.Request, content: bytes) -> bytes:
    """Write a request. Its length is in its headers already."""
    if request.method == "HEAD" or "transfer-encoding" in request.headers:
        raise httpx.LocalProtocolError("this wire carries whole messages only, and no HEAD")
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [name + b": " + value for name, value in request.headers.raw]
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise httpx.LocalProtocolError("a line break in a header: is there one in the token?")
    return b"\r\n".join([*lines, b"", content])
