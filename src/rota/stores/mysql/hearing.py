"""Waking processes that wait for work, though MariaDB tells nobody anything. A hint, never relied upon.

Who wants to hear has an ear: a connection that waits in the server, by a statement that looks at the bells, waits if
none was rung since it last looked, and looks again, after a second at the latest. Whoever has rung wakes the ears after
its commit: it ends their wait by `KILL QUERY`, which every user may do to its own statements. One wake goes out, and
all that is rung while it is on its way shares the next one. Nobody waits for it.

What an ear waits for is its bed, a named lock that another connection of the same process keeps from it. It could call
`SLEEP`, but all who sleep so share a mutex, and to end two sleeps at once may stop every sleeper of the server for 2 s.

No statement but an ear's must ever be ended so. Hence no ear is written down anywhere, where it would grow stale. It
has a seat, which is a named lock too, and the server itself says which connection holds one, in the same statement that
ends its wait. Seats are numbered, the lowest that is free is taken, and who wakes goes along them until some in a row
are empty. An ear moves to a lower seat now and then, so gaps do not last.

An ear tries at first whether it can be woken. It cannot on MySQL, which has no such statements, nor where a proxy
leads to several servers or a cluster allows no locks. Others may ring without waking us: in a caller's transaction, as
another user, on another server. So the bells are looked at all the same, see `lookout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from rota.core.errors import RotaError
from rota.stores.mysql.driver import PATIENCE_SECONDS, Again, Broken, Connection, Interrupted, Lost, connect
from rota.stores.mysql.pool import Pool
from rota.stores.mysql.statements import statement
from rota.supervision import supervised

#: How long after a wake the next one goes out at the earliest, and by how much longer each time while it goes on.
PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.015
PAUSE_GROWTH: Final = 1.25
#: And how long if nobody was there to be woken, or if it could not be done.
NOBODY_SECONDS: Final = 0.1
REFUSED_SECONDS: Final = 5.0
#: How often an ear looks by itself, within one statement, and how many times. The server notices within a second or so
#: that whoever waits is gone.
LOOK_SECONDS: Final = 1.0
LOOKS: Final = 30
#: How a wait ends: somebody woke us, nobody did in time, the bed was left to us.
WOKEN: Final = None
IN_VAIN: Final = 0
LEFT: Final = 1
#: How long to wait until we have woken ourselves, when we try whether that works; and how long when we go.
ECHO_SECONDS: Final = 3.0
GOODBYE_SECONDS: Final = 1.0
ROUSE_SECONDS: Final = 0.01
#: How long to wait before listening is tried again: at first, and when it has failed time after time.
DEAF_SECONDS: Final = 1.0
LONGEST_DEAF_SECONDS: Final = 300.0
#: How often to look for a lower seat.
MOVE_SECONDS: Final = 5.0
#: How many empty seats in a row mean that nobody sits behind them.
GAP: Final = 4
MOST_SEATS: Final = 10_000
NOWHERE: Final = -1
#: How much of a database's name is in the name of its seats: a lock's has at most 64 characters. Databases that share
#: one for that wake each other in vain.
DATABASE_LENGTH: Final = 40
#: That we wait is no slow statement, and nothing that a limit for statements is meant for.
_SESSION: Final = "SET SESSION long_query_time = 86400, max_statement_time = 0"


async def wake(connection: Connection, room: str, seats: tuple[int, int], spared: int) -> int:
    """Wake who listens on some seats of a room, except on one, and say how many that were."""
    if not connection.is_mariadb:
        return 0
    first, last = seats
    parameters = {"room": room, "first": first, "last": last, "spared": spared, "gap": GAP}
    ((woken,),) = await connection.rows(statement("wake"), parameters)
    return int(woken)


async def keep_bed(connection: Connection, bed: str) -> None:
    """Keep a bed from the ear that waits for it, for as long as the connection lasts."""
    await connection.rows(statement("keep_bed"), {"bed": bed})


class Bell:
    """Wakes the others when something has been rung."""

    def __init__(self, readers: Pool, ear: Ear) -> None:
        self._readers = readers
        self._ear = ear
        self._is_wanted = False
        self._is_on_its_way = False
        self._is_closing = False
        self._waking: asyncio.Task[None] | None = None
        self._pause = PAUSE_SECONDS
        self._woke_at = float("-inf")
        self._next_at = float("-inf")

    def ring(self) -> None:
        """Have the others woken soon."""
        self._is_wanted = True
        if self._waking is None and not self._is_closing:
            self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def close(self) -> None:
        """Wake for what has been rung."""
        self._is_closing = True
        if self._waking is not None:
            if not self._is_on_its_way:
                self._waking.cancel()
            await asyncio.wait([self._waking])
        if self._is_wanted:
            await self._wake_once()

    async def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._is_wanted and not self._is_closing:
                early = self._next_at - loop.time()
                if early > 0:
                    # No less than a loop's clock can tell.
                    await asyncio.sleep(max(early, 0.001))
                else:
                    await self._wake_once()
        finally:
            self._waking = None

    async def _wake_once(self) -> None:
        self._is_wanted = False
        self._is_on_its_way = True
        pause = REFUSED_SECONDS
        try:
            # Nobody relies on it.
            with suppress(RotaError):
                woken = await self._readers.run(wake, self._ear.room, (0, MOST_SEATS), self._ear.seat)
                pause = self._pause_after(woken)
        finally:
            self._is_on_its_way = False
            self._woke_at = asyncio.get_running_loop().time()
            self._next_at = self._woke_at + pause

    def _pause_after(self, woken: int) -> float:
        """Say how long to wait: the first goes at once; under load, one for many is enough and spares the server."""
        if not woken:
            return NOBODY_SECONDS
        goes_on = asyncio.get_running_loop().time() < self._woke_at + 2 * LONGEST_PAUSE_SECONDS
        self._pause = min(self._pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS) if goes_on else PAUSE_SECONDS
        return self._pause


class Ear:
    """Waits in the server; `heed` is told how the bells stand when that ends, and how it ended."""

    def __init__(self, readers: Pool, ours: str, heed: Callable[[str, int | None], None]) -> None:
        self._readers = readers
        self._ours = ours
        self._heed = heed
        #: What the names of this database's seats begin with, and the number of ours.
        self.room = f"rota-ear {readers.location.database[:DATABASE_LENGTH]} "
        self.seat = NOWHERE
        #: What we wait for in vain; a name that says so to whoever looks at the server's processes.
        self.bed = f"Rota waits for work {readers.origin}"
        #: Whether those who ring can wake us.
        self.is_hearing = False
        self._known = ""
        self._moves_at = float("-inf")
        self._deaf_seconds = DEAF_SECONDS
        self._is_closing = False
        self._listening: asyncio.Task[None] | None = None
        self._connection: Connection | None = None

    def begin(self) -> None:
        """Begin to listen, unless we do."""
        if self._listening is None and not self._is_closing:
            listening = supervised("the listener on MariaDB", self._listen_always)
            self._listening = asyncio.get_running_loop().create_task(listening)

    def begin_anew(self) -> None:
        """Drop the connection by which we listen, which may be half-open; another is made soon."""
        if self._connection is not None:
            self._connection.abandon()

    async def close(self) -> None:
        """Stop listening. Who goes without a word leaves a warning in the server's log."""
        self._is_closing = True
        if self._listening is None:
            return
        if self.is_hearing:
            with suppress(RotaError, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._rouse(self._listening)
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening

    async def _listen_always(self) -> None:
        while not self._is_closing:
            with suppress(RotaError, Again, Broken, Lost):
                connection = await connect(self._readers.location, "ear", autocommit=True)
                self._connection = connection
                try:
                    if connection.is_mariadb:
                        await self._listen(connection)
                except BaseException:
                    connection.abandon()
                    raise
                finally:
                    self._connection = None
                    self.is_hearing = False
                    self.seat = NOWHERE
                await connection.close()
                if not connection.is_mariadb:
                    return
            if not self._is_closing:
                await asyncio.sleep(self._deaf_seconds)
                self._deaf_seconds = min(2 * self._deaf_seconds, LONGEST_DEAF_SECONDS)

    async def _listen(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        await connection.run(_SESSION)
        await self._readers.run(keep_bed, self.bed)
        await self._sit(connection, MOST_SEATS)
        if not await self._hears_itself(connection):
            return
        self.is_hearing = True
        self._deaf_seconds = DEAF_SECONDS
        while not self._is_closing:
            if loop.time() > self._moves_at:
                await self._sit(connection, self.seat)
            await self._wait(connection)

    async def _sit(self, connection: Connection, seat: int) -> None:
        """Take a lower seat than this one, if there is one."""
        self._moves_at = asyncio.get_running_loop().time() + MOVE_SECONDS
        with suppress(Interrupted):
            ((self.seat,),) = await connection.rows(statement("sit"), {"room": self.room, "seat": seat})

    async def _wait(self, connection: Connection) -> int | None:
        """Wait until we are woken, unless something has been rung, and say how the wait ended."""
        parameters = {
            "ours": self._ours,
            "known": self._known,
            "bed": self.bed,
            "seconds": LOOK_SECONDS,
            "looks": LOOKS,
        }
        try:
            with connection.at_leisure(LOOK_SECONDS * LOOKS + PATIENCE_SECONDS):
                ((seen, ending),) = await connection.rows(statement("listen"), parameters)
        except Interrupted:
            # Woken while we looked: the next look tells what for.
            return WOKEN
        if ending == LEFT:
            raise Lost("the connection that kept the bed is gone")
        self._known = seen
        self._heed(seen, ending)
        return cast("int | None", ending)

    async def _hears_itself(self, connection: Connection) -> bool:
        """Try whether we can be woken."""
        self._known = ""
        await self._wait(connection)
        try:
            async with asyncio.timeout(ECHO_SECONDS):
                while await self._roused(connection) is not WOKEN:
                    pass
        except TimeoutError:
            return False
        return True

    async def _roused(self, connection: Connection) -> int | None:
        waiting = asyncio.get_running_loop().create_task(self._wait(connection))
        try:
            await self._rouse(waiting)
            return await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _rouse(self, waiting: asyncio.Task[Any]) -> None:
        """Wake ourselves until it shows: who does not yet wait cannot be woken."""
        pause = ROUSE_SECONDS
        while not waiting.done():
            await self._readers.run(wake, self.room, (self.seat, self.seat), NOWHERE)
            await asyncio.wait([waiting], timeout=pause)
            pause *= 2
