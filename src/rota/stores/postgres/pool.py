"""A few connections, lent out one caller at a time.

Connections are made when they are first needed and made anew when they have died. Whoever was interrupted in the middle
of something does not give its connection back: nobody knows what is still on its way through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from rota.core.errors import StoreUnavailable
from rota.stores.postgres.connecting import Connection
from rota.stores.postgres.faults import AWAY


class Pool:
    """Lends connections, at most `size` at a time."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._is_open = True

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend a connection that is alive as far as anyone can know."""
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        async with self._places:
            connection = await self._take()
            self._lent.add(connection)
            try:
                yield connection
            except BaseException:
                self._lent.discard(connection)
                connection.terminate()
                raise
            self._lent.discard(connection)
            self._put_back(connection)

    async def close(self) -> None:
        """Let go of all connections; those lent out, when they come back."""
        self._is_open = False
        while self._idle:
            with suppress(*AWAY):
                await self._idle.pop().close(timeout=1)

    def _put_back(self, connection: Connection) -> None:
        if self._is_open and not connection.is_closed():
            self._idle.append(connection)
        else:
            connection.terminate()

    async def _take(self) -> Connection:
        while self._idle:
            # The last one back first: the others may rest, and a busy one is the most surely alive.
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self._connect()
