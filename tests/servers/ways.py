"""Ways to a server that can be lost without a word, as when a router forgets its connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self


class Way:
    """Stands between a client and a server on this host."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._doors: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._losses = 0

    async def __aenter__(self) -> Self:
        self._doors = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._doors is not None
        self._doors.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        """Where it begins."""
        assert self._doors is not None
        port: int = self._doors.sockets[0].getsockname()[1]
        return port

    def through(self, url: str) -> str:
        """Give the address that leads to the same server this way."""
        return url.replace(f":{self._server_port}/", f":{self.port}/")

    def lose_all(self) -> None:
        """Carry nothing more over the connections there are, and tell nobody."""
        self._losses += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        for one in (self._carry(reader, far_writer), self._carry(far_reader, writer)):
            self._tasks.add(asyncio.ensure_future(one))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made = self._losses
        try:
            with suppress(ConnectionError):
                while data := await reader.read(65_536):
                    if self._losses == made:
                        writer.write(data)
        finally:
            writer.close()
