"""A connection to the server over asyncmy, and the errors of the driver as exceptions of this store.

Statements with named parameters are sent as text, which lists need. Those with a row, or many rows, are sent as
prepared statements: MariaDB takes any number of rows in one round trip, for inserts and updates alike.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any, Final, cast

import asyncmy
from asyncmy import errors
from asyncmy.constants import CLIENT
from asyncmy.constants.SERVER_STATUS import SERVER_STATUS_NO_BACKSLASH_ESCAPES
from asyncmy.cursors import Cursor

from rota.sockets import detect_half_open_on
from rota.stores.mysql.errors import (
    ConnectionLost,
    ConstraintViolated,
    NothingSent,
    PipelineLost,
    RetryTransaction,
    StatementKilled,
    translate_error,
)
from rota.stores.mysql.location import MysqlLocation
from rota.stores.mysql.multi_row import MAX_ROWS, inline_nulls, rows_per_command, split_rows
from rota.stores.mysql.pipeline import BulkInsert, CannotPipeline, Pipeline, PipeliningBroken, RowBatch
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row
from rota.stores.server_versions import refuse_unsuitable

#: Compares code points and counts trailing spaces. The same collation has two names.
MARIADB_COLLATION: Final = "utf8mb4_nopad_bin"
MYSQL_COLLATION: Final = "utf8mb4_0900_bin"
#: How long it may take to connect. With a statement that gets no response it makes 10 s.
CONNECT_SECONDS: Final = 3
#: A server that has not responded after so long is taken for gone. Measured here once for each command: the driver
#: would start a task for each packet of a response, a sixth of the client's work in a bulk. Longer than the server lets
#: a statement wait for a lock.
RESPONSE_SECONDS: Final = 7.0
#: Additional time for each row of a statement.
SECONDS_PER_ROW: Final = 0.01
#: How long an idle connection may take to answer a ping.
PROBE_SECONDS: Final = 2.0
#: For statements that read whole tables: migrations and the consistency check.
LONG_RESPONSE_SECONDS: Final = 6 * 3600.0
LOCK_WAIT_SECONDS: Final = 5
#: A connection that was used within this time needs no test.
IDLE_SECONDS: Final = 0.1
#: Longer lists are split: for very long ones the planner does not use keys.
MAX_LIST: Final = 500
_STATEMENTS_KEPT: Final = 128
_COMMIT: Final = "COMMIT"
#: What the driver raises when a statement fails; a RuntimeError if the transport is already closed.
_FAILURES: Final = (errors.MySQLError, OSError, EOFError, RuntimeError)
_NAMED: Final = re.compile(r"%\((\w+)\)s")

#: Without backslash escapes the driver's quoting would not be safe; without strict mode values would be truncated.
_SESSION: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY', time_zone = '+00:00'",
    # The second is for table locks: a statement that waits to alter a table blocks all later statements on it.
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}, lock_wait_timeout = {LOCK_WAIT_SECONDS}",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)


class _CursorWithoutWarnings(Cursor):
    """Does not read warnings: in strict mode whatever matters is an error."""

    async def _show_warnings(self, conn: object) -> None:
        pass


class Runner(ABC):
    """Runs statements, in a transaction that is ours or a caller's.

    The verbs of this store pass the text of a statement; those that all stores share pass its name, and see a
    `StoreSession`.
    """

    #: Whether the transaction has made work of which other processes have to be notified.
    has_made_work: bool
    #: Whether statements may be pipelined, and may read session variables, because the session is ours.
    can_pipeline: bool
    #: The bounded queues when last read; None if they have to be read before anything is done.
    bounds: Mapping[str, int] | None

    @abstractmethod
    async def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run a statement and return its rows."""

    @abstractmethod
    async def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement and return how many rows it matched or inserted."""

    @abstractmethod
    def defer(self, sql: str, parameters: Mapping[str, Any] | Row) -> None:
        """Run a statement together with the next one, or with the commit; its result is not read."""

    @abstractmethod
    async def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""

    @abstractmethod
    async def update_each(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement that updates one row, for each row of parameters; fails unless all exist."""

    @abstractmethod
    async def pipeline(self, sql: str | None, batches: Iterable[RowBatch]) -> Sequence[Row]:
        """Run a query, if any, and statements with many rows, pipelined; return the rows of the query."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll back; in a caller's transaction, to our savepoint."""

    async def select(self, name: str, /, **parameters: object) -> Sequence[Row]:
        return await self.rows(statement(name), parameters)

    async def select_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> Sequence[Row]:
        rows: list[Row] = []
        for chunk in chunks(keys):
            rows += await self.select(name, keys=chunk, **parameters)
        return rows

    async def change(self, name: str, /, **parameters: object) -> int:
        return await self.run(statement(name), parameters)

    async def change_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> int:
        return sum([await self.change(name, keys=chunk, **parameters) for chunk in chunks(keys)])

    async def put(self, name: str, /, **parameters: object) -> bool:
        try:
            return bool(await self.change(name, **parameters))
        except ConstraintViolated:
            return False

    async def append(self, name: str, /, **parameters: object) -> None:
        try:
            await self.change(name, **parameters)
        except ConstraintViolated as error:
            raise RetryTransaction(f"another process ran {name} at the same time") from error

    async def change_rows(self, name: str, rows: Sequence[Mapping[str, object]], /, **parameters: object) -> None:
        sql, names = _positional(statement(name))
        values = [{**parameters, **row} for row in rows]
        if values:
            await self.many(sql, [tuple([row[key] for key in names]) for row in values])

    async def lock(self, name: str, /, **parameters: object) -> None:
        if statement(name):
            await self.change(name, **parameters)

    def note_work(self) -> None:
        self.has_made_work = True

    def note_times(self) -> None:
        self.has_made_work = True


class MysqlConnection(Runner):
    """One connection. Used by one task at a time."""

    def __init__(self, raw: asyncmy.Connection, origin: str) -> None:
        self._raw = raw
        self._cursor = raw.cursor(_CursorWithoutWarnings)
        self.is_mariadb = "mariadb" in str(raw.get_server_info()).lower()
        self._pipeline = Pipeline(raw)
        self.can_pipeline = self.is_mariadb and self._pipeline.is_available
        self.bounds: Mapping[str, int] | None = {}
        #: The name of this writer in `rota_notification`.
        self.origin = origin
        #: Whether the transaction has made work of which other processes have to be notified.
        self.has_made_work = False
        #: Whether the transaction is run again after a deadlock or lock wait; it then avoids waiting for locks.
        self.is_retry = False
        #: When it was last returned to the pool (monotonic).
        self.used_at = time.monotonic()
        self._deferred: list[str] = []
        #: Bulk inserts, sent before the deferred statements.
        self._bulk_inserts: list[BulkInsert] = []
        self._response_seconds = RESPONSE_SECONDS

    @contextmanager
    def allowing(self, seconds: float = LONG_RESPONSE_SECONDS) -> Iterator[None]:
        """Allow the server more time to respond: hours by default, for statements that read whole tables."""
        self._response_seconds = seconds
        try:
            yield
        finally:
            self._response_seconds = RESPONSE_SECONDS

    async def ping(self) -> None:
        """Ping the server."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._raw.ping(reconnect=False)
        except Exception as error:
            failure = translate_error(error)
            raise failure if isinstance(failure, ConnectionLost) else ConnectionLost(str(failure)) from error
        self.used_at = time.monotonic()

    @property
    def collation(self) -> str:
        """The name of our collation on this server."""
        return MARIADB_COLLATION if self.is_mariadb else MYSQL_COLLATION

    @property
    def is_idle(self) -> bool:
        """Whether it was unused for so long that the server may have closed it, which the driver does not report."""
        return time.monotonic() > self.used_at + IDLE_SECONDS

    async def rows(self, sql: str, parameters: Mapping[str, Any] | Row | None = None) -> Sequence[Row]:
        """Run a statement and return its rows."""
        if self._bulk_inserts:
            return await self._send_with_bulk(sql, parameters)
        await self._execute(sql, parameters)
        rows: Sequence[Row] = await self._cursor.fetchall()
        return rows

    async def prepared_rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        """Run a frequent statement without lists as a prepared statement, and return its rows.

        The server does not parse it again, and we do not parse its column definitions.
        """
        prepared, names = _positional(sql)
        return await self.rows(prepared, tuple([parameters[name] for name in names]))

    async def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement and return how many rows it matched or inserted."""
        await self._execute(sql, parameters)
        # The driver types it as an object.
        return cast("int", self._cursor.rowcount)

    def defer(self, sql: str, parameters: Mapping[str, Any] | Row) -> None:
        """Run a statement together with the next one, or with the commit; its result is not read.

        A round trip costs more than most statements. Its error is raised by the next statement.
        """
        self._deferred.append(self._cursor.mogrify(sql, parameters))

    def defer_rows(self, sql: str, rows: Sequence[Row]) -> None:
        """Insert rows together with the next statement; `sql` has the VALUES of one row."""
        head, row = sql.split(" VALUES ")
        self.defer(f"{head} VALUES {', '.join([row] * len(rows))}", tuple(chain.from_iterable(rows)))

    def insert_bulk(self, sql: str, columns: tuple[Sequence[int], ...], common: Row) -> None:
        """Insert rows with the next statement, before all deferred ones; only if `can_pipeline`.

        Rows differ only in the number columns; the common columns behind them are encoded once.
        """
        most = rows_per_command(common)
        for start in range(0, len(columns[0]), most):
            self._bulk_inserts.append((sql, tuple(column[start : start + most] for column in columns), common))

    async def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""
        await self._many(sql, rows)

    async def update_each(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement that updates one row, for each row of parameters; fails unless all exist.

        If the statement is killed between two rows, MariaDB reports success.
        """
        changed = await self._many(sql, rows)
        if changed != len(rows):
            raise StatementKilled(f"{changed} of {len(rows)} rows were changed")

    async def _many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement for each row of parameters, and return how many rows it matched or inserted."""
        await self._send_bulk_inserts()
        changed = 0
        try:
            await self._run_deferred()
            for batch in split_rows(rows):
                async with asyncio.timeout(self._response_seconds + len(batch) * SECONDS_PER_ROW):
                    if len(batch) == 1:
                        await self._cursor.execute(sql, batch[0])
                    elif self.is_mariadb:
                        await self._cursor.executemany(*inline_nulls(sql, batch))
                    else:
                        await self._cursor.executemany(sql, batch)
                changed += cast("int", self._cursor.rowcount)
        except _FAILURES as error:
            raise translate_error(error) from error
        return changed

    async def pipeline(self, sql: str | None, batches: Iterable[RowBatch]) -> Sequence[Row]:
        """Run a query, if any, and statements with many rows, pipelined; return the rows of the query.

        Deferred statements go first. Batches are taken from the iterable while the server works on those before. If
        this raises, some statements may have been run: roll back.
        """
        await self._send_bulk_inserts()
        script = ";\n".join((*self._deferred, sql) if sql is not None else self._deferred)
        self._deferred.clear()
        with self._pipelining():
            return await self._pipeline.run(script, batches, self._response_seconds + MAX_ROWS * SECONDS_PER_ROW)

    async def _send_bulk_inserts(self) -> None:
        """Send the waiting bulk inserts, and check that they were stored."""
        if self._bulk_inserts:
            await self._send_with_bulk("DO 0", None)

    async def _send_with_bulk(self, sql: str, parameters: Mapping[str, Any] | Row | None) -> Sequence[Row]:
        """Send the waiting bulk inserts, the deferred statements and a statement, pipelined."""
        *others, last = self._bulk_inserts
        self.defer(sql, parameters or {})
        check = self._cursor.mogrify(statement("require_row_count"), {"count": len(last[1][0])})
        script = self._script((check, *self._deferred), is_end=sql == _COMMIT)
        self._bulk_inserts.clear()
        self._deferred.clear()
        with self._pipelining():
            try:
                await self._pipeline.prepare_all([one for one, *_ in (*others, last)], self._response_seconds)
            except _FAILURES as error:
                raise NothingSent(str(error)) from error
            for one in others:
                await self._pipeline.insert(one, "", self._response_seconds_for(one))
            return await self._pipeline.insert(last, script, self._response_seconds_for(last))

    def _response_seconds_for(self, insert: BulkInsert) -> float:
        return self._response_seconds + len(insert[1][0]) * SECONDS_PER_ROW

    def _script(self, statements: Sequence[str], *, is_end: bool) -> str:
        """Join statements; with the commit as the last, into one compound statement with a single response.

        That saves responses. And if a list of statements is killed between two of them, the responses of the rest would
        never come.
        """
        if is_end and self.is_mariadb and len(statements) > 1:
            return ";\n".join(("BEGIN NOT ATOMIC\n" + statements[0], *statements[1:], "END"))
        return ";\n".join(statements)

    @contextmanager
    def _pipelining(self) -> Iterator[None]:
        try:
            yield
        except PipeliningBroken as error:
            raise PipelineLost("two pipelined commands were not answered") from error
        except CannotPipeline as error:
            self.can_pipeline = False
            raise RetryTransaction("the server prepares no statements") from error
        except _FAILURES as error:
            raise translate_error(error) from error

    async def commit(self) -> None:
        if self._bulk_inserts:
            await self._send_with_bulk(_COMMIT, None)
        else:
            await self._execute(_COMMIT, None)

    async def rollback(self) -> None:
        self._bulk_inserts.clear()
        self._deferred.clear()
        await self._execute("ROLLBACK", None)

    async def close(self) -> None:
        try:
            await self._raw.ensure_closed()
        except _FAILURES:
            self._raw.close()
        except asyncio.CancelledError:
            self._raw.close()
            raise

    def abandon(self) -> None:
        """Drop the connection without closing it in order; the server rolls back."""
        self._raw.close()

    async def _execute(self, sql: str, parameters: Mapping[str, Any] | Row | None) -> None:
        await self._send_bulk_inserts()
        try:
            if self._deferred:
                self.defer(sql, parameters or {})
                await self._run_deferred(is_end=sql == _COMMIT)
            else:
                async with asyncio.timeout(self._response_seconds):
                    await self._cursor.execute(sql, parameters)
        except _FAILURES as error:
            raise translate_error(error) from error

    async def _run_deferred(self, *, is_end: bool = False) -> None:
        """Send all deferred statements in one packet; the result of the last one is left to be read."""
        if self._deferred:
            script = self._script(self._deferred, is_end=is_end)
            self._deferred.clear()
            async with asyncio.timeout(self._response_seconds):
                await self._cursor.execute(script)
                while await self._cursor.nextset():
                    pass


async def connect(location: MysqlLocation, origin: str, *, autocommit: bool) -> MysqlConnection:
    """Open a connection and set up its session."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            raw = await asyncmy.connect(
                **location.driver_arguments(),
                autocommit=autocommit,
                binary_prefix=True,
                # Count matched rows, not changed ones: a compare-and-set that changes nothing still holds.
                client_flag=CLIENT.FOUND_ROWS,
                connect_timeout=CONNECT_SECONDS,
                stmt_cache_size=_STATEMENTS_KEPT,
            )
    except Exception as error:
        # Any exception: a connection that is reset during its setup raises a plain RuntimeError.
        raise translate_error(error) from error
    detect_half_open_on(getattr(raw, "_transport", None))
    connection = MysqlConnection(raw, origin)
    try:
        refuse_unsuitable("MariaDB" if connection.is_mariadb else "MySQL", str(raw.get_server_info()))
        for sql in (*_SESSION, f"SET NAMES utf8mb4 COLLATE {connection.collation}"):
            await connection.run(sql)
        if connection.is_mariadb:
            # Otherwise it turns long lists into subqueries, and EXISTS into IN, and scans whole tables for them.
            await connection.run(
                "SET SESSION in_predicate_conversion_threshold = 0, optimizer_switch = 'exists_to_in=off'"
            )
    except BaseException:
        connection.abandon()
        raise
    # The driver overlooks a status without flags. It would go on to quote as the server does by default, and not as in
    # this session.
    cast("Any", raw).server_status &= ~SERVER_STATUS_NO_BACKSLASH_ESCAPES
    return connection


@cache
def _positional(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement with positional parameters instead of named ones, and the names in order."""
    return _NAMED.sub("%s", sql), tuple(_NAMED.findall(sql))


def chunks(items: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Split a list into lists that are short enough for a statement."""
    for start in range(0, len(items), MAX_LIST):
        yield tuple(items[start : start + MAX_LIST])
