"""Desks without a thread."""

from __future__ import annotations

from typing import Any

from rota.stores.sqlite.desk import Desk
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.operations import PLAINLY, Manner, Operation, Verb, fail, transact


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


class InlineReader(InlineDesk):
    """Reads over a writer's connection. Nobody comes between two statements, so they see one moment by themselves."""

    async def run(self, verb: Verb, *arguments: Any, manner: Manner = PLAINLY) -> Any:  # noqa: ANN401 - as the verb does
        """Do something that changes nothing."""
        try:
            return verb(self._connection, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told in the words of all desks
            operation = Operation(verb, arguments, manner)
            fail((operation,), error)
            return operation.outcome()

    async def close(self) -> None:
        """Nothing: the connection is the writer's to close."""
