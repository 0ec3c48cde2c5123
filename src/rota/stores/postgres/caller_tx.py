"""Submitting in the caller's own transaction, on the caller's connection (`tx=`).

Our statements run behind a savepoint, so a submission that fails does not fail the caller's transaction. The caller's
isolation level holds for them too: a serialization failure reaches the caller from its own driver, and the caller
retries. Listeners are notified in the same transaction; the server delivers that at the commit.

The tables are found in the schema that the store's URL names; without one, by the connection's search_path.

asyncpg is this store's own driver. psycopg is the caller's, and is not imported here.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, Final

from rota.core.bulk import parents_of
from rota.core.errors import StoreUnavailable
from rota.core.graph import NewWorkflow
from rota.core.ids import JobId
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.time import from_micros
from rota.core.waiting import Emission, Emitted
from rota.ports.caller_tx import MakeJobs
from rota.ports.store import Inserted, Receipt
from rota.stores.base.steps import perform, step
from rota.stores.caller_tx import (
    MOST_TRIES,
    SAVEPOINT,
    Savepoint,
    has_refusal,
    jobs_in,
    no_transaction,
    not_our_database,
    require_parents,
    require_schema,
    resolved,
)
from rota.stores.postgres.connection import AsyncpgConnection, MovedError, split_schema
from rota.stores.postgres.events import emit
from rota.stores.postgres.insert import insert, insert_plain
from rota.stores.postgres.limits import refuse_full_keys
from rota.stores.postgres.migrations import all_migrations
from rota.stores.postgres.notify import CHANNEL
from rota.stores.postgres.statements import StatementRunner, all_ids, changed_by, qualifier_of, statement
from rota.stores.postgres.workflows import insert_nodes
from rota.stores.rows import Row, are_plain

#: The sender's mark of our notifications: that of no store, so every listener takes them for another's.
_MARK: Final = "caller"
#: SQLSTATEs: there is no such table, column or schema.
_MISSING: Final = frozenset({"42P01", "42703", "3F000"})
#: Unique violation: a job came and ended, or a key was taken, while our statement was running.
_ID_TAKEN: Final = "23505"
_PARAMETER: Final = re.compile(r"\$(\d+)")


#: What was to be stored, and the answers.
_Stored = tuple[Sequence[NewJob] | NewWorkflow, Sequence[Inserted]]


class PostgresCallerConnection:
    """A connection that the caller passed as `tx=`: jobs are inserted in its open transaction."""

    def __init__(
        self, runner: StatementRunner, is_in_transaction: Callable[[], bool], schema: str | None, remedy: str
    ) -> None:
        self._runner = runner
        where = "on its search_path" if schema is None else f"in schema {schema}"
        self._where = f"the database that the connection leads to, {where}"
        self._is_in_transaction = is_in_transaction
        self._remedy = remedy

    async def insert(self, make: MakeJobs, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs, all of them or none."""
        async with self._savepoint() as room:
            made, answers = await self._insert_retrying(make, bound)
            room.is_kept = not has_refusal(made, answers)
        return answers

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Return a step as this transaction sees it."""
        async with self._savepoint():
            await self._require_store()
            return await step(self._runner, job_id, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Record a step whose effect happens in this transaction."""
        async with self._savepoint():
            now = await self._require_store()
            return await perform(self._runner, job_id, fence, key, outcome, now)

    async def emit(self, emission: Emission) -> Emitted:
        """Emit an event in this transaction."""
        async with self._savepoint():
            emitted = await emit(self._runner, emission, await self._require_store())
            if emitted.is_new:
                await self._runner.rows("notify", CHANNEL, _MARK)
            return emitted

    @asynccontextmanager
    async def _savepoint(self) -> AsyncIterator[Savepoint]:
        """Run statements behind a savepoint, and roll back to it if they fail or are not to be kept."""
        if not self._is_in_transaction():
            raise no_transaction(self._remedy)
        room = Savepoint()
        await self._runner.execute(f"SAVEPOINT {SAVEPOINT}")
        try:
            yield room
        except (Exception, asyncio.CancelledError):
            # The connection itself may be lost; that must not hide the first error.
            with suppress(Exception):
                await self._roll_back()
            raise
        if room.is_kept:
            await self._runner.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
        else:
            await self._roll_back()

    async def _insert_retrying(self, make: MakeJobs, bound: int | None) -> _Stored:
        for _ in range(MOST_TRIES):
            try:
                return await self._insert(make, bound)
            except Exception as error:
                if not isinstance(error, MovedError) and getattr(error, "sqlstate", None) != _ID_TAKEN:
                    raise
                await self._runner.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        raise StoreUnavailable("PostgreSQL: conflicts with other transactions; try again")

    async def _insert(self, make: MakeJobs, bound: int | None) -> _Stored:
        now = await self._require_store()
        made = make(from_micros(now))
        jobs = jobs_in(made)
        if parents := parents_of(jobs):
            require_parents(parents, await self._runner.values("job_states", sorted(parents)))
        if not isinstance(made, NewWorkflow):
            await refuse_full_keys(self._runner, jobs, now)
        answers = await _stored(self._runner, jobs, bound, now)
        if any(answer.receipt is Receipt.CREATED for answer in answers):
            await self._runner.rows("notify", CHANNEL, _MARK)
        if isinstance(made, NewWorkflow) and not has_refusal(made, answers):
            await insert_nodes(self._runner, made, now)
        return made, answers

    async def _require_store(self) -> int:
        """Refuse a database that is not a store of this release, and return the server's time."""
        try:
            registered = await self._runner.rows("installed_migrations")
        except Exception as error:
            if getattr(error, "sqlstate", None) not in _MISSING:
                raise
            raise not_our_database(self._where) from error
        require_schema(((number, name) for number, name, *_ in registered), all_migrations(), self._where)
        _, _, is_one_schema, now = registered[0]
        if not is_one_schema:
            raise not_our_database(self._where)
        return int(now)

    async def _roll_back(self) -> None:
        await self._runner.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        await self._runner.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")


async def _stored(runner: StatementRunner, jobs: Sequence[NewJob], bound: int | None, now: int) -> Sequence[Inserted]:
    """Store a batch. Plain jobs are one statement; what it leaves aside takes the general way."""
    first: Sequence[Inserted | None] = [None] * len(jobs)
    if are_plain(jobs):
        first = await insert_plain(runner, jobs, all_ids, bound, now)
    left = [job for job, answer in zip(jobs, first, strict=True) if answer is None]
    rest = iter(await insert(runner, left, bound, now, may_be_full=False) if left else ())
    return [next(rest) if answer is None else answer for answer in first]


def over_asyncpg(connection: AsyncpgConnection, url: str) -> PostgresCallerConnection:
    """Use a connection of asyncpg, from a pool or not, for the store at a URL."""
    _, schema = split_schema(url)
    runner = _AsyncpgRunner(connection, qualifier_of(schema))
    remedy = "open one: `async with connection.transaction():`"
    return PostgresCallerConnection(runner, connection.is_in_transaction, schema, remedy)


def over_psycopg(connection: Any, url: str, *, is_async: bool) -> PostgresCallerConnection:  # noqa: ANN401 - not imported
    """Use a connection of psycopg 3, for the store at a URL."""
    _, schema = split_schema(url)
    psycopg = sys.modules["psycopg"]
    cursor_class = psycopg.AsyncCursor if is_async else psycopg.Cursor
    idle = psycopg.pq.TransactionStatus.IDLE

    def is_in_transaction() -> bool:
        # Otherwise the driver begins one with the first statement.
        return not connection.autocommit or connection.info.transaction_status != idle

    def make_cursor() -> Any:  # noqa: ANN401 - psycopg's
        return cursor_class(connection, row_factory=psycopg.rows.tuple_row)

    runner = _PsycopgRunner(make_cursor, qualifier_of(schema))
    return PostgresCallerConnection(runner, is_in_transaction, schema, "open one: `with connection.transaction():`")


class _AsyncpgRunner(StatementRunner):
    """Runs our statements on a caller's connection of asyncpg, prepared by the driver only."""

    def __init__(self, connection: AsyncpgConnection, qualifier: str) -> None:
        self._connection = connection
        self._qualifier = qualifier

    async def rows(self, name: str, *arguments: object) -> Sequence[Row]:
        rows: Sequence[Any] = await self._connection.fetch(statement(name, self._qualifier), *arguments)
        return rows

    async def run(self, name: str, *arguments: object) -> int:
        return changed_by(await self._connection.execute(statement(name, self._qualifier), *arguments))

    async def execute(self, command: str) -> None:
        await self._connection.execute(command)


class _PsycopgRunner(StatementRunner):
    """Runs our statements on psycopg, which has named parameters and takes only lists for arrays."""

    def __init__(self, make_cursor: Callable[[], Any], qualifier: str) -> None:
        self._make_cursor = make_cursor
        self._qualifier = qualifier

    async def rows(self, name: str, *arguments: object) -> Sequence[Row]:
        cursor = await self._execute(_with_names(statement(name, self._qualifier)), arguments)
        rows: Sequence[Row] = await resolved(cursor.fetchall())
        return rows

    async def run(self, name: str, *arguments: object) -> int:
        cursor = await self._execute(_with_names(statement(name, self._qualifier)), arguments)
        return int(cursor.rowcount)

    async def execute(self, command: str) -> None:
        await self._execute(command, ())

    async def _execute(self, sql: str, arguments: Sequence[object]) -> Any:  # noqa: ANN401 - psycopg's cursor
        cursor = self._make_cursor()
        parameters = {
            f"p{number}": list(value) if isinstance(value, tuple) else value
            for number, value in enumerate(arguments, start=1)
        }
        await resolved(cursor.execute(sql, parameters or None))
        return cursor


@cache
def _with_names(sql: str) -> str:
    """Write a statement's parameters in the style of psycopg."""
    return _PARAMETER.sub(r"%(p\1)s", sql.replace("%", "%%"))
