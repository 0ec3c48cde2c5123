"""A desk without a thread."""

from __future__ import annotations

from typing import Any

from rota.stores.sqlite.desk import Desk
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.operations import PLAINLY, Manner, Operation, Verb, transact


class InlineDesk:
    """Does everything at once, on the caller's thread."""

    has_lost_its_file = False
    #: Its connection is the loop's.
    by_hand: Desk | None = None

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def run(self, verb: Verb, *arguments: Any, manner: Manner = PLAINLY) -> Any:  # noqa: ANN401 - as the verb does
        """Do something in a transaction of its own. There is nobody to keep from the lock."""
        operation = Operation(verb, arguments, manner)
        transact(self._connection, [operation])
        return operation.outcome()

    async def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()
