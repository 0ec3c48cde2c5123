"""A statement that was prepared on a connection of ours.

The driver's public ways check at every call, in several layers, whether the connection is still the caller's, which is
twice as much Python as all else for a single job. We know that it is: one task has it at a time. So the last of these
layers is called directly, and the public way is kept for a release of the driver that has it no longer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rota.stores.postgres.connecting import Connection

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.prepared_stmt import PreparedStatement

    _Statement: TypeAlias = PreparedStatement[asyncpg.Record]

#: Rows, and what the server calls the outcome. The driver adds something of its own.
Answer: TypeAlias = tuple[Sequence[Any], bytes, object]


class Prepared:
    """Can be asked again and again, as long as the connection lives."""

    __slots__ = ("_bind", "_state", "_statement")

    def __init__(self, connection: Connection, statement: _Statement) -> None:
        self._statement = statement
        self._state = getattr(statement, "_state", None)
        self._bind: Callable[..., Awaitable[Answer]] | None = None
        if self._state is not None:
            self._bind = getattr(getattr(connection, "_protocol", None), "bind_execute", None)

    def ask(self, arguments: tuple[object, ...]) -> Awaitable[Answer]:
        """Run it, and give all that is told of it."""
        if self._bind is not None:
            try:
                return self._bind(self._state, arguments, "", 0, True, None)  # noqa: FBT003 - the driver's
            except TypeError:
                # It takes something else now. Nothing has been sent yet.
                self._bind = None
        return self._ask_politely(arguments)

    async def _ask_politely(self, arguments: tuple[object, ...]) -> Answer:
        rows = await self._statement.fetch(*arguments)
        return rows, self._statement.get_statusmsg().encode(), None
