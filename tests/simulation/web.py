"""HTTP without sockets: requests travel over the simulated network to the hosts that serve the API.

A request is answered; or refused, because no process listens; or it has no answer, because the request or the answer
was lost, or the host crashed. It is served by a task in the server's process, so it ends with that process. A client
that stops waiting disconnects, and the server notices a little later, if the message is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

import httpx

from simulation.hosts import Host
from simulation.loop import Process, SimulatedLoop
from simulation.network import Network

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
Reach = Callable[[str], Awaitable[None]]

_HANG_UP: Final[Message] = {"type": "http.disconnect"}


class Listener:
    """Where a host serves: its process, what it serves, and the failpoints on the way."""

    def __init__(self, host: Host, app: App, failpoint: Reach) -> None:
        self.host = host
        self.process = host.process
        self.app = app
        self.failpoint = failpoint


class Exchange:
    """One request under way."""

    def __init__(self, request: httpx.Request, body: bytes, caller: Host, loop: SimulatedLoop) -> None:
        self.request = request
        self.caller = caller
        self.process: Process = loop.current()
        self.answer: asyncio.Future[httpx.Response] = loop.create_future()
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.inbox.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = b""

    @property
    def scope(self) -> Message:
        """What an application is told of the request."""
        url = self.request.url
        return {
            "type": "http",
            "method": self.request.method,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "headers": [(name.lower(), value) for name, value in self.request.headers.raw],
            "client": (self.caller.name, 0),
            "http_version": "1.1",
            "scheme": "http",
        }

    async def send(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message["headers"])
        else:
            self._body += message.get("body", b"")

    def response(self) -> httpx.Response:
        """Give the whole answer."""
        return httpx.Response(self._status, headers=self._headers, content=self._body, request=self.request)


class Web:
    """Carries requests between hosts."""

    def __init__(self, loop: SimulatedLoop, network: Network, names: Sequence[str]) -> None:
        self.urls = [f"http://{name}" for name in names]
        self._loop = loop
        self._network = network
        self._doors: dict[str, Listener] = {}

    def open(self, host: Host, app: App, failpoint: Reach) -> None:
        """Serve an application from a host, until its process ends."""
        self._doors[host.name] = Listener(host, app, failpoint)

    async def fetch(self, caller: Host, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for its answer, as long as it says."""
        body = b"".join([part async for part in _parts(request)])
        exchange = Exchange(request, body, caller, self._loop)
        timeouts = request.extensions.get("timeout", {})
        door = self._doors.get(request.url.host)
        self._send(exchange, door)
        try:
            async with asyncio.timeout(timeouts.get("read")):
                return await exchange.answer
        except TimeoutError:
            self._hang_up(exchange, door)
            raise httpx.ReadTimeout("no answer", request=request) from None
        except asyncio.CancelledError:
            self._hang_up(exchange, door)
            raise

    def _send(self, exchange: Exchange, door: Listener | None) -> None:
        network = self._network
        name = exchange.request.url.host
        if network.is_likely(network.conditions.request_loss) or network.is_cut(exchange.caller.name, name):
            return
        when = self._loop.time() + network.delay()
        if door is None or not door.process.is_alive:
            refusal = httpx.ConnectError("nobody listens", request=exchange.request)
            self._loop.call_at(when, _fail, exchange, refusal, context=exchange.process.context)
            return
        self._loop.call_at(when, self._arrive, exchange, door, context=door.process.context)

    def _arrive(self, exchange: Exchange, door: Listener) -> None:
        """Begin to serve, in the process of the server."""
        self._loop.create_task(self._serve(exchange, door), name=f"{exchange.request.method} {exchange.request.url}")

    async def _serve(self, exchange: Exchange, door: Listener) -> None:
        await door.failpoint("api.asked")
        await door.app(exchange.scope, exchange.inbox.get, exchange.send)
        await door.failpoint("api.answering")
        network = self._network
        if network.is_likely(network.conditions.reply_loss) or network.is_cut(door.host.name, exchange.caller.name):
            return
        when = self._loop.time() + network.delay()
        self._loop.call_at(when, _hear, exchange, context=exchange.process.context)

    def _hang_up(self, exchange: Exchange, door: Listener | None) -> None:
        network = self._network
        if door is not None and not network.is_cut(exchange.caller.name, door.host.name) and not self._loop.is_over:
            when = self._loop.time() + network.delay()
            self._loop.call_at(when, exchange.inbox.put_nowait, _HANG_UP, context=door.process.context)


def _hear(exchange: Exchange) -> None:
    if not exchange.answer.done():
        exchange.answer.set_result(exchange.response())


def _fail(exchange: Exchange, error: httpx.HTTPError) -> None:
    if not exchange.answer.done():
        exchange.answer.set_exception(error)


async def _parts(request: httpx.Request) -> AsyncIterator[bytes]:
    stream = request.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    async for part in stream:
        yield part


class SimulatedTransport(httpx.AsyncBaseTransport):
    """What an HTTP client on a host sends its requests through."""

    def __init__(self, web: Web, host: Host) -> None:
        self._web = web
        self._host = host

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        return await self._web.fetch(self._host, request)
