"""The wire under the client: HTTP/1.1 on asyncio, read by httptools.

httpx's own wire is made for any loop and any protocol, and passes every request through three libraries: a claim of a
hundred jobs took 2 ms of it, more than everything else that a worker does for them. This one does what Rota's own API
needs and no more: whole messages, connections that are kept, TLS. What fails is told in httpx's words.

A connection whose answer does not come in time may be half-open: it is dropped, and with it all that nobody uses.

A connection that was kept may have been closed by the other side at the very moment it is used again. Every request of
Rota's client is safe to repeat, so one that was sent on such a connection and got not a byte back is sent once more.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from typing import Final

from rota.client.line import Line, SilentError, connected
from rota.lean import httpx

#: How many requests are under way at a time, and how long a connection is kept that nobody uses. Servers keep theirs
#: longer.
MOST_REQUESTS: Final = 20
KEPT_SECONDS: Final = 50.0

Origin = tuple[str, str, int]
_PORTS: Final = {"http": 80, "https": 443}


class Wire(httpx.AsyncBaseTransport):
    """Carries requests over connections that are kept and used again."""

    def __init__(self, most: int = MOST_REQUESTS, context: ssl.SSLContext | None = None) -> None:
        self._idle: defaultdict[Origin, list[Line]] = defaultdict(list)
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
            except SilentError:
                pass
        line = await self._connected(origin, limits.get("connect"))
        try:
            return await self._ask(line, origin, request, message, limits.get("read"))
        except SilentError as error:
            raise httpx.RemoteProtocolError(str(error)) from None

    async def _ask(
        self, line: Line, origin: Origin, request: httpx.Request, message: bytes, patience: float | None
    ) -> httpx.Response:
        try:
            status, headers, body = await line.ask(message, patience)
        except BaseException as error:
            # Also if nobody waits any more: nobody knows what is still to come on it.
            line.abort()
            if isinstance(error, httpx.ReadTimeout):
                # The connection may be half-open, and so may the others.
                self._drop_idle()
            raise
        if any(name.lower() == b"content-encoding" and value.lower() != b"identity" for name, value in headers):
            line.abort()
            raise httpx.RemoteProtocolError("the answer is compressed, which was not asked for")
        if line.may_be_kept and not self._is_closed:
            line.used_at = asyncio.get_running_loop().time()
            self._idle[origin].append(line)
        else:
            line.abort()
        return httpx.Response(status, headers=headers, content=body, request=request)

    def _kept(self, origin: Origin) -> Line | None:
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

    async def _connected(self, origin: Origin, patience: float | None) -> Line:
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
        self._drop_idle()

    def _drop_idle(self) -> None:
        for lines in self._idle.values():
            while lines:
                lines.pop().abort()


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
