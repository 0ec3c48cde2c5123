"""A connection of ours as verbs see it, for as long as it lives.

Statements are prepared once and by us: the driver's own way to find them again takes as long as all that we do for a
single job. Behind a pooler nothing stays prepared, and they are sent as they are.

Each answer has a time by which it is to come. Whoever lends the connection looks at that now and then, and calls off
the task whose answer is overdue, as `asyncio.timeout` would. To have the driver count costs a timer for each statement,
which is as much again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from time import monotonic
from typing import Any, Final, Protocol, Self, TypeVar

from asyncpg.exceptions import InvalidCachedStatementError, PostgresConnectionError, PostgresError

from rota.stores.postgres.connecting import Connection
from rota.stores.postgres.faults import AWAY
from rota.stores.postgres.prepared import Answer, Prepared
from rota.stores.postgres.statements import changed_by, statement
from rota.stores.rows import Row

#: How long an answer may take, and how long it may take to part. A connection whose other end has vanished without a
#: word is given up within 8 s, with the pauses between looks.
COMMAND_SECONDS: Final = 6.5
LEAVE_SECONDS: Final = 0.5
#: How long a connection that has rested may take to answer.
PROBE_SECONDS: Final = 2.0
#: From this part of that time on, nobody may be there to answer.
SILENT_FROM: Final = 0.5
#: Whoever has a session and waits for something else is not called off: nobody would tell it why.
_NOTHING_ASKED: Final = float("inf")

T = TypeVar("T")


class TakeBack(Protocol):
    """Takes a session back; unless it is sound, nobody may have it any more."""

    def __call__(self, session: Session, /, *, is_sound: bool) -> None:
        """Take it."""
        ...


class Session:
    """Runs statements, which go by the names of their files."""

    __slots__ = (
        "_cancels",
        "_is_called_off",
        "_is_pooled",
        "_prepared",
        "_take_back",
        "answer_by",
        "connection",
        "task",
        "used_at",
    )

    def __init__(self, connection: Connection, take_back: TakeBack, *, is_pooled: bool) -> None:
        self.connection = connection
        self._take_back = take_back
        self._is_pooled = is_pooled
        self._prepared: dict[str, Prepared] = {}
        #: Who uses it, how often that task had been called off when it came, and when the statement under way is to be
        #: answered.
        self.task: asyncio.Task[Any] | None = None
        self._cancels = 0
        self._is_called_off = False
        self.answer_by = _NOTHING_ASKED
        #: When it was last given back.
        self.used_at = monotonic()

    def __enter__(self) -> Self:
        """Be there for a block."""
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        """Go back to whoever lent it."""
        self._take_back(self, is_sound=raised is None)

    @property
    def is_silent(self) -> bool:
        """Whether an answer has been missing for long."""
        return self.answer_by < monotonic() + COMMAND_SECONDS * (1 - SILENT_FROM)

    async def rows(self, name: str, *arguments: object, seconds: float | None = None) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        if self._is_pooled:
            return await self.fetch(statement(name), *arguments, seconds=seconds)
        return (await self._ask(name, arguments, seconds))[0]

    async def values(self, name: str, *arguments: object) -> list[Any]:
        """Run a statement and give the first column of the rows it yields."""
        return [row[0] for row in await self.rows(name, *arguments)]

    async def run(self, name: str, *arguments: object, seconds: float | None = None) -> int:
        """Run a statement and say how many rows it changed."""
        if self._is_pooled:
            return changed_by(await self.say(statement(name), *arguments, seconds=seconds))
        return changed_by((await self._ask(name, arguments, seconds))[1].decode())

    async def fetch(self, sql: str, *arguments: object, seconds: float | None = None) -> Sequence[Any]:
        """Run a statement that has no file, and give the rows it yields."""
        return await self._answered(self.connection.fetch(sql, *arguments), seconds)

    async def say(self, command: str, *arguments: object, seconds: float | None = None) -> str:
        """Give a command that has no file, and give what the server calls its outcome."""
        return await self._answered(self.connection.execute(command, *arguments), seconds)

    async def probe(self) -> None:
        """See that the server still answers."""
        async with asyncio.timeout(PROBE_SECONDS):
            await self.connection.execute("SELECT 1")

    async def leave(self) -> None:
        """Let go of the connection. The driver first tells the server to stop what nobody waits for any more."""
        try:
            await self.connection.close(timeout=LEAVE_SECONDS)
        except AWAY:
            self.connection.terminate()

    def call_off(self) -> None:
        """Have whoever waits for the server wait no longer."""
        if not self._is_called_off and self.task is not None:
            self._is_called_off = True
            self.task.cancel()

    def lent_to(self, task: asyncio.Task[Any] | None) -> None:
        """Be there for a task, which may be on its way out already: as `asyncio.timeout`, count from here."""
        self.task = task
        self._cancels = 0 if task is None else task.cancelling()
        self.answer_by = _NOTHING_ASKED

    async def _ask(self, name: str, arguments: tuple[object, ...], seconds: float | None) -> Answer:
        prepared = self._prepared.get(name) or await self._prepare(name)
        self.answer_by = monotonic() + (seconds or COMMAND_SECONDS)
        try:
            answer = await prepared.ask(arguments)
        except asyncio.CancelledError:
            await self._break_off()
            raise
        except PostgresError as error:
            self._note_error(error)
            raise
        self.answer_by = _NOTHING_ASKED
        return answer

    async def _prepare(self, name: str) -> Prepared:
        self._forget_others(name)
        made = await self._answered(self.connection.prepare(statement(name)), None)
        prepared = self._prepared[name] = Prepared(self.connection, made)
        return prepared

    def _forget_others(self, name: str) -> None:
        """Forget a statement of another day: it has had its time, and the driver has the server forget it too."""
        file, _, ids = name.partition(" ")
        for other in [one for one in self._prepared if ids and one.startswith(f"{file} ")]:
            del self._prepared[other]

    async def _answered(self, question: Awaitable[T], seconds: float | None) -> T:
        self.answer_by = monotonic() + (seconds or COMMAND_SECONDS)
        try:
            answer = await question
        except asyncio.CancelledError:
            await self._break_off()
            raise
        except PostgresError as error:
            self._note_error(error)
            raise
        self.answer_by = _NOTHING_ASKED
        return answer

    def _note_error(self, error: PostgresError) -> None:
        """Record that the server answered, however late: it is not silent. A lost connection is no answer."""
        if not isinstance(error, PostgresConnectionError):
            self.answer_by = _NOTHING_ASKED
        if isinstance(error, InvalidCachedStatementError):
            # Somebody has changed the tables: the next try finds it new.
            self._prepared.clear()

    async def _break_off(self) -> None:
        """Let go of the connection, and raise that the server took too long if that is why the task was called off."""
        # First: while a task is called off, no timeout of Python 3.11.2 says that it was one.
        is_excused = self._is_called_off and self.task is not None and self.task.uncancel() <= self._cancels
        # It parts now. Called off once more as it does, a caller who counts for itself would not know its own timeout.
        self.task = None
        await self.leave()
        if is_excused:
            raise TimeoutError("no answer in time")
