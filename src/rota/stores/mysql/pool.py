"""Connections to one server, and the rule by which work on them is tried again.

A transaction runs on a connection that nobody else uses meanwhile. What can go wrong, and what we do:

- The server chooses it to yield (deadlock) or lets it wait too long for a lock: it is rolled back and run again, after
  a short random pause, for as long as callers can be asked to wait. Nobody above hears of it.
- The connection is lost before the commit was sent: nothing happened, so it is run again on a fresh connection. All
  idle connections are dropped with it, since they lead to the server that is gone.
- The connection is lost while the commit is under way: whether it happened nobody can tell. `StoreUnavailable`.
- It is lost because a proxy cannot bear several commands at once: run again without, and so is all else for a while.
- No connection can be made: `StoreUnavailable` at once; the next call tries again. So everything heals by itself.
- The caller goes away: the connection is dropped, and the server undoes what was begun.
- An answer does not come in time, or the caller goes away after a long wait: the server may be gone without a word. The
  idle connections of all pools are dropped (`condemn`): the next call makes one anew, and waits for none.
- A connection has rested: it is pinged first, since it may be half-open. That takes no turn of a busy one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from secrets import token_hex
from typing import Any, Final

from rota.core.errors import StoreUnavailable
from rota.stores.mysql.driver import Again, Broken, Connection, Lost, Silent, Unpassable, Unsent, connect
from rota.stores.mysql.location import Location

#: How long a transaction that yields to others is tried.
LONGEST_TRIAL_SECONDS: Final = 20.0
SHORTEST_PAUSE_SECONDS: Final = 0.001
LONGEST_PAUSE_SECONDS: Final = 0.1
#: How often a transaction is run again whose connection was lost before its commit.
MOST_LOSSES: Final = 3
#: How often it is run again after silence. The server may still be at work on it, and would be on each further one.
MOST_SILENCES: Final = 1
#: A caller who goes away after so long may have waited for an answer that never comes.
SILENT_SECONDS: Final = 5.0
#: A connection that has rested for so long is pinged before it is used.
REST_SECONDS: Final = 1.0
#: How long nobody flies after a proxy could not bear it. It may have been something else.
GROUNDED_SECONDS: Final = 3600.0

Verb = Callable[..., Coroutine[Any, Any, Any]]


class Pool:
    """Up to `size` connections, made when needed."""

    def __init__(self, location: Location, size: int, *, autocommit: bool) -> None:
        self.location = location
        #: What the names of this pool's writers begin with.
        self.origin = token_hex(8)
        self._size = size
        self._autocommit = autocommit
        self._places = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._made = 0
        self._grounded_until = float("-inf")
        self._is_open = True
        #: Called when a connection is silent: drops the idle ones, of other pools too where there are any.
        self.condemn: Callable[[], None] = self.drop_idle

    @property
    def has_room(self) -> bool:
        """Whether a verb would be run at once."""
        return not self._places.locked()

    async def run(self, verb: Verb, *arguments: Any) -> Any:  # noqa: ANN401 - as the verb does
        """Run a verb on a connection; in one transaction, unless each of its statements is one."""
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        async with self._places:
            return await self._patiently(verb, arguments)

    async def close(self) -> None:
        """Wait for what was begun and let go of the server."""
        self._is_open = False
        held = 0
        try:
            while held < self._size:
                await self._places.acquire()
                held += 1
            while self._idle:
                await self._idle.pop().close()
        finally:
            # Also by who is interrupted: a loop that ends cancels all tasks, and then it is closed again.
            for _ in range(held):
                self._places.release()

    async def _patiently(self, verb: Verb, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as the verb does
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + LONGEST_TRIAL_SECONDS
        pause = SHORTEST_PAUSE_SECONDS
        losses = silences = 0
        has_yielded = False
        while True:
            try:
                return await self._once(verb, arguments, has_yielded=has_yielded)
            except Again as error:
                has_yielded = True
                if loop.time() > give_up_at:
                    raise self._unavailable(f"others held what was needed for {LONGEST_TRIAL_SECONDS:.0f} s") from error
                await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - spreads, protects nothing
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            except Lost as error:
                losses += 1
                silences += isinstance(error, Silent)
                if losses > MOST_LOSSES or silences > MOST_SILENCES:
                    raise self._unavailable(error) from error
            except Broken as error:
                raise self._unavailable(error) from error

    async def _once(self, verb: Verb, arguments: tuple[Any, ...], *, has_yielded: bool) -> Any:  # noqa: ANN401
        connection = await self._take()
        connection.has_yielded = has_yielded
        begun = asyncio.get_running_loop().time()
        try:
            answer = await verb(connection, *arguments)
            if not self._autocommit:
                await self._commit(connection)
        except Lost as error:
            connection.abandon()
            self._lose(error)
            if isinstance(error, Unpassable):
                self._grounded_until = asyncio.get_running_loop().time() + GROUNDED_SECONDS
            raise
        except StoreUnavailable:
            connection.abandon()
            raise
        except Exception:
            await self._roll_back(connection)
            raise
        except BaseException:
            # Cut off in the middle of a reply, the connection can no longer be understood.
            connection.abandon()
            if asyncio.get_running_loop().time() - begun >= SILENT_SECONDS:
                self.condemn()
            raise
        connection.used_at = time.monotonic()
        self._idle.append(connection)
        return answer

    async def _commit(self, connection: Connection) -> None:
        try:
            await connection.commit()
        except Unsent:
            raise
        except Lost as error:
            self._lose(error)
            raise self._unavailable(f"lost while committing, so it may have happened: {error}") from error

    async def _roll_back(self, connection: Connection) -> None:
        connection.has_made_work = False
        try:
            await connection.rollback()
        except (Again, Broken, Lost):
            connection.abandon()
        except BaseException:
            connection.abandon()
            raise
        else:
            connection.used_at = time.monotonic()
            self._idle.append(connection)

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() < connection.used_at + REST_SECONDS or await self._answers(connection):
                return connection
        self._made += 1
        try:
            made = await connect(self.location, f"{self.origin}-{self._made}", autocommit=self._autocommit)
        except (Again, Broken, Lost) as error:
            raise self._unavailable(error) from error
        made.can_fly = made.can_fly and asyncio.get_running_loop().time() >= self._grounded_until
        return made

    async def _answers(self, connection: Connection) -> bool:
        """See whether a connection that has rested is still there; if it is silent, so are the others."""
        try:
            await connection.probe()
        except Lost as error:
            connection.abandon()
            self._lose(error)
            return False
        except BaseException:
            connection.abandon()
            raise
        return True

    def _lose(self, error: Lost) -> None:
        if isinstance(error, Silent):
            self.condemn()
        else:
            self.drop_idle()

    def drop_idle(self) -> None:
        """Drop the connections that nobody uses."""
        while self._idle:
            self._idle.pop().abandon()

    def _unavailable(self, why: object) -> StoreUnavailable:
        return StoreUnavailable(f"{self.location.name}: {why}")
