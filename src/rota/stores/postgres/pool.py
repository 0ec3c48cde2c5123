"""A pool of connections: each is lent to one task at a time.

Connections are made when they are first needed and replaced when they have died. A task that is interrupted in the
middle of a statement does not return its connection, since an answer may still be on its way. A task that waits for an
answer for too long is cancelled. Then the server may have vanished, so the idle connections of all pools are dropped
too (`on_no_response`): the next caller makes a new one instead of trying each of them. A connection that was idle for a
while is probed before it is lent, since it may be half-open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from rota.core.errors import StoreUnavailable
from rota.stores.postgres import session as sessions
from rota.stores.postgres.connection import AWAY, Connector
from rota.stores.postgres.session import Session

#: A connection that was idle for this time is probed before it is lent.
REST_SECONDS: Final = 1.0
#: How often the deadlines are checked within `COMMAND_SECONDS`.
CHECKS: Final = 13


class Pool:
    """Lends sessions, at most `size` at a time, first come first served.

    Use: `with pool.acquire_idle() or await pool.acquire() as session:`. An idle session costs no turn of the event
    loop.
    """

    def __init__(self, connect: Connector, size: int) -> None:
        self._connect = connect
        self._idle: list[Session] = []
        self.lent: set[Session] = set()
        #: How many more may be lent, and the callers that wait for one.
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: The timer of the next check of deadlines, and from when on that check is too late to cancel any task.
        self._check: asyncio.TimerHandle | None = None
        self._late_from = 0.0
        self._is_open = True
        #: Called when a connection gets no response: drops the idle ones, of other pools too where there are any.
        self.on_no_response: Callable[[], None] = self.drop_idle

    def acquire_idle(self) -> Session | None:
        """Lend a session that was used just now and is alive, if there is one and no caller waits."""
        while self._idle and self._free and self._is_open:
            # The last one returned first: it is the most surely alive.
            session = self._idle[-1]
            if session.used_at < monotonic() - REST_SECONDS:
                return None
            del self._idle[-1]
            if not session.connection.is_closed():
                self._free -= 1
                self._lend(session)
                return session
        return None

    async def acquire(self) -> Session:
        """Lend a session, as soon as there is one or one can be made."""
        if not self._free:
            await self._wait_for_turn()
            self._free += 1
        session = self.acquire_idle()
        if session is not None:
            return session
        self._free -= 1
        try:
            session = await self._probed() or await self._new()
        except BaseException:
            self._release()
            raise
        self._lend(session)
        return session

    async def _probed(self) -> Session | None:
        """Return a session that was idle and still answers, if there is one."""
        while self._idle and self._is_open:
            session = self._idle.pop()
            try:
                await session.probe()
            except AWAY as error:
                session.connection.terminate()
                if isinstance(error, TimeoutError):
                    self.on_no_response()
            except BaseException:
                session.connection.terminate()
                raise
            else:
                return session
        return None

    async def _new(self) -> Session:
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        connection = await self._connect()
        return Session(
            connection, self._take_back, is_pooled=self._connect.is_pooled, qualifier=self._connect.qualifier
        )

    async def close(self) -> None:
        """Close all connections; those lent out, when they are returned."""
        self._is_open = False
        while self._idle:
            await self._idle.pop().close()

    def _take_back(self, session: Session, *, is_sound: bool) -> None:
        self.lent.remove(session)
        session.task = None
        if is_sound and self._is_open:
            session.used_at = monotonic()
            self._idle.append(session)
        else:
            session.connection.terminate()
            if session.is_unresponsive:
                self.on_no_response()
        self._release()

    def drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().connection.terminate()

    async def _wait_for_turn(self) -> None:
        """Wait until another caller releases a session, which is then ours."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # Our turn had come, and this task can no longer take it.
                self._release()
            raise

    def _release(self) -> None:
        """Pass a turn to the caller that has waited longest, so that no newcomer takes it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _lend(self, session: Session) -> None:
        session.assign(asyncio.current_task())
        self.lent.add(session)
        if self._check is None:
            self._schedule_check()

    def _schedule_check(self) -> None:
        pause = sessions.COMMAND_SECONDS / CHECKS
        self._late_from = monotonic() + 2 * pause
        self._check = asyncio.get_running_loop().call_later(pause, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """Cancel tasks whose answer is overdue, and check again as long as any session is lent."""
        self._check = None
        if self.lent:
            now = monotonic()
            # If this check is late itself, the loop stood still, and answers may have come that were not read yet.
            if now < self._late_from:
                for session in self.lent:
                    if session.answer_by < now:
                        session.cancel()
            self._schedule_check()
