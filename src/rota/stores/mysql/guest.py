"""The caller's own connection to MariaDB or MySQL: submitting within the caller's transaction.

All that is ours stands behind a savepoint, so a submission that fails does not fail the caller's transaction; only a
deadlock does, since the server rolls all of it back, and the caller hears so from its own driver. The bell for other
processes is rung in the same transaction, on a row of this connection's own, so nobody waits for anybody's commit.

The session was set up by the caller. Most often (REPEATABLE READ) it looks at the moment of its first read, while what
is locked is seen as it is now; and to lock what is not there means to lock the gap where it would be, against all. So
at first only keys are locked that are seen. If one turns out to be there that was not seen, all are locked.

asyncmy is this store's own driver. PyMySQL is the caller's, for us to use and not to import.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from asyncmy.cursors import Cursor

from rota.core.alike import parents_of
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.identity import JobId
from rota.core.instant import from_micros
from rota.core.step import Step
from rota.ports.guest import Make
from rota.ports.store import Inserted
from rota.stores.guests import (
    ROUNDS,
    SAVEPOINT,
    Room,
    answered,
    foreign,
    has_refusal,
    require_form,
    require_parents,
    without_transaction,
)
from rota.stores.mysql.driver import CLASHES, Again, Clash
from rota.stores.mysql.flight import Parcel
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import all_migrations
from rota.stores.mysql.statements import statement
from rota.stores.mysql.stepping import look, perform
from rota.stores.mysql.submitting import insert, known_of
from rota.stores.rows import Row

_WHERE: Final = "the database that the connection uses"
_REMEDY: Final = "call connection.begin() first, or connect with autocommit=False"
#: There is no such table or column, or no database was chosen.
_MISSING: Final = frozenset({1146, 1054, 1046})
_IN_TRANSACTION: Final = 1


class MysqlGuest:
    """Acts through a connection of the caller's to the database that a URL or a DSN names."""

    def __init__(self, location: str, is_in_transaction: Callable[[], bool], cursor: Callable[[], Any]) -> None:
        self._location = location_of(location)
        self._is_in_transaction = is_in_transaction
        self._make_cursor = cursor

    async def insert(self, make: Make, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs, all of them or none."""
        async with self._room() as (runner, room):
            answers = await self._insert_patiently(runner, make, bound)
            room.is_kept = not has_refusal(answers)
        return answers

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Give a step as this transaction sees it."""
        async with self._room() as (runner, _):
            await self._recognise(runner)
            return await look(runner, job_id, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Write down that a step happens in this transaction."""
        async with self._room() as (runner, _):
            now, _ = await self._recognise(runner)
            return await perform(runner, job_id, fence, key, outcome, now)

    @asynccontextmanager
    async def _room(self) -> AsyncIterator[tuple[_GuestRunner, Room]]:
        """Stand behind a savepoint: what fails, or is not to be kept, leaves no trace."""
        if not self._is_in_transaction():
            raise without_transaction(_REMEDY)
        runner, room = _GuestRunner(self._make_cursor()), Room()
        await runner.run(f"SAVEPOINT {SAVEPOINT}")
        try:
            yield runner, room
        except (Exception, asyncio.CancelledError):
            # After a deadlock there is no savepoint any more; what went wrong must not be hidden by that.
            with suppress(Exception):
                await runner.rollback()
            raise
        if not room.is_kept:
            await runner.rollback()
        await runner.run(f"RELEASE SAVEPOINT {SAVEPOINT}")

    async def _insert_patiently(self, runner: _GuestRunner, make: Make, bound: int | None) -> Sequence[Inserted]:
        for number in range(ROUNDS):
            try:
                return await self._insert(runner, make, bound, boldly=number == 0)
            except Again:
                await runner.rollback()
        raise StoreUnavailable(f"{self._location.name}: others keep taking the same key or id; try again")

    async def _insert(self, runner: _GuestRunner, make: Make, bound: int | None, *, boldly: bool) -> Sequence[Inserted]:
        now, number = await self._recognise(runner)
        jobs = make(from_micros(now))
        if parents := parents_of(jobs):
            require_parents(parents, await known_of(runner, sorted(parents)))
        answers = await insert(runner, jobs, bound, now, boldly=boldly)
        if runner.has_made_work:
            await runner.run(statement("ring"), {"origin": f"guest-{number}", "now": now})
        return answers

    async def _recognise(self, runner: _GuestRunner) -> tuple[int, int]:
        """Refuse a database that is not the store's; tell the time and the connection's number."""
        try:
            registered = await runner.rows(statement("recognise"))
        except Exception as error:
            if _code_of(error) not in _MISSING:
                raise
            raise foreign(_WHERE) from error
        require_form(((row[0], row[1]) for row in registered), all_migrations(), _WHERE)
        _, _, database, is_strict, now, number = registered[0]
        if database != self._location.database:
            message = (
                f"tx: the connection uses the database {database!r} and the store is in {self._location.database!r}"
            )
            raise InvalidRequest(f"{message}; connect to the store's database", field="tx")
        if not is_strict:
            message = "tx: the connection's sql_mode is not strict, so what does not fit would be cut and not refused"
            raise InvalidRequest(f"{message}; add STRICT_TRANS_TABLES to it", field="tx")
        return int(now), int(number)


class _GuestRunner:
    """Runs our statements on the caller's connection. What the driver raises stays as it is, but for a clash."""

    #: The session is the caller's.
    can_fly = False

    def __init__(self, cursor: Any) -> None:  # noqa: ANN401 - of either driver
        self._cursor = cursor
        self.has_made_work = False
        self.bounds: Mapping[str, int] | None = None
        self._deferred: list[tuple[str, Mapping[str, Any] | Row]] = []

    def defer(self, sql: str, parameters: Mapping[str, Any] | Row) -> None:
        """Run a statement before the next one: the caller's connection may not take two at once."""
        self._deferred.append((sql, parameters))

    async def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        await self._ask(self._cursor.execute, sql, parameters)
        found: Sequence[Row] = await answered(self._cursor.fetchall())
        return found

    async def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement and say how many rows it found to change, or made."""
        await self._ask(self._cursor.execute, sql, parameters)
        return int(self._cursor.rowcount)

    async def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""
        await self._ask(self._cursor.executemany, sql, rows)

    async def each(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement that changes one row, for each row of parameters. One that is ended raises, by itself."""
        await self.many(sql, rows)

    async def fly(self, sql: str | None, parcels: Iterable[Parcel]) -> Sequence[Row]:
        """Never: the driver may be any."""
        raise NotImplementedError

    async def rollback(self) -> None:
        """Undo what we did, and nothing of what the caller did."""
        self.has_made_work = False
        self._deferred.clear()
        await self.run(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")

    async def _ask(self, execute: Callable[[str, Any], Any], sql: str, parameters: object) -> None:
        try:
            for one in self._deferred:
                await answered(self._cursor.execute(*one))
            self._deferred.clear()
            await answered(execute(sql, parameters))
        except Exception as error:
            if _code_of(error) not in CLASHES:
                raise
            raise Clash(str(error)) from error


def over_asyncmy(connection: Any, location: str) -> MysqlGuest:  # noqa: ANN401 - its types are stubs
    """Use a connection of asyncmy."""

    def is_in_transaction() -> bool:
        # Otherwise the server begins one with the first statement.
        return not connection.get_autocommit() or connection.get_transaction_status()

    return MysqlGuest(location, is_in_transaction, lambda: connection.cursor(Cursor))


def over_pymysql(connection: Any, location: str) -> MysqlGuest:  # noqa: ANN401 - a driver that we do not import
    """Use a connection of PyMySQL."""
    plain = sys.modules["pymysql.cursors"].Cursor

    def is_in_transaction() -> bool:
        return not connection.get_autocommit() or bool(connection.server_status & _IN_TRANSACTION)

    return MysqlGuest(location, is_in_transaction, lambda: connection.cursor(plain))


def _code_of(error: Exception) -> object:
    return error.args[0] if error.args else None
