"""Caller transactions: submitting on the caller's own connection to MariaDB or MySQL.

Our statements run after a savepoint, so a submission that fails does not fail the caller's transaction. Only a deadlock
does, since the server rolls back the whole transaction, and the caller gets that error from its own driver. Other
processes are notified in the same transaction, on a row of this connection alone, so no commit waits for another.

The session was set up by the caller. Usually (REPEATABLE READ) it reads the snapshot of its first read, while locking
reads see the present; and locking a key that does not exist locks the gap for all others. So at first only idempotency
keys that are seen are locked. If one turns out to exist that was not seen, all are locked.

asyncmy is this store's own driver. PyMySQL belongs to the caller and is not imported.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from asyncmy.cursors import Cursor

from rota.core.bulk import parents_of
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.graph import NewWorkflow
from rota.core.ids import JobId
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.time import from_micros
from rota.core.waiting import Emission, Emitted
from rota.ports.caller_tx import MakeJobs
from rota.ports.store import Inserted
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
from rota.stores.mysql.driver import Runner
from rota.stores.mysql.errors import CONSTRAINT_ERRORS, ConstraintViolated, RetryTransaction
from rota.stores.mysql.events import emit
from rota.stores.mysql.insert import existing_jobs, insert
from rota.stores.mysql.limits import refuse_full_keys
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import all_migrations
from rota.stores.mysql.pipeline import RowBatch
from rota.stores.mysql.statements import statement
from rota.stores.mysql.workflows import insert_nodes
from rota.stores.rows import Row

_WHERE: Final = "the database that the connection uses"
_REMEDY: Final = "call connection.begin() first, or connect with autocommit=False"
#: No such table or column, or no database selected.
_MISSING: Final = frozenset({1146, 1054, 1046})
_IN_TRANSACTION: Final = 1


#: What was to be stored, and the answers.
_Stored = tuple[Sequence[NewJob] | NewWorkflow, Sequence[Inserted]]


class MysqlCallerConnection:
    """The caller's connection to the database that a URL or a DSN names."""

    def __init__(self, location: str, is_in_transaction: Callable[[], bool], cursor: Callable[[], Any]) -> None:
        self._location = location_of(location)
        self._is_in_transaction = is_in_transaction
        self._make_cursor = cursor

    async def insert(self, make: MakeJobs, *, bound: int | None = None) -> Sequence[Inserted]:
        """Insert jobs, all of them or none."""
        async with self._savepoint() as (runner, scope):
            made, answers = await self._insert_with_retries(runner, make, bound)
            scope.is_kept = not has_refusal(made, answers)
        return answers

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Return a step as this transaction sees it."""
        async with self._savepoint() as (runner, _):
            await self._identify_store(runner)
            return await step(runner, job_id, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Record a step that happens in this transaction."""
        async with self._savepoint() as (runner, _):
            now, _ = await self._identify_store(runner)
            return await perform(runner, job_id, fence, key, outcome, now)

    async def emit(self, emission: Emission) -> Emitted:
        """Emit an event in this transaction."""
        async with self._savepoint() as (runner, _):
            now, number = await self._identify_store(runner)
            emitted = await emit(runner, emission, now)
            if runner.has_made_work:
                await runner.run(statement("notify"), {"origin": f"caller-{number}", "now": now})
            return emitted

    @asynccontextmanager
    async def _savepoint(self) -> AsyncIterator[tuple[_CallerRunner, Savepoint]]:
        """Run statements after a savepoint, and roll back to it after an error or if the result is not kept."""
        if not self._is_in_transaction():
            raise no_transaction(_REMEDY)
        runner, scope = _CallerRunner(self._make_cursor()), Savepoint()
        await runner.run(f"SAVEPOINT {SAVEPOINT}")
        try:
            yield runner, scope
        except (Exception, asyncio.CancelledError):
            # After a deadlock the savepoint is gone; that error must not hide the first one.
            with suppress(Exception):
                await runner.rollback()
            raise
        if not scope.is_kept:
            await runner.rollback()
        await runner.run(f"RELEASE SAVEPOINT {SAVEPOINT}")

    async def _insert_with_retries(self, runner: _CallerRunner, make: MakeJobs, bound: int | None) -> _Stored:
        for number in range(MOST_TRIES):
            try:
                return await self._insert(runner, make, bound, optimistic=number == 0)
            except RetryTransaction:
                await runner.rollback()
        raise StoreUnavailable(f"{self._location.name}: other transactions keep taking the same key or id; try again")

    async def _insert(self, runner: _CallerRunner, make: MakeJobs, bound: int | None, *, optimistic: bool) -> _Stored:
        now, number = await self._identify_store(runner)
        made = make(from_micros(now))
        jobs = jobs_in(made)
        if parents := parents_of(jobs):
            require_parents(parents, await existing_jobs(runner, sorted(parents)))
        if not isinstance(made, NewWorkflow):
            await refuse_full_keys(runner, jobs, now)
        answers = await insert(runner, jobs, bound, now, optimistic=optimistic, may_be_full=False)
        if isinstance(made, NewWorkflow) and not has_refusal(made, answers):
            await insert_nodes(runner, made, now)
        if runner.has_made_work:
            await runner.run(statement("notify"), {"origin": f"caller-{number}", "now": now})
        return made, answers

    async def _identify_store(self, runner: _CallerRunner) -> tuple[int, int]:
        """Refuse a database that is not the store's; return the time and the connection id."""
        try:
            migrations = await runner.rows(statement("identify_store"))
        except Exception as error:
            if _code_of(error) not in _MISSING:
                raise
            raise not_our_database(_WHERE) from error
        require_schema(((row[0], row[1]) for row in migrations), all_migrations(), _WHERE)
        _, _, database, is_strict, now, number = migrations[0]
        if database != self._location.database:
            message = (
                f"tx: the connection uses the database {database!r} and the store is in {self._location.database!r}"
            )
            raise InvalidRequest(f"{message}; connect to the store's database", field="tx")
        if not is_strict:
            message = "tx: the connection's sql_mode is not strict, so long values would be truncated"
            raise InvalidRequest(f"{message}; add STRICT_TRANS_TABLES to sql_mode", field="tx")
        return int(now), int(number)


class _CallerRunner(Runner):
    """Runs our statements on the caller's connection. Only constraint errors of the driver are translated."""

    #: The session is the caller's, and the driver may be any.
    can_pipeline = False

    def __init__(self, cursor: Any) -> None:  # noqa: ANN401 - of either driver
        self._cursor = cursor
        self.has_made_work = False
        self.bounds: Mapping[str, int] | None = None
        self._deferred: list[tuple[str, Mapping[str, Any] | Row]] = []

    def defer(self, sql: str, parameters: Mapping[str, Any] | Row) -> None:
        """Run a statement before the next one, by itself: the connection may not take two at once."""
        self._deferred.append((sql, parameters))

    async def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row]:
        await self._execute(self._cursor.execute, sql, parameters)
        rows: Sequence[Row] = await resolved(self._cursor.fetchall())
        return rows

    async def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> int:
        await self._execute(self._cursor.execute, sql, parameters)
        return int(self._cursor.rowcount)

    async def many(self, sql: str, rows: Sequence[Row]) -> None:
        await self._execute(self._cursor.executemany, sql, rows)

    async def update_each(self, sql: str, rows: Sequence[Row]) -> None:
        await self.many(sql, rows)

    async def pipeline(self, sql: str | None, batches: Iterable[RowBatch]) -> Sequence[Row]:
        """Not available: `can_pipeline` is false."""
        raise NotImplementedError

    async def rollback(self) -> None:
        """Roll back to our savepoint."""
        self.has_made_work = False
        self._deferred.clear()
        await self.run(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")

    async def _execute(self, execute: Callable[[str, Any], Any], sql: str, parameters: object) -> None:
        try:
            for one in self._deferred:
                await resolved(self._cursor.execute(*one))
            self._deferred.clear()
            await resolved(execute(sql, parameters))
        except Exception as error:
            if _code_of(error) not in CONSTRAINT_ERRORS:
                raise
            raise ConstraintViolated(str(error)) from error


def over_asyncmy(connection: Any, location: str) -> MysqlCallerConnection:  # noqa: ANN401 - its types are stubs
    """Use a connection of asyncmy."""

    def is_in_transaction() -> bool:
        # Without autocommit the server begins a transaction with the first statement.
        return not connection.get_autocommit() or connection.get_transaction_status()

    return MysqlCallerConnection(location, is_in_transaction, lambda: connection.cursor(Cursor))


def over_pymysql(connection: Any, location: str) -> MysqlCallerConnection:  # noqa: ANN401 - not imported here
    """Use a connection of PyMySQL."""
    plain = sys.modules["pymysql.cursors"].Cursor

    def is_in_transaction() -> bool:
        return not connection.get_autocommit() or bool(connection.server_status & _IN_TRANSACTION)

    return MysqlCallerConnection(location, is_in_transaction, lambda: connection.cursor(plain))


def _code_of(error: Exception) -> object:
    return error.args[0] if error.args else None
