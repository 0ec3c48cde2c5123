"""An httpx transport with a connection pool: HTTP/1.1 on asyncio, parsed by httptools.

httpx's own transport passes every request through three libraries: a claim of a hundred jobs spent 2 ms there, more
than everything else that a worker does for them. This one supports what the API needs and no more: whole messages,
kept connections, TLS. Its errors are those of httpx.

A connection whose response is late may be half-open: it is closed, and so are all idle ones. The server may close an
idle connection at the moment it is used again. Every request of the client is safe to repeat, so a request that got no
byte of a response on an idle connection is sent once more on a new one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from functools import partial
from typing import Final

from rota._httpx import httpx
from rota.client.connection import ClientConnection, NoResponseError, open_connection
from rota.tls import NO_FILES, ClientFiles

#: The most requests at a time, and how long an idle connection is kept. Servers keep theirs longer.
MOST_REQUESTS: Final = 20
KEPT_SECONDS: Final = 50.0

Origin = tuple[str, str, int]
_PORTS: Final = {"http": 80, "https": 443}
#: For a server that closes a new connection at once.
_REMEDIES: Final = {
    "http": "if it speaks TLS, write https://",
    "https": "if it asks for client certificates, set client_cert to one of its authority",
}


class PooledTransport(httpx.AsyncBaseTransport):
    """Sends requests over connections that are kept and used again."""

    def __init__(self, most: int = MOST_REQUESTS, tls: ClientFiles = NO_FILES) -> None:
        self._idle: defaultdict[Origin, list[ClientConnection]] = defaultdict(list)
        self._slots = asyncio.Semaphore(most)
        self._files = tls
        self._context: ssl.SSLContext | None = None
        self._is_closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and give the whole response."""
        message = _message(request, await request.aread())
        limits = request.extensions.get("timeout", {})
        try:
            async with asyncio.timeout(limits.get("pool")):
                await self._slots.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("all connections are busy") from None
        try:
            return await self._exchange(request, message, limits)
        finally:
            self._slots.release()

    async def _exchange(
        self, request: httpx.Request, message: bytes, limits: dict[str, float | None]
    ) -> httpx.Response:
        origin = _origin(request.url)
        connection = self._idle_connection(origin)
        if connection is not None:
            try:
                return await self._send(connection, origin, request, message, limits.get("read"))
            except NoResponseError:
                pass
        connection = await self._connect(origin, limits.get("connect"))
        try:
            return await self._send(connection, origin, request, message, limits.get("read"))
        except NoResponseError as error:
            raise httpx.RemoteProtocolError(f"{error}; {_REMEDIES[origin[0]]}") from None

    async def _send(
        self,
        connection: ClientConnection,
        origin: Origin,
        request: httpx.Request,
        message: bytes,
        seconds: float | None,
    ) -> httpx.Response:
        try:
            status, headers, body = await connection.exchange(message, seconds)
        except BaseException as error:
            # Also on cancellation: what still arrives on it belongs to no request.
            connection.abort()
            if isinstance(error, httpx.ReadTimeout):
                # The connection may be half-open, and so may the others.
                self._drop_idle()
            raise
        if any(name.lower() == b"content-encoding" and value.lower() != b"identity" for name, value in headers):
            connection.abort()
            raise httpx.RemoteProtocolError("the response is compressed, which was not requested")
        if connection.is_reusable and not self._is_closed:
            connection.used_at = asyncio.get_running_loop().time()
            self._idle[origin].append(connection)
        else:
            connection.abort()
        return httpx.Response(status, headers=headers, content=body, request=request)

    def _idle_connection(self, origin: Origin) -> ClientConnection | None:
        """Return the idle connection that was used last, so that the others can grow old and be closed."""
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        for connections in self._idle.values():
            while connections and connections[0].used_at <= oldest:
                connections.pop(0).abort()
        connections = self._idle[origin]
        while connections:
            connection = connections.pop()
            if connection.is_reusable:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin, seconds: float | None) -> ClientConnection:
        scheme, host, port = origin
        context = self._tls() if scheme == "https" else None
        try:
            async with asyncio.timeout(seconds) as limit:
                return await open_connection(host, port, context)
        except TimeoutError as error:
            reason = f"within {seconds} s" if limit.expired() else f": {error}"
            raise httpx.ConnectTimeout(f"no connection to {host}:{port} {reason}") from None
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(str(error) or type(error).__name__) from error

    def _tls(self) -> ssl.SSLContext:
        # Made when first needed: loading the trusted certificates takes longer than a hundred requests.
        if self._context is None:
            self._context = self._files.context(partial(httpx.create_ssl_context, trust_env=False))
        return self._context

    async def aclose(self) -> None:
        """Close the idle connections now, and the others after their exchange."""
        self._is_closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        for connections in self._idle.values():
            while connections:
                connections.pop().abort()


def _origin(url: httpx.URL) -> Origin:
    if url.scheme not in _PORTS:
        raise httpx.UnsupportedProtocol(f"{url}: an address begins with http:// or https://")
    return url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


def _message(request: httpx.Request, content: bytes) -> bytes:
    """Encode a request. Its length is in its headers already."""
    if request.method == "HEAD" or "transfer-encoding" in request.headers:
        raise httpx.LocalProtocolError("this transport sends whole messages only, and no HEAD")
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [name + b": " + value for name, value in request.headers.raw]
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise httpx.LocalProtocolError("a line break in a header: is there one in the token?")
    return b"\r\n".join([*lines, b"", content])
