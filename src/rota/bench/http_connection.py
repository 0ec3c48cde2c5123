"""A minimal HTTP/1.1 connection for the bench: kept open, one request at a time.

The Python client retries, also at another address. A bench needs the opposite: it must see every failure, and it must
use less CPU for a request than the server, or it measures itself.

If the server closes an idle connection, the next request on it would fail and be counted, though no deployment is at
fault; so a connection that was idle for a while is opened anew.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import SplitResult

import httptools

from rota.bench.targets import RequestFailed

#: Shorter than the idle timeout of servers.
IDLE_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0


class _ResponseReader(asyncio.Protocol):
    """Parses responses."""

    def __init__(self) -> None:
        self.waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_lost = False
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail("an answer that is not HTTP")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._fail("connection lost" if exc is None else f"connection lost ({type(exc).__name__})")

    def on_message_begin(self) -> None:
        self._body.clear()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self.is_lost = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result((self._parser.get_status_code(), b"".join(self._body)))

    def _fail(self, kind: str) -> None:
        self.is_lost = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(RequestFailed(kind))


class BenchConnection:
    """One caller's connection to the API."""

    def __init__(
        self, url: SplitResult, token: str = "", context: ssl.SSLContext | None = None, namespace: str = ""
    ) -> None:
        self._url = url
        self._secured = context if url.scheme == "https" else None
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        chosen = f"Rota-Namespace: {namespace}\r\n" if namespace else ""
        self._head = f"Host: {url.netloc.rpartition('@')[2]}\r\nUser-Agent: rota-bench\r\n{authorization}{chosen}"
        self._opened: tuple[asyncio.Transport, _ResponseReader] | None = None
        self._used_at = 0.0

    async def ask(
        self, method: str, path: str, body: bytes | None = None, *, accept: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send a request and give the status and body of the response; raise `RequestFailed` without one."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                transport, reader = await self._open()
                reader.waiter = asyncio.get_running_loop().create_future()
                transport.write(self._request(method, path, body, accept))
                response = await reader.waiter
        except TimeoutError:
            self.close()
            raise RequestFailed(f"no answer within {ANSWER_SECONDS:.0f} s") from None
        except BaseException:
            # Also when cancelled: a response that is still coming must not be taken for the next one.
            self.close()
            raise
        self._used_at = asyncio.get_running_loop().time()
        return response

    def close(self) -> None:
        if self._opened is not None:
            self._opened[0].abort()
            self._opened = None

    def _request(self, method: str, path: str, body: bytes | None, accept: str) -> bytes:
        content = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        target = self._url.path.rstrip("/") + path
        head = f"{method} {target} HTTP/1.1\r\n{self._head}Accept: {accept}\r\n{content}\r\n"
        return head.encode("ascii", "replace") + (body or b"")

    async def _open(self) -> tuple[asyncio.Transport, _ResponseReader]:
        loop = asyncio.get_running_loop()
        if self._opened is not None:
            if not self._opened[1].is_lost and loop.time() - self._used_at < IDLE_SECONDS:
                return self._opened
            self.close()
        host, secured = self._url.hostname or "127.0.0.1", self._secured
        port = self._url.port or (443 if secured else 80)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, reader = await loop.create_connection(_ResponseReader, host, port, ssl=secured)
        except TimeoutError:
            raise RequestFailed(f"no connection within {CONNECT_SECONDS:.0f} s") from None
        except ssl.SSLError as error:
            raise RequestFailed(f"no secure connection ({error.reason})") from None
        except OSError as error:
            raise RequestFailed(f"no connection ({type(error).__name__})") from None
        self._opened = (transport, reader)
        return self._opened
