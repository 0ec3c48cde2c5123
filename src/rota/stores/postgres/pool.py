"""A few connections, lent out one caller at a time.

Connections are made when they are first needed and made anew when they have died. Whoever was interrupted in the middle
of something does not give its connection back: nobody knows what is still on its way through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from rota.core.errors import StoreUnavailable
from rota.stores.postgres.connecting import Connection
from rota.stores.postgres.faults import AWAY


class Loan:
    """A connection for as long as a block lasts. Written out: a generator would cost each statement as much again."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> Connection:
        """Take it."""
        self._connection = await self._pool.take()
        return self._connection

    async def __aexit__(self, raised: type[BaseException] | None, *_: object) -> None:
        """Give it back, unless the block was interrupted."""
        if raised is None:
            self._pool.give_back(self._connection)
        else:
            self._pool.throw_away(self._connection)


class Pool:
    """Lends connections, at most `size` at a time."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        #: How many are lent out.
        self.lent = 0
        self._is_open = True

    def lend(self) -> Loan:
        """Lend a connection that is alive as far as anyone can know."""
        return Loan(self)

    async def take(self) -> Connection:
        """Take a connection, which is to be given back or thrown away."""
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        await self._places.acquire()
        self.lent += 1
        try:
            return await self._any()
        except BaseException:
            self._free_a_place()
            raise

    def give_back(self, connection: Connection) -> None:
        """Take a connection back for others."""
        self._free_a_place()
        if self._is_open and not connection.is_closed():
            self._idle.append(connection)
        else:
            connection.terminate()

    def throw_away(self, connection: Connection) -> None:
        """Let nobody have a connection any more."""
        self._free_a_place()
        connection.terminate()

    def _free_a_place(self) -> None:
        self.lent -= 1
        self._places.release()

    async def close(self) -> None:
        """Let go of all connections; those lent out, when they come back."""
        self._is_open = False
        while self._idle:
            with suppress(*AWAY):
                await self._idle.pop().close(timeout=1)

    async def _any(self) -> Connection:
        while self._idle:
            # The last one back first: the others may rest, and a busy one is the most surely alive.
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self._connect()
