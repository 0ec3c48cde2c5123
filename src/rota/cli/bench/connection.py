"""A connection to load an API with: HTTP/1.1, kept open, one request at a time, and as little in between as can be.

The client of the house is made to be patient: it tries again, at another address, later. A bench wants the opposite.
It wants to see every failure, and it must spend less CPU on a request than the server, or it measures itself.

If the server closes a connection that rested, the next request would be lost on it and counted as a failure that no
deployment ever had; so one that has rested for a while is made anew.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import SplitResult

import httptools

from rota.cli.bench.targets import Trouble

#: Shorter than servers let a connection rest.
REST_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0


class _Answer(asyncio.Protocol):
    """Reads answers as they come."""

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
            self.waiter.set_exception(Trouble(kind))


class Connection:
    """One caller's way to the API."""

    def __init__(self, url: SplitResult, token: str = "") -> None:
        self._url = url
        self._secured = ssl.create_default_context() if url.scheme == "https" else None
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        self._head = f"Host: {url.netloc.rpartition('@')[2]}\r\nUser-Agent: rota-bench\r\n{authorization}"
        self._link: tuple[asyncio.Transport, _Answer] | None = None
        self._used_at = 0.0

    async def ask(
        self, method: str, path: str, body: bytes | None = None, *, accept: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send a request and give the status and the body of its answer; raise `Trouble` when there is none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                transport, answer = await self._linked()
                answer.waiter = asyncio.get_running_loop().create_future()
                transport.write(self._request(method, path, body, accept))
                found = await answer.waiter
        except TimeoutError:
            self.close()
            raise Trouble(f"no answer within {ANSWER_SECONDS:.0f} s") from None
        except BaseException:
            # Cancelled in the middle, too: what is still on its way must not be taken for the next answer.
            self.close()
            raise
        self._used_at = asyncio.get_running_loop().time()
        return found

    def close(self) -> None:
        """Let go of the connection."""
        if self._link is not None:
            self._link[0].abort()
            self._link = None

    def _request(self, method: str, path: str, body: bytes | None, accept: str) -> bytes:
        content = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        target = self._url.path.rstrip("/") + path
        head = f"{method} {target} HTTP/1.1\r\n{self._head}Accept: {accept}\r\n{content}\r\n"
        return head.encode("ascii", "replace") + (body or b"")

    async def _linked(self) -> tuple[asyncio.Transport, _Answer]:
        loop = asyncio.get_running_loop()
        if self._link is not None:
            if not self._link[1].is_lost and loop.time() - self._used_at < REST_SECONDS:
                return self._link
            self.close()
        host, secured = self._url.hostname or "127.0.0.1", self._secured
        port = self._url.port or (443 if secured else 80)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, answer = await loop.create_connection(_Answer, host, port, ssl=secured)
        except TimeoutError:
            raise Trouble(f"no connection within {CONNECT_SECONDS:.0f} s") from None
        except ssl.SSLError as error:
            raise Trouble(f"no secure connection ({error.reason})") from None
        except OSError as error:
            raise Trouble(f"no connection ({type(error).__name__})") from None
        self._link = (transport, answer)
        return self._link
