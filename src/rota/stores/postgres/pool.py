"""A few connections, lent out one caller at a time.

Connections are made when they are first needed and made anew when they have died. Whoever was interrupted in the middle
of something does not give its connection back: nobody knows what is still on its way through it. Whoever waits for an
answer for too long is called off. Where one was waited for in vain the server may be gone without a word, and so those
that rest are dropped as well, in all pools (`condemn`): the next caller has one made, and need not find out about each
of them. One that has rested is asked for a sign of life before it is lent, since it may be half-open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from rota.core.errors import StoreUnavailable
from rota.stores.postgres import session as sessions
from rota.stores.postgres.connecting import Connector
from rota.stores.postgres.faults import AWAY
from rota.stores.postgres.session import Session

#: A connection that has rested for so long is asked for a sign of life before it is lent.
REST_SECONDS: Final = 1.0
#: How often in such a time to look who has waited for it.
LOOKS: Final = 13


class Pool:
    """Lends sessions, at most `size` at a time, in the order in which they are asked for.

    Use it so: `with pool.at_hand() or await pool.lend() as session:`. What is at hand costs no turn of the loop.
    """

    def __init__(self, connect: Connector, size: int) -> None:
        self._connect = connect
        self._idle: list[Session] = []
        self.lent: set[Session] = set()
        #: How many more may be lent, and who waits for that.
        self._places = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: Who looks after those that are lent, and when that is too late to judge anybody.
        self._patrol: asyncio.TimerHandle | None = None
        self._late_from = 0.0
        self._is_open = True
        #: Called when a connection is silent: drops those that rest, of other pools too where there are any.
        self.condemn: Callable[[], None] = self.drop_idle

    def at_hand(self) -> Session | None:
        """Lend a session that was used just now and is alive, if there is one and nobody waits."""
        while self._idle and self._places and self._is_open:
            # The last one back first: the others may rest, and a busy one is the most surely alive.
            session = self._idle[-1]
            if session.used_at < monotonic() - REST_SECONDS:
                return None
            del self._idle[-1]
            if not session.connection.is_closed():
                self._places -= 1
                self._note(session)
                return session
        return None

    async def lend(self) -> Session:
        """Lend a session, as soon as there is one or one can be made."""
        if not self._places:
            await self._turn()
            self._places += 1
        session = self.at_hand()
        if session is not None:
            return session
        self._places -= 1
        try:
            session = await self._rested() or await self._new()
        except BaseException:
            self._free_a_place()
            raise
        self._note(session)
        return session

    async def _rested(self) -> Session | None:
        """Give a session that has rested and still answers, if there is one."""
        while self._idle and self._is_open:
            session = self._idle.pop()
            try:
                await session.probe()
            except AWAY as error:
                session.connection.terminate()
                if isinstance(error, TimeoutError):
                    self.condemn()
            except BaseException:
                session.connection.terminate()
                raise
            else:
                return session
        return None

    async def _new(self) -> Session:
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        return Session(await self._connect(), self._take_back, is_pooled=self._connect.is_pooled)

    async def close(self) -> None:
        """Let go of all connections; those lent out, when they come back."""
        self._is_open = False
        while self._idle:
            await self._idle.pop().leave()

    def _take_back(self, session: Session, *, is_sound: bool) -> None:
        self.lent.remove(session)
        session.task = None
        if is_sound and self._is_open:
            session.used_at = monotonic()
            self._idle.append(session)
        else:
            session.connection.terminate()
            if session.is_silent:
                self.condemn()
        self._free_a_place()

    def drop_idle(self) -> None:
        """Drop the connections that nobody uses."""
        while self._idle:
            self._idle.pop().connection.terminate()

    async def _turn(self) -> None:
        """Wait for a place, which is then ours."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # It had come, and we are no longer there to take it.
                self._free_a_place()
            raise

    def _free_a_place(self) -> None:
        """Give a place to whoever has waited longest, so that nobody who comes just now takes it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._places += 1

    def _note(self, session: Session) -> None:
        """Keep an eye on a session that is lent."""
        session.lent_to(asyncio.current_task())
        self.lent.add(session)
        if self._patrol is None:
            self._come_again()

    def _come_again(self) -> None:
        pause = sessions.COMMAND_SECONDS / LOOKS
        self._late_from = monotonic() + 2 * pause
        self._patrol = asyncio.get_running_loop().call_later(pause, self._look_around)

    def _look_around(self) -> None:
        """Call off who has waited for too long, and come again as long as there is anybody."""
        self._patrol = None
        if self.lent:
            now = monotonic()
            # If we are late ourselves, the loop stood still. Answers may have come that nobody has read yet.
            if now < self._late_from:
                for session in self.lent:
                    if session.answer_by < now:
                        session.call_off()
            self._come_again()
