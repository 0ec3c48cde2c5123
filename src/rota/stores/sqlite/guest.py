"""The caller's own sqlite3 connection: submitting within the caller's transaction.

Used on the caller's thread, and only while the caller waits. What the connection is set to (how it makes rows and
texts) is left as it was found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rota.core.alike import parents_of
from rota.core.errors import InvalidRequest
from rota.core.identity import JobId
from rota.core.instant import to_micros
from rota.core.step import Step
from rota.ports.clock import Clock
from rota.ports.guest import Make
from rota.ports.store import Inserted
from rota.stores.guests import SAVEPOINT, Room, foreign, has_refusal, require_form, require_parents, without_transaction
from rota.stores.rows import Row, ids_text
from rota.stores.sqlite.driver import Clash, Parameters
from rota.stores.sqlite.files import IN_MEMORY
from rota.stores.sqlite.migrations import all_migrations
from rota.stores.sqlite.statements import statement
from rota.stores.sqlite.stepping import look, perform
from rota.stores.sqlite.store import wall_clock
from rota.stores.sqlite.submitting import insert

_REMEDY: Final = "execute BEGIN IMMEDIATE first, or connect without isolation_level=None and autocommit=True"


class SqliteGuest:
    """Acts through a connection of the caller's to the file at `path`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, clock: Clock = wall_clock) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock

    async def insert(self, make: Make, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs, all of them or none."""
        with self._room() as (connection, room):
            moment = self._clock()
            jobs = make(moment)
            if parents := parents_of(jobs):
                rows = connection.rows(statement("states"), (ids_text(sorted(parents)),))
                require_parents(parents, (row[0] for row in rows))
            answers = insert(connection, jobs, bound, to_micros(moment))
            room.is_kept = not has_refusal(answers)
        return answers

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Give a step as this transaction sees it."""
        with self._room() as (connection, _):
            return look(connection, job_id, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Write down that a step happens in this transaction."""
        with self._room() as (connection, _):
            return perform(connection, job_id, fence, key, outcome, to_micros(self._clock()))

    @contextmanager
    def _room(self) -> Iterator[tuple[_Guarded, Room]]:
        """Stand behind a savepoint, in a transaction that is begun if need be: what fails leaves no trace."""
        with _plain_texts(self._connection):
            self._require_file()
            room = Room()
            if not self._begin():
                with self._savepoint(room) as connection:
                    yield connection, room
                return
            is_wanted = False
            try:
                with self._savepoint(room) as connection:
                    yield connection, room
                is_wanted = room.is_kept
            finally:
                # Nothing else has been done in it, and whoever is refused may never end it.
                if not is_wanted:
                    self._connection.rollback()

    @contextmanager
    def _savepoint(self, room: Room) -> Iterator[_Guarded]:
        connection = _Guarded(self._connection)
        connection.run(f"SAVEPOINT {SAVEPOINT}")
        try:
            self._require_form(connection)
            yield connection
        except BaseException:
            # SQLite may have rolled back by itself; what went wrong must not be hidden by that.
            with suppress(sqlite3.Error):
                connection.undo()
            raise
        if room.is_kept:
            connection.run(f"RELEASE {SAVEPOINT}")
        else:
            connection.undo()

    def _begin(self) -> bool:
        """Make sure that there is a transaction; say whether it was begun here, as the driver itself would have."""
        connection = self._connection
        if connection.in_transaction:
            return False
        if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
            raise without_transaction(_REMEDY)
        # At once for writing: one that has only read so far is refused the right to write when others have written.
        connection.execute("BEGIN IMMEDIATE")
        return True

    def _require_file(self) -> None:
        """Refuse a connection to another file."""
        if str(self._path) == IN_MEMORY:
            message = "tx: a store in memory has no connection but its own; use a file"
            raise InvalidRequest(message, field="tx")
        files = [file for _, name, file in _Guarded(self._connection).rows("PRAGMA database_list") if name == "main"]
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

    def _require_form(self, connection: _Guarded) -> None:
        where = str(self._path)
        try:
            registered = connection.rows(statement("recognise"))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise foreign(where) from error
        require_form(((number, name) for number, name in registered), all_migrations(), where)


class _Guarded:
    """A connection as our verbs see it. What the driver raises stays as it is, but for a constraint's refusal."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        # Told to nobody: when the caller commits is the caller's affair, and the others hear it from the log.
        self.has_made_work = self.has_set_times = False
        self._cursor = connection.cursor()
        # The caller may want its rows otherwise; we want ours plain.
        self._cursor.row_factory = None

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement and give the rows it yields."""
        self._execute(sql, parameters)
        return self._cursor.fetchall()

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement and say how many rows it changed."""
        self._execute(sql, parameters)
        return self._cursor.rowcount

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        """Run a statement for each set of parameters and say how many rows were changed in all."""
        return sum(self.run(sql, each) for each in parameters)

    def undo(self) -> None:
        """Undo all that was done since the savepoint, and forget it."""
        self.run(f"ROLLBACK TO {SAVEPOINT}")
        self.run(f"RELEASE {SAVEPOINT}")

    def close(self) -> None:
        """Let go of the cursor; the connection is the caller's."""
        self._cursor.close()

    def _execute(self, sql: str, parameters: Parameters) -> None:
        try:
            self._cursor.execute(sql, parameters)
        except sqlite3.IntegrityError as error:
            raise Clash(str(error)) from error


@contextmanager
def _plain_texts(connection: sqlite3.Connection) -> Iterator[None]:
    """Let texts be texts while we look at them."""
    before, connection.text_factory = connection.text_factory, str
    try:
        yield
    finally:
        connection.text_factory = before
