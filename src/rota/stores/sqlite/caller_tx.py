"""Caller transaction: submitting and finishing steps on the caller's own `sqlite3` connection, in its transaction.

Used on the caller's thread, only while the caller waits. The connection's settings (row and text factories) are
restored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rota.core.bulk import parents_of
from rota.core.errors import InvalidRequest
from rota.core.graph import NewWorkflow
from rota.core.ids import JobId
from rota.core.step import Step
from rota.core.time import to_micros
from rota.core.waiting import Emission, Emitted
from rota.ports.caller_tx import MakeJobs
from rota.ports.clock import Clock, wall_clock
from rota.ports.store import Inserted
from rota.stores.base import steps
from rota.stores.caller_tx import (
    SAVEPOINT,
    Savepoint,
    has_refusal,
    jobs_in,
    no_transaction,
    not_our_database,
    require_parents,
    require_schema,
)
from rota.stores.rows import Row, ids_text
from rota.stores.sqlite import events
from rota.stores.sqlite.driver import IN_MEMORY, ConstraintViolated, Parameters
from rota.stores.sqlite.insert import insert
from rota.stores.sqlite.limits import refuse_full_keys
from rota.stores.sqlite.migrations import all_migrations
from rota.stores.sqlite.session import SqliteSession
from rota.stores.sqlite.statements import statement
from rota.stores.sqlite.workflows import insert_nodes

_REMEDY: Final = "execute BEGIN IMMEDIATE first, or connect without isolation_level=None and autocommit=True"


class SqliteCallerConnection:
    """Store verbs on a connection of the caller to the file at `path`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, clock: Clock = wall_clock) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock

    async def insert(self, make: MakeJobs, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs, all of them or none."""
        with self._transaction() as (connection, room):
            moment = self._clock()
            made = make(moment)
            jobs = jobs_in(made)
            if parents := parents_of(jobs):
                rows = connection.rows(statement("job_states"), (ids_text(sorted(parents)),))
                require_parents(parents, (row[0] for row in rows))
            if not isinstance(made, NewWorkflow):
                refuse_full_keys(connection, jobs, to_micros(moment))
            receipts = insert(connection, jobs, bound, to_micros(moment), may_be_full=False)
            room.is_kept = not has_refusal(made, receipts)
            if room.is_kept and isinstance(made, NewWorkflow):
                insert_nodes(connection, made, to_micros(moment))
        return receipts

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Return a step as this transaction sees it."""
        with self._transaction() as (connection, _):
            return await steps.step(SqliteSession(connection), job_id, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Record a step that happens in this transaction."""
        with self._transaction() as (connection, _):
            now = to_micros(self._clock())
            return await steps.perform(SqliteSession(connection), job_id, fence, key, outcome, now)

    async def emit(self, emission: Emission) -> Emitted:
        """Emit an event in this transaction."""
        with self._transaction() as (connection, _):
            return events.emit(connection, emission, to_micros(self._clock()))

    @contextmanager
    def _transaction(self) -> Iterator[tuple[_Connection, Savepoint]]:
        """Work behind a savepoint, in a transaction that is begun if there is none: a failure leaves no trace."""
        with _plain_texts(self._connection):
            self._require_file()
            room = Savepoint()
            if not self._begin():
                with self._savepoint(room) as connection:
                    yield connection, room
                return
            is_kept = False
            try:
                with self._savepoint(room) as connection:
                    yield connection, room
                is_kept = room.is_kept
            finally:
                # Nothing else was done in it, and a caller that is refused may never end it.
                if not is_kept:
                    self._connection.rollback()

    @contextmanager
    def _savepoint(self, room: Savepoint) -> Iterator[_Connection]:
        connection = _Connection(self._connection)
        connection.run(f"SAVEPOINT {SAVEPOINT}")
        try:
            self._require_schema(connection)
            yield connection
        except BaseException:
            # SQLite may have rolled back by itself; the first error must not be hidden by the second.
            with suppress(sqlite3.Error):
                connection.undo()
            raise
        if room.is_kept:
            connection.run(f"RELEASE {SAVEPOINT}")
        else:
            connection.undo()

    def _begin(self) -> bool:
        """Begin a transaction if there is none, as the driver itself would; return whether it was begun here."""
        connection = self._connection
        if connection.in_transaction:
            return False
        if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
            raise no_transaction(_REMEDY)
        # With the write lock: a transaction that has only read is refused the lock once another process has written.
        connection.execute("BEGIN IMMEDIATE")
        return True

    def _require_file(self) -> None:
        """Refuse a connection to another file."""
        if str(self._path) == IN_MEMORY:
            message = "tx: a store in memory has no connection but its own; use a file"
            raise InvalidRequest(message, field="tx")
        files = [file for _, name, file in _Connection(self._connection).rows("PRAGMA database_list") if name == "main"]
        opened = Path(files[0]) if files and files[0] else None
        try:
            is_ours = opened is not None and opened.samefile(self._path)
        except OSError:
            is_ours = False
        if not is_ours:
            raise InvalidRequest(
                f"tx: the connection is to {opened or 'a database in memory'} and the store is {self._path};"
                " connect to the store's file",
                field="tx",
            )

    def _require_schema(self, connection: _Connection) -> None:
        where = str(self._path)
        try:
            migrations = connection.rows(statement("applied_migrations"))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise not_our_database(where) from error
        require_schema(((number, name) for number, name in migrations), all_migrations(), where)


class _Connection:
    """The caller's connection as a `SqliteConnection`. Driver errors are not translated, except for constraints."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        # No notification is sent: the caller commits later, and other processes notice the write to the log.
        self.has_made_work = self.has_set_times = False
        self._cursor = connection.cursor()
        # The caller may have set another row factory.
        self._cursor.row_factory = None

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        self._execute(sql, parameters)
        return self._cursor.fetchall()

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        self._execute(sql, parameters)
        return self._cursor.rowcount

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        return sum(self.run(sql, each) for each in parameters)

    def undo(self) -> None:
        """Undo everything since the savepoint."""
        self.run(f"ROLLBACK TO {SAVEPOINT}")
        self.run(f"RELEASE {SAVEPOINT}")

    def close(self) -> None:
        """Close the cursor only: the connection is the caller's."""
        self._cursor.close()

    def _execute(self, sql: str, parameters: Parameters) -> None:
        try:
            self._cursor.execute(sql, parameters)
        except sqlite3.IntegrityError as error:
            raise ConstraintViolated(str(error)) from error


@contextmanager
def _plain_texts(connection: sqlite3.Connection) -> Iterator[None]:
    """Read texts as str while the connection is in use here."""
    before, connection.text_factory = connection.text_factory, str
    try:
        yield
    finally:
        connection.text_factory = before
