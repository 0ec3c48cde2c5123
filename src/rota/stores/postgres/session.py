"""Database sessions: run named statements on one connection, with a deadline for each answer.

Each statement is prepared once per connection and kept here, because the driver's own cache takes as long as all the
rest of the Python code for a single job. Behind a connection pooler nothing stays prepared, and statements are sent as
text.

Each answer has a deadline. The pool checks the deadlines of its sessions now and then, and cancels the task whose
answer is overdue, as `asyncio.timeout` would. A timer of the driver for each statement would cost as much again.

The driver's public methods check at every call, in several layers, whether the connection is still the caller's, which
is twice as much Python as all else for a single job. Here one task uses a connection at a time, so the innermost layer
is called directly; the public method is the fallback for a release of the driver that does not have it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar

from asyncpg.exceptions import InvalidCachedStatementError, PostgresConnectionError, PostgresError

from rota.stores.postgres.connection import AWAY, AsyncpgConnection
from rota.stores.postgres.statements import StatementRunner, changed_by, statement
from rota.stores.rows import Row

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.prepared_stmt import PreparedStatement

    _Statement: TypeAlias = PreparedStatement[asyncpg.Record]

#: Deadline of an answer, and of closing a connection. A connection whose other end has vanished is given up within 8 s,
#: with the pauses between the checks of the pool.
COMMAND_SECONDS: Final = 6.5
LEAVE_SECONDS: Final = 0.5
#: Deadline of a probe of an idle connection.
PROBE_SECONDS: Final = 2.0
#: A server that has not answered for this share of the deadline counts as unavailable.
SILENT_FROM: Final = 0.5
#: A task that has a session and waits for something else is not cancelled.
_NO_DEADLINE: Final = float("inf")

#: Rows and command tag. The driver adds something of its own.
QueryResult: TypeAlias = tuple[Sequence[Any], bytes, object]
T = TypeVar("T")


def numbers(values: Iterable[int]) -> str:
    """Write whole numbers as an array literal of PostgreSQL, for a parameter such as `$1::text::bigint[]`.

    The driver has no codec of the type `bigint[]` and queries the server on every new connection. That query costs the
    server as much as claiming and settling some 250 jobs; as text, numbers cost neither side more.
    """
    return f"{{{','.join(map(str, values))}}}"


class PreparedQuery:
    """A statement that is prepared on a connection; valid as long as the connection is open."""

    __slots__ = ("_bind", "_state", "_statement")

    def __init__(self, connection: AsyncpgConnection, statement: _Statement) -> None:
        self._statement = statement
        self._state = getattr(statement, "_state", None)
        self._bind: Callable[..., Awaitable[QueryResult]] | None = None
        if self._state is not None:
            self._bind = getattr(getattr(connection, "_protocol", None), "bind_execute", None)

    def execute(self, arguments: tuple[object, ...]) -> Awaitable[QueryResult]:
        if self._bind is not None:
            try:
                return self._bind(self._state, arguments, "", 0, True, None)  # noqa: FBT003 - the driver's
            except TypeError:
                # The driver's signature has changed. Nothing has been sent yet.
                self._bind = None
        return self._execute_publicly(arguments)

    async def _execute_publicly(self, arguments: tuple[object, ...]) -> QueryResult:
        rows = await self._statement.fetch(*arguments)
        return rows, self._statement.get_statusmsg().encode(), None


class TakeBack(Protocol):
    """Takes a session back into its pool; a session that is not sound is closed."""

    def __call__(self, session: Session, /, *, is_sound: bool) -> None: ...


class Session(StatementRunner):
    """Runs named statements on one connection, for one task at a time."""

    __slots__ = (
        "_cancels",
        "_is_cancelled",
        "_is_pooled",
        "_prepared",
        "_take_back",
        "answer_by",
        "connection",
        "qualifier",
        "task",
        "used_at",
    )

    def __init__(
        self, connection: AsyncpgConnection, take_back: TakeBack, *, is_pooled: bool, qualifier: str = ""
    ) -> None:
        self.connection = connection
        #: What stands before the names of tables: the schema with a dot, or nothing.
        self.qualifier = qualifier
        self._take_back = take_back
        self._is_pooled = is_pooled
        self._prepared: dict[str, PreparedQuery] = {}
        #: The task that uses the session, how often it had been cancelled when it got the session, and the deadline of
        #: the current statement.
        self.task: asyncio.Task[Any] | None = None
        self._cancels = 0
        self._is_cancelled = False
        self.answer_by = _NO_DEADLINE
        #: When it was last given back.
        self.used_at = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        self._take_back(self, is_sound=raised is None)

    @property
    def is_unresponsive(self) -> bool:
        """Whether an answer has been missing for long."""
        return self.answer_by < monotonic() + COMMAND_SECONDS * (1 - SILENT_FROM)

    async def rows(self, name: str, *arguments: object, seconds: float | None = None) -> Sequence[Row]:
        """Run a statement and return its rows."""
        if self._is_pooled:
            return await self.fetch(statement(name, self.qualifier), *arguments, seconds=seconds)
        return (await self._query(name, arguments, seconds))[0]

    async def run(self, name: str, *arguments: object, seconds: float | None = None) -> int:
        """Run a statement and return how many rows it changed."""
        if self._is_pooled:
            return changed_by(await self.execute(statement(name, self.qualifier), *arguments, seconds=seconds))
        return changed_by((await self._query(name, arguments, seconds))[1].decode())

    async def fetch(self, sql: str, *arguments: object, seconds: float | None = None) -> Sequence[Any]:
        """Run a statement that is not in the SQL files, and return its rows."""
        return await self._within_deadline(self.connection.fetch(sql, *arguments), seconds)

    async def execute(self, command: str, *arguments: object, seconds: float | None = None) -> str:
        """Run a command that is not in the SQL files, and return its command tag."""
        return await self._within_deadline(self.connection.execute(command, *arguments), seconds)

    async def probe(self) -> None:
        """See that the server still answers."""
        async with asyncio.timeout(PROBE_SECONDS):
            await self.connection.execute("SELECT 1")

    async def close(self) -> None:
        """Close the connection. The driver first asks the server to cancel a running statement."""
        try:
            await self.connection.close(timeout=LEAVE_SECONDS)
        except AWAY:
            self.connection.terminate()

    def cancel(self) -> None:
        """Cancel the task that waits for the server; it gets a TimeoutError."""
        if not self._is_cancelled and self.task is not None:
            self._is_cancelled = True
            self.task.cancel()

    def assign(self, task: asyncio.Task[Any] | None) -> None:
        """Note which task uses the session, and how often it was cancelled before: as `asyncio.timeout` counts."""
        self.task = task
        self._cancels = 0 if task is None else task.cancelling()
        self.answer_by = _NO_DEADLINE

    async def _query(self, name: str, arguments: tuple[object, ...], seconds: float | None) -> QueryResult:
        prepared = self._prepared.get(name) or await self._prepare(name)
        self.answer_by = monotonic() + (seconds or COMMAND_SECONDS)
        try:
            result = await prepared.execute(arguments)
        except asyncio.CancelledError:
            await self._abandon()
            raise
        except PostgresError as error:
            self._note_error(error)
            raise
        self.answer_by = _NO_DEADLINE
        return result

    async def _prepare(self, name: str) -> PreparedQuery:
        self._forget_other_ranges(name)
        made = await self._within_deadline(self.connection.prepare(statement(name, self.qualifier)), None)
        prepared = self._prepared[name] = PreparedQuery(self.connection, made)
        return prepared

    def _forget_other_ranges(self, name: str) -> None:
        """Forget the same statement for ids of another day; the driver then deallocates it on the server."""
        base, _, ids = name.partition(" ")
        for other in [one for one in self._prepared if ids and one.startswith(f"{base} ")]:
            del self._prepared[other]

    async def _within_deadline(self, query: Awaitable[T], seconds: float | None) -> T:
        self.answer_by = monotonic() + (seconds or COMMAND_SECONDS)
        try:
            result = await query
        except asyncio.CancelledError:
            await self._abandon()
            raise
        except PostgresError as error:
            self._note_error(error)
            raise
        self.answer_by = _NO_DEADLINE
        return result

    def _note_error(self, error: PostgresError) -> None:
        """Note that the server answered, if it did. A lost connection is no answer."""
        if not isinstance(error, PostgresConnectionError):
            self.answer_by = _NO_DEADLINE
        if isinstance(error, InvalidCachedStatementError):
            # The tables have changed: the next try prepares the statement again.
            self._prepared.clear()

    async def _abandon(self) -> None:
        """Close the connection, and raise TimeoutError if the pool cancelled the task because of its deadline."""
        # First: while a task is cancelled, `asyncio.timeout` of Python 3.11.2 does not recognise its own cancellation.
        is_timeout = self._is_cancelled and self.task is not None and self.task.uncancel() <= self._cancels
        # Not cancelled once more while it closes: a caller with a timeout of its own would not recognise that.
        self.task = None
        await self.close()
        if is_timeout:
            raise TimeoutError("no answer in time")
