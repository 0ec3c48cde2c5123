"""The session in which the verbs that all stores share run on a SQLite connection.

It never suspends, so such a verb runs on the connection's thread like one of SQLite's own: `shared`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar, TypeVarTuple

from rota.core.ledger import LedgerEntry
from rota.ports.caller_tx import run_sync
from rota.stores.base import ledger
from rota.stores.base.session import Running
from rota.stores.rows import Row
from rota.stores.sqlite.driver import DatabaseBusy, DatabaseFailed, SqliteConnection
from rota.stores.sqlite.statements import statement

T = TypeVar("T")
S = TypeVar("S")
Ts = TypeVarTuple("Ts")


class SqliteSession:
    """Runs named statements on a connection of the store or of a caller; lists are JSON texts."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    async def select(self, name: str, /, **parameters: object) -> Sequence[Row]:
        return self._connection.rows(statement(name), parameters)

    async def select_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> Sequence[Row]:
        return await self.select(name, keys=json.dumps(list(keys)), **parameters)

    async def change(self, name: str, /, **parameters: object) -> int:
        return self._connection.run(statement(name), parameters)

    async def change_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> int:
        return await self.change(name, keys=json.dumps(list(keys)), **parameters)

    async def put(self, name: str, /, **parameters: object) -> bool:
        return bool(await self.change(name, **parameters))

    async def append(self, name: str, /, **parameters: object) -> None:
        await self.change(name, **parameters)

    async def change_rows(self, name: str, rows: Sequence[Mapping[str, object]], /, **parameters: object) -> None:
        self._connection.many(statement(name), [{**parameters, **row} for row in rows])

    async def lock(self, name: str, /, **parameters: object) -> None:
        """Do nothing: there is one writer."""

    def note_work(self) -> None:
        self._connection.has_made_work = True

    def note_times(self) -> None:
        self._connection.has_set_times = True


def shared(
    verb: Callable[[SqliteSession, *Ts], Running[T]],
) -> Callable[[SqliteConnection, *Ts], T]:
    """Return a verb that all stores share as a plain function of a connection."""

    def run(connection: SqliteConnection, *arguments: *Ts) -> T:
        return run_sync(verb(SqliteSession(connection), *arguments))

    return run


#: Append audit entries.
record: Final = shared(ledger.record)


def recorded(
    verb: Callable[[SqliteConnection, S, int], T],
    connection: SqliteConnection,
    subject: S,
    entry: LedgerEntry | None,
    now: int,
) -> T:
    """Run a verb of this store and, if it changed anything, append an audit entry in the same transaction."""
    result = verb(connection, subject, now)
    if entry is not None and ledger.has_effect(result):
        record(connection, [entry], now)
    return result


def in_snapshot(verb: Callable[[SqliteConnection, *Ts], T]) -> Callable[[SqliteConnection, *Ts], T]:
    """Return a verb whose reads all use one snapshot of the database."""

    def run(connection: SqliteConnection, *arguments: *Ts) -> T:
        connection.run("SAVEPOINT reading")
        try:
            result = verb(connection, *arguments)
        except BaseException:
            # The first error must not be hidden by the second.
            with suppress(DatabaseFailed, DatabaseBusy):
                connection.run("RELEASE reading")
            raise
        connection.run("RELEASE reading")
        return result

    return run
