"""A TCP proxy between a client and a server on this host, which tests can make fail as networks and load balancers do.

It runs on a loop and a thread of its own, so tests with and without a loop, and tests that start processes, use it
alike. Each method may be called from any thread and returns once it has taken effect.

    with Proxy(server.port) as proxy:
        store = await PostgresStore.open(proxy.through(dsn))
        proxy.swallow()

| method | what becomes of open connections | what becomes of new connections |
|---|---|---|
| `forward()` | the state of each stays as it is | carried |
| `reset()` | reset | accepted and reset |
| `cut()` | closed | carried |
| `lose_all()` | silent for good (half-open) | carried |
| `swallow()` | silent for good (half-open) | accepted and silent |
| `one_way()` | requests arrive, answers do not | the same |
| `delay(seconds)` | each piece arrives later | the same |
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Self

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_PIECE: Final = 65_536
_BACKLOG: Final = 256
#: How much later than the last one a connection is reset, and after how many it begins anew.
_MOMENT_SECONDS: Final = 0.000_02
_MOMENTS: Final = 20


class _Connection:
    """A connection of a client and the connection to the server that belongs to it."""

    def __init__(self, writers: list[asyncio.StreamWriter]) -> None:
        self.writers = writers
        self.carries_requests = True
        self.carries_answers = True

    def silence(self) -> None:
        self.carries_requests = self.carries_answers = False

    def close(self, *, with_reset: bool = False) -> None:
        for writer in self.writers:
            if with_reset:
                _reset(writer)
            else:
                writer.close()


class Proxy:
    """Stands between clients and a server. Where nothing is said it carries everything."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = 0
        #: How many connections were accepted so far.
        self.accepted = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Accepted, and not yet a stream: the proxy may be closed before the task of a connection takes its first step.
        self._unserved: set[socket.socket] = set()
        self._resets = self._swallows = self._drops_answers = False
        self._delay_seconds = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._listener.settimeout(0)
        self.port = self._listener.getsockname()[1]
        self._do(lambda: self._loop.add_reader(self._listener, self._accept))
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def through(self, url: str) -> str:
        """Return the URL that leads to the same server through this proxy."""
        return url.replace(f":{self.server_port}", f":{self.port}")

    def forward(self) -> None:
        """Carry new connections."""
        self._do(self._behave)

    def reset(self) -> None:
        """Reset what is open; accept new connections and reset them, as a load balancer without a server does."""

        def act() -> None:
            self._behave(resets=True)
            for one in tuple(self._connections):
                one.close(with_reset=True)

        self._do(act)

    def cut(self) -> None:
        """Close what is open."""

        def act() -> None:
            for one in tuple(self._connections):
                one.close()

        self._do(act)

    def lose_all(self) -> None:
        """Drop all further data of the open connections, as a router that has lost their state does."""

        def act() -> None:
            for one in self._connections:
                one.silence()

        self._do(act)

    def swallow(self) -> None:
        """Drop all further data of all connections, also of new ones."""

        def act() -> None:
            self._behave(swallows=True)
            for one in self._connections:
                one.silence()

        self._do(act)

    def one_way(self) -> None:
        """Carry requests to the server and no answers back."""

        def act() -> None:
            self._behave(drops_answers=True)
            for one in self._connections:
                one.carries_answers = False

        self._do(act)

    def delay(self, seconds: float) -> None:
        """Carry each piece this much later."""

        def act() -> None:
            self._delay_seconds = seconds

        self._do(act)

    def _behave(self, *, resets: bool = False, swallows: bool = False, drops_answers: bool = False) -> None:
        self._resets, self._swallows, self._drops_answers = resets, swallows, drops_answers

    def _do(self, act: Callable[[], None]) -> None:
        async def run() -> None:
            act()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _accept(self) -> None:
        raw, _ = self._listener.accept()
        self.accepted += 1
        if self._resets:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            # As a load balancer without a server does: at once, or a moment later, when the client sets up its end.
            time.sleep(self.accepted % _MOMENTS * _MOMENT_SECONDS)
            raw.close()
        else:
            self._unserved.add(raw)
            self._start(self._serve(raw))

    async def _serve(self, raw: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=raw)
        self._unserved.discard(raw)
        connection = _Connection([writer])
        self._connections.add(connection)
        if self._resets:
            # Accepted just before the reset, and not among those that it closed.
            connection.close(with_reset=True)
            return
        if self._swallows:
            connection.silence()
            await self._carry(reader, None, connection, is_request=True)
            return
        connection.carries_answers = not self._drops_answers
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.close()
            self._connections.discard(connection)
            return
        connection.writers.append(far_writer)
        self._start(self._carry(far_reader, writer, connection, is_request=False))
        await self._carry(reader, far_writer, connection, is_request=True)

    def _start(self, part: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(part)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter | None,
        connection: _Connection,
        *,
        is_request: bool,
    ) -> None:
        try:
            with suppress(ConnectionError):
                while data := await reader.read(_PIECE):
                    if self._delay_seconds:
                        await asyncio.sleep(self._delay_seconds)
                    carries = connection.carries_requests if is_request else connection.carries_answers
                    if carries and writer is not None:
                        writer.write(data)
        finally:
            connection.close()
            self._connections.discard(connection)

    async def _close(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for connection in tuple(self._connections):
            connection.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for raw in self._unserved:
            raw.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with a reset (RST)."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
