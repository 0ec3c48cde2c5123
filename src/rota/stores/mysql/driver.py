"""A connection to the server, as little of it as we need, over asyncmy. Its errors, in our words.

Statements with named parameters go as text, which lists need. Those with a row, or many, go as prepared statements:
MariaDB takes any number of rows in one round trip, for inserts and updates alike.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any, Final, Protocol, cast

import asyncmy
from asyncmy import errors
from asyncmy.constants import CLIENT
from asyncmy.constants.SERVER_STATUS import SERVER_STATUS_NO_BACKSLASH_ESCAPES
from asyncmy.cursors import Cursor

from rota.core.errors import InvalidRequest
from rota.sockets import notice_silence_of
from rota.stores.mysql.flight import Carrier, Freight, Grounded, Parcel, Unfit
from rota.stores.mysql.location import Location
from rota.stores.mysql.packets import MOST_ROWS, most_alike, packets, without_nulls
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: Compares characters by their number, and a trailing space is a character. The same thing has two names.
MARIADB_COLLATION: Final = "utf8mb4_nopad_bin"
MYSQL_COLLATION: Final = "utf8mb4_0900_bin"
#: How long it may take to connect. With a statement that is waited for in vain it makes 10 s.
CONNECT_SECONDS: Final = 3
#: A server that has not answered after so long is gone, whatever the network says. We count it ourselves, once for each
#: thing that we ask: the driver would start a task for each piece of an answer, a sixth of the client's work in a bulk.
#: Longer than the server lets a statement wait for a lock.
PATIENCE_SECONDS: Final = 7.0
#: What many rows in one statement may take longer.
SECONDS_FOR_A_ROW: Final = 0.01
#: How long a connection that has rested may take to answer a ping.
PROBE_SECONDS: Final = 2.0
#: For what goes through whole tables: migrations, and a check of all there is.
LONG_PATIENCE_SECONDS: Final = 6 * 3600.0
LOCK_WAIT_SECONDS: Final = 5
#: A connection that was used within this time is taken for sound.
REST_SECONDS: Final = 0.1
#: Lists longer than this are cut: for very long ones the planner stops looking at keys.
LONGEST_LIST: Final = 500
_STATEMENTS_KEPT: Final = 128
_COMMIT: Final = "COMMIT"
#: What the driver raises when a statement fails. A RuntimeError is raised for a transport that is closed by now.
_FAILURES: Final = (errors.MySQLError, OSError, EOFError, RuntimeError)
_NAMED: Final = re.compile(r"%\((\w+)\)s")

#: Without backslash escapes our quoting would not hold; without strictness values would be bent to fit.
_SESSION: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY', time_zone = '+00:00'",
    # The second is for tables as such: whoever waits to change one stops everybody who comes after.
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}, lock_wait_timeout = {LOCK_WAIT_SECONDS}",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)


class Again(Exception):
    """The transaction was chosen to yield, or waited too long for another: it is to be run again, whole."""


class Lost(Exception):
    """The server or the way to it is gone. What was not committed did not happen."""


class Silent(Lost):
    """It did not answer in time. Other connections may lead to the same silence."""


class Unsent(Lost):
    """It was gone before anything was sent that could have been done."""


class Unpassable(Unsent):
    """It is gone because we tried to fly, and whatever is between us and the server does not bear it."""


class Clash(Exception):
    """A constraint refused a row. The statement did nothing, the transaction goes on."""


class Unmet(Exception):
    """A statement that goes on only under a condition has ended: the rest was not done, and all is to be undone."""


class Broken(Exception):
    """The server refuses to serve: full disk, missing rights, missing table."""


class Interrupted(Broken):
    """Somebody has ended the statement, and nothing but that."""


#: Deadlock, lock wait, and a row that changed under a snapshot.
_AGAIN: Final = frozenset({1213, 1205, 1020, 1412})
CLASHES: Final = frozenset({1062, 1048, 4025, 3819})
#: Too long, not text, out of range, larger than a packet: the request's own fault.
_UNFIT: Final = frozenset({1406, 1366, 1264, 1153, 1300})
#: Connection errors of the client; and of the server: too many, shutting down, killed, network, idle, read only.
_LOST: Final = frozenset(
    {0, 2000, 2002, 2003, 2006, 2013, 2014, 2055}
    | {1040, 1053, 1129, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1290, 1792, 1836, 1927, 4031}
)
_INTERRUPTED: Final = 1317
#: Raised by a statement of ours.
_SIGNALLED: Final = 1644


def translated(error: Exception) -> Exception:
    """Say in our words what the driver or the server reported."""
    if isinstance(error, TimeoutError):
        return Silent("no answer in time")
    if not isinstance(error, errors.MySQLError):
        return Lost(f"{type(error).__name__}: {error}")
    code, message = (*error.args, 0, "")[:2] if error.args else (0, str(error))
    text = f"{message} ({code})"
    if code in _AGAIN:
        return Again(text)
    if code in CLASHES:
        return Clash(text)
    if code == _SIGNALLED:
        return Unmet(text)
    if code in _UNFIT:
        return InvalidRequest(f"the database cannot keep this: {text}")
    if code in _LOST or isinstance(error, errors.InterfaceError | errors.InternalError):
        return Lost(text)
    return Interrupted(text) if code == _INTERRUPTED else Broken(text)


class _QuietCursor(Cursor):
    """Asks for no warnings: what matters is an error in strict mode."""

    async def _show_warnings(self, conn: object) -> None:
        pass


class Runner(Protocol):
    """Runs statements, in a transaction that is ours or a caller's."""

    #: Whether the transaction has made work that others should hear of.
    has_made_work: bool
    #: Whether statements may be sent before the last is answered, and read variables of the session, which is ours.
    can_fly: bool
    #: Which queues had a bound when we last looked. None if nothing may be done before we look.
    bounds: Mapping[str, int] | None

    async def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        ...

    async def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement and say how many rows it found to change, or made."""
        ...

    def defer(self, sql: str, parameters: Mapping[str, Any] | Row) -> None:
        """Run a statement together with the next one, or with the commit: for what gives no answer that matters."""
        ...

    async def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""
        ...

    async def each(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement that changes one row, for each row of parameters; it fails unless all were there."""
        ...

    async def fly(self, sql: str | None, parcels: Iterable[Parcel]) -> Sequence[Row]:
        """Ask a question, if any, and run statements with many rows, all at once; give the rows the question yields."""
        ...

    async def rollback(self) -> None:
        """Undo what was done; in a caller's transaction, only what we did."""
        ...


class Connection:
    """One connection. Used by one task at a time."""

    def __init__(self, raw: asyncmy.Connection, origin: str) -> None:
        self._raw = raw
        self._cursor = raw.cursor(_QuietCursor)
        self.is_mariadb = "mariadb" in str(raw.get_server_info()).lower()
        self._carrier = Carrier(raw)
        #: Whether statements may be sent before the last is answered, and read variables of the session.
        self.can_fly = self.is_mariadb and self._carrier.is_able
        #: Which queues had a bound when we last looked.
        self.bounds: Mapping[str, int] | None = {}
        #: Under which name this writer rings the bell.
        self.origin = origin
        #: Whether the transaction has made work that others should hear of.
        self.has_made_work = False
        #: Whether what runs now has run before and had to yield to others: it goes where it waits for nobody.
        self.has_yielded = False
        #: When it was last given back.
        self.used_at = time.monotonic()
        self._deferred: list[str] = []
        #: Rows that go ahead of what was put off.
        self._freight: list[Freight] = []
        self._patience = PATIENCE_SECONDS

    @contextmanager
    def at_leisure(self, seconds: float = LONG_PATIENCE_SECONDS) -> Iterator[None]:
        """Give the server more time: hours for what goes through whole tables, or as much as it was told to wait."""
        self._patience = seconds
        try:
            yield
        finally:
            self._patience = PATIENCE_SECONDS

    async def probe(self) -> None:
        """See that the server still answers."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._raw.ping(reconnect=False)
        except Exception as error:
            failure = translated(error)
            raise failure if isinstance(failure, Lost) else Lost(str(failure)) from error
        self.used_at = time.monotonic()

    @property
    def collation(self) -> str:
        """How this server calls the collation we use."""
        return MARIADB_COLLATION if self.is_mariadb else MYSQL_COLLATION

    @property
    def has_rested(self) -> bool:
        """Whether nothing was asked for so long that the server may have hung up meanwhile; the driver does not say."""
        return time.monotonic() > self.used_at + REST_SECONDS

    async def rows(self, sql: str, parameters: Mapping[str, Any] | Row | None = None) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        if self._freight:
            return await self._follow(sql, parameters)
        await self._execute(sql, parameters)
        found: Sequence[Row] = await self._cursor.fetchall()
        return found

    async def look(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        """Run a statement that comes often and names no lists, and give the rows it yields.

        It is prepared: the server need not read it again, nor we what its columns are.
        """
        prepared, names = _in_places(sql)
        return await self.rows(prepared, tuple([parameters[name] for name in names]))

    async def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement and say how many rows it found to change, or made."""
        await self._execute(sql, parameters)
        # Typed as an object; it is a number.
        return cast("int", self._cursor.rowcount)

    def defer(self, sql: str, parameters: Mapping[str, Any] | Row) -> None:
        """Run a statement together with the next one, or with the commit: for what gives no answer that matters.

        A round trip costs more than most statements. What goes wrong with it is told by the next one.
        """
        self._deferred.append(self._cursor.mogrify(sql, parameters))

    def defer_rows(self, sql: str, rows: Sequence[Row]) -> None:
        """Insert rows together with the next statement; the statement says what one row is."""
        head, row = sql.split(" VALUES ")
        self.defer(f"{head} VALUES {', '.join([row] * len(rows))}", tuple(chain.from_iterable(rows)))

    def carry(self, sql: str, columns: tuple[Sequence[int], ...], common: Row) -> None:
        """Insert rows together with the next statement, and ahead of all that was put off; only where one can fly.

        They differ in columns of numbers only, behind which stands what they have in common: that is written once.
        """
        most = most_alike(common)
        for start in range(0, len(columns[0]), most):
            self._freight.append((sql, tuple(column[start : start + most] for column in columns), common))

    async def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""
        await self._many(sql, rows)

    async def each(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement that changes one row, for each row of parameters; it fails unless all were there.

        To one that somebody ends in the midst of its rows, MariaDB answers that all is well.
        """
        changed = await self._many(sql, rows)
        if changed != len(rows):
            raise Interrupted(f"{changed} of {len(rows)} rows were changed")

    async def _many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement for each row of parameters, and say how many rows it found to change, or made."""
        await self._send_freight()
        changed = 0
        try:
            await self._run_deferred()
            for batch in packets(rows):
                async with asyncio.timeout(self._patience + len(batch) * SECONDS_FOR_A_ROW):
                    if len(batch) == 1:
                        await self._cursor.execute(sql, batch[0])
                    elif self.is_mariadb:
                        await self._cursor.executemany(*without_nulls(sql, batch))
                    else:
                        await self._cursor.executemany(sql, batch)
                changed += cast("int", self._cursor.rowcount)
        except _FAILURES as error:
            raise translated(error) from error
        return changed

    async def fly(self, sql: str | None, parcels: Iterable[Parcel]) -> Sequence[Row]:
        """Ask a question, if any, and run statements with many rows; give the rows that the question yields.

        What was put off goes first. Nothing waits for the answer to what was sent before it, so parcels that are made
        one by one are made while the server works. If this raises, some of it may have been done: roll back.
        """
        await self._send_freight()
        script = ";\n".join((*self._deferred, sql) if sql is not None else self._deferred)
        self._deferred.clear()
        with self._flying():
            return await self._carrier.fly(script, parcels, self._patience + MOST_ROWS * SECONDS_FOR_A_ROW)

    async def _send_freight(self) -> None:
        """Send the rows that wait, if any do, and see that they were stored."""
        if self._freight:
            await self._follow("DO 0", None)

    async def _follow(self, sql: str, parameters: Mapping[str, Any] | Row | None) -> Sequence[Row]:
        """Send the rows that wait, and all that was put off and a statement behind them, in one go."""
        *others, last = self._freight
        self.defer(sql, parameters or {})
        are_stored = self._cursor.mogrify(statement("are_stored"), {"count": len(last[1][0])})
        script = self._script((are_stored, *self._deferred), is_end=sql == _COMMIT)
        self._freight.clear()
        self._deferred.clear()
        with self._flying():
            try:
                await self._carrier.be_ready([one for one, *_ in (*others, last)], self._patience)
            except _FAILURES as error:
                raise Unsent(str(error)) from error
            for one in others:
                await self._carrier.follow(one, "", self._patience_for(one))
            return await self._carrier.follow(last, script, self._patience_for(last))

    def _patience_for(self, freight: Freight) -> float:
        return self._patience + len(freight[1][0]) * SECONDS_FOR_A_ROW

    def _script(self, statements: Sequence[str], *, is_end: bool) -> str:
        """Write statements one after the other; if nobody asks what each of them yields, as one, with one answer.

        That spares answers to be written and read. And of several by themselves, one that somebody ends between two of
        them leaves us waiting for the others' answers.
        """
        if is_end and self.is_mariadb and len(statements) > 1:
            return ";\n".join(("BEGIN NOT ATOMIC\n" + statements[0], *statements[1:], "END"))
        return ";\n".join(statements)

    @contextmanager
    def _flying(self) -> Iterator[None]:
        try:
            yield
        except Unfit as error:
            raise Unpassable("two commands at once were not answered") from error
        except Grounded as error:
            self.can_fly = False
            raise Again("the server has no statements prepared for us") from error
        except _FAILURES as error:
            raise translated(error) from error

    async def commit(self) -> None:
        """Make what was done durable."""
        if self._freight:
            await self._follow(_COMMIT, None)
        else:
            await self._execute(_COMMIT, None)

    async def rollback(self) -> None:
        """Undo what was done."""
        self._freight.clear()
        self._deferred.clear()
        await self._execute("ROLLBACK", None)

    async def close(self) -> None:
        """Let go of the server."""
        try:
            await self._raw.ensure_closed()
        except _FAILURES:
            self._raw.close()
        except asyncio.CancelledError:
            # Nobody comes back for it.
            self._raw.close()
            raise

    def abandon(self) -> None:
        """Drop the connection as it is; the server undoes what was not committed."""
        self._raw.close()

    async def _execute(self, sql: str, parameters: Mapping[str, Any] | Row | None) -> None:
        await self._send_freight()
        try:
            if self._deferred:
                self.defer(sql, parameters or {})
                await self._run_deferred(is_end=sql == _COMMIT)
            else:
                async with asyncio.timeout(self._patience):
                    await self._cursor.execute(sql, parameters)
        except _FAILURES as error:
            raise translated(error) from error

    async def _run_deferred(self, *, is_end: bool = False) -> None:
        """Send all that was put off in one packet; what is left to be read is the answer to the last of it."""
        if self._deferred:
            script = self._script(self._deferred, is_end=is_end)
            self._deferred.clear()
            async with asyncio.timeout(self._patience):
                await self._cursor.execute(script)
                while await self._cursor.nextset():
                    pass


async def connect(location: Location, origin: str, *, autocommit: bool) -> Connection:
    """Open a connection and set it up."""
    words = location.words()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            raw = await asyncmy.connect(
                **words,
                autocommit=autocommit,
                binary_prefix=True,
                # Rows found, not rows changed: a compare-and-set that sets what was there holds.
                client_flag=CLIENT.FOUND_ROWS,
                connect_timeout=CONNECT_SECONDS,
                stmt_cache_size=_STATEMENTS_KEPT,
            )
    except Exception as error:
        # Whatever it is: one that is reset while the driver sets it up is reported by a plain RuntimeError.
        raise translated(error) from error
    notice_silence_of(getattr(raw, "_transport", None))
    connection = Connection(raw, origin)
    try:
        for sql in (*_SESSION, f"SET NAMES utf8mb4 COLLATE {connection.collation}"):
            await connection.run(sql)
        if connection.is_mariadb:
            # Or it makes a subquery of a long list, and a list of a subquery, and scans whole tables for them.
            await connection.run(
                "SET SESSION in_predicate_conversion_threshold = 0, optimizer_switch = 'exists_to_in=off'"
            )
    except BaseException:
        connection.abandon()
        raise
    # A status in which nothing is set is overlooked by the driver. It would go on to quote as the server has it by
    # default, and not as we have told it.
    cast("Any", raw).server_status &= ~SERVER_STATUS_NO_BACKSLASH_ESCAPES
    return connection


@cache
def _in_places(sql: str) -> tuple[str, tuple[str, ...]]:
    """Give a statement whose parameters have places instead of names, and the names in the order of the places."""
    return _NAMED.sub("%s", sql), tuple(_NAMED.findall(sql))


def lists(items: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Cut a list into such as a statement may name."""
    for start in range(0, len(items), LONGEST_LIST):
        yield tuple(items[start : start + LONGEST_LIST])
