"""The caller's own connection to PostgreSQL: submitting within the caller's transaction.

All that is ours stands behind a savepoint, so a submission that fails does not fail the caller's transaction. The
caller's level of isolation holds for us too: where it makes PostgreSQL refuse what two transactions did at once, the
caller hears so from its own driver, and is the one to begin anew. Whoever listens is told in the same transaction; the
server delivers that at the commit.

asyncpg is this store's own driver. psycopg is the caller's, for us to use and not to import.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, Final

from rota.core.alike import parents_of
from rota.core.errors import StoreUnavailable
from rota.core.identity import JobId
from rota.core.instant import from_micros
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.ports.guest import Make
from rota.ports.store import Inserted, Receipt
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
from rota.stores.postgres.connecting import Connection
from rota.stores.postgres.faults import MovedError
from rota.stores.postgres.hearing import CHANNEL
from rota.stores.postgres.migrations import all_migrations
from rota.stores.postgres.statements import Runner, anywhere, changed_by, statement
from rota.stores.postgres.stepping import look, perform
from rota.stores.postgres.submitting import insert, insert_plain
from rota.stores.rows import Row, are_plain

#: No store calls itself so: all who listen take it for somebody else's.
_MARK: Final = "guest"
_WHERE: Final = "the database that the connection leads to, on its search_path"
#: There is no such table, column or schema.
_MISSING: Final = frozenset({"42P01", "42703", "3F000"})
#: Unique violation: a job came and ended, or a key was taken, while our statement was under way.
_ID_TAKEN: Final = "23505"
_PARAMETER: Final = re.compile(r"\$(\d+)")


class PostgresGuest:
    """Acts through a connection of the caller's."""

    def __init__(self, runner: Runner, is_in_transaction: Callable[[], bool], remedy: str) -> None:
        self._runner = runner
        self._is_in_transaction = is_in_transaction
        self._remedy = remedy

    async def insert(self, make: Make, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs, all of them or none."""
        async with self._room() as room:
            answers = await self._insert_patiently(make, bound)
            room.is_kept = not has_refusal(answers)
        return answers

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Give a step as this transaction sees it."""
        async with self._room():
            await self._recognise()
            return await look(self._runner, job_id, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Write down that a step happens in this transaction."""
        async with self._room():
            now = await self._recognise()
            return await perform(self._runner, job_id, fence, key, outcome, now)

    @asynccontextmanager
    async def _room(self) -> AsyncIterator[Room]:
        """Stand behind a savepoint: what fails, or is not to be kept, leaves no trace."""
        if not self._is_in_transaction():
            raise without_transaction(self._remedy)
        room = Room()
        await self._runner.say(f"SAVEPOINT {SAVEPOINT}")
        try:
            yield room
        except (Exception, asyncio.CancelledError):
            # The connection itself may be gone; what went wrong must not be hidden by that.
            with suppress(Exception):
                await self._undo()
            raise
        if room.is_kept:
            await self._runner.say(f"RELEASE SAVEPOINT {SAVEPOINT}")
        else:
            await self._undo()

    async def _insert_patiently(self, make: Make, bound: int | None) -> Sequence[Inserted]:
        for _ in range(ROUNDS):
            try:
                return await self._insert(make, bound)
            except Exception as error:
                if not isinstance(error, MovedError) and getattr(error, "sqlstate", None) != _ID_TAKEN:
                    raise
                await self._runner.say(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        raise StoreUnavailable("PostgreSQL: others keep changing what was looked at; try again")

    async def _insert(self, make: Make, bound: int | None) -> Sequence[Inserted]:
        now = await self._recognise()
        jobs = make(from_micros(now))
        if parents := parents_of(jobs):
            require_parents(parents, await self._runner.values("states", sorted(parents)))
        answers = await _stored(self._runner, jobs, bound, now)
        if any(answer.receipt is Receipt.CREATED for answer in answers):
            await self._runner.rows("notify", CHANNEL, _MARK)
        return answers

    async def _recognise(self) -> int:
        """Refuse a database that is no store, and tell the time."""
        try:
            registered = await self._runner.rows("recognise")
        except Exception as error:
            if getattr(error, "sqlstate", None) not in _MISSING:
                raise
            raise foreign(_WHERE) from error
        require_form(((number, name) for number, name, *_ in registered), all_migrations(), _WHERE)
        _, _, is_one_schema, now = registered[0]
        if not is_one_schema:
            raise foreign(_WHERE)
        return int(now)

    async def _undo(self) -> None:
        await self._runner.say(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        await self._runner.say(f"RELEASE SAVEPOINT {SAVEPOINT}")


async def _stored(runner: Runner, jobs: Sequence[NewJob], bound: int | None, now: int) -> Sequence[Inserted]:
    """Store a batch. Plain jobs are one statement, which leaves aside what needs a closer look."""
    first: Sequence[Inserted | None] = [None] * len(jobs)
    if are_plain(jobs):
        first = await insert_plain(runner, jobs, anywhere, bound, now)
    left = [job for job, answer in zip(jobs, first, strict=True) if answer is None]
    rest = iter(await insert(runner, left, bound, now) if left else ())
    return [next(rest) if answer is None else answer for answer in first]


def over_asyncpg(connection: Connection) -> PostgresGuest:
    """Use a connection of asyncpg, from a pool or not."""
    return PostgresGuest(
        _AsyncpgRunner(connection), connection.is_in_transaction, "open one: `async with connection.transaction():`"
    )


def over_psycopg(connection: Any, *, is_async: bool) -> PostgresGuest:  # noqa: ANN401 - a driver that we do not import
    """Use a connection of psycopg 3."""
    psycopg = sys.modules["psycopg"]
    cursor_class = psycopg.AsyncCursor if is_async else psycopg.Cursor
    idle = psycopg.pq.TransactionStatus.IDLE

    def is_in_transaction() -> bool:
        # Otherwise the driver begins one with the first statement.
        return not connection.autocommit or connection.info.transaction_status != idle

    runner = _PsycopgRunner(lambda: cursor_class(connection, row_factory=psycopg.rows.tuple_row))
    return PostgresGuest(runner, is_in_transaction, "open one: `with connection.transaction():`")


class _AsyncpgRunner:
    """Runs our statements on a connection of asyncpg that is not ours: nothing is prepared there but by the driver."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def rows(self, name: str, *arguments: object) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        rows: Sequence[Any] = await self._connection.fetch(statement(name), *arguments)
        return rows

    async def values(self, name: str, *arguments: object) -> list[Any]:
        """Run a statement and give the first column of the rows it yields."""
        return [row[0] for row in await self.rows(name, *arguments)]

    async def run(self, name: str, *arguments: object) -> int:
        """Run a statement and say how many rows it changed."""
        return changed_by(await self._connection.execute(statement(name), *arguments))

    async def say(self, command: str) -> None:
        """Give a command that has no file."""
        await self._connection.execute(command)


class _PsycopgRunner:
    """Runs our statements on psycopg, which calls parameters by names and takes only lists for arrays."""

    def __init__(self, cursor: Callable[[], Any]) -> None:
        self._make_cursor = cursor

    async def rows(self, name: str, *arguments: object) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        cursor = await self._execute(_with_names(statement(name)), arguments)
        rows: Sequence[Row] = await answered(cursor.fetchall())
        return rows

    async def values(self, name: str, *arguments: object) -> list[Any]:
        """Run a statement and give the first column of the rows it yields."""
        return [row[0] for row in await self.rows(name, *arguments)]

    async def run(self, name: str, *arguments: object) -> int:
        """Run a statement and say how many rows it changed."""
        cursor = await self._execute(_with_names(statement(name)), arguments)
        return int(cursor.rowcount)

    async def say(self, command: str) -> None:
        """Give a command that has no file."""
        await self._execute(command, ())

    async def _execute(self, sql: str, arguments: Sequence[object]) -> Any:  # noqa: ANN401 - psycopg's cursor
        cursor = self._make_cursor()
        parameters = {
            f"p{number}": list(value) if isinstance(value, tuple) else value
            for number, value in enumerate(arguments, start=1)
        }
        await answered(cursor.execute(sql, parameters or None))
        return cursor


@cache
def _with_names(sql: str) -> str:
    """Write a statement's parameters as psycopg wants them."""
    return _PARAMETER.sub(r"%(p\1)s", sql.replace("%", "%%"))
