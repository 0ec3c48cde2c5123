"""Group commit: several operations run in one transaction and are committed once.

An operation is a plain function over a connection (a verb) with its arguments and the caller that waits for the result.

Failures: if an operation raises, the transaction is rolled back and each operation is run again in a transaction of its
own, so that one bad request cannot fail the others. If the commit itself fails, all operations get `StoreUnavailable`:
whether they happened is unknown, and every verb is safe to repeat.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.core.errors import StoreUnavailable
from rota.stores.sqlite.driver import (
    DatabaseBusy,
    DatabaseFailed,
    SqliteConnection,
    begin_immediate,
    busy_pause,
    roll_back,
)

#: How often operations that read first are tried without the write lock, before they are run with it.
READ_FIRST_ATTEMPTS: Final = 3

Verb = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OperationMode:
    """How an operation may be run."""

    #: May share one call with other operations of the same verb and equal further arguments. The first argument is a
    #: batch, and the verb returns one result for each item, in order.
    is_mergeable: bool = False
    #: Does the same in one statement that is a transaction by itself. It returns None, and changes nothing, where that
    #: is impossible. Only for mergeable verbs.
    single_statement: Verb | None = None
    #: Reads first and often has nothing to write: the write lock is taken only when it writes.
    reads_first: bool = False


PLAIN: Final = OperationMode()
MERGEABLE: Final = OperationMode(is_mergeable=True)


class QueuedCall:
    """A verb with its arguments, and the caller that waits: a task on an event loop, a blocked thread, or none."""

    # Class attributes: every job makes an operation, and most operations set none of these.
    #: A lock that a blocked thread waits for; released when there is a result.
    waiting: threading.Lock | None = None
    #: Set when the blocked thread stops waiting.
    is_abandoned = False
    result: Any = None
    error: BaseException | None = None

    def __init__(
        self, verb: Verb, arguments: tuple[Any, ...], mode: OperationMode, future: asyncio.Future[Any] | None = None
    ) -> None:
        self.verb = verb
        self.arguments = arguments
        self.mode = mode
        self.future = future

    @property
    def is_awaited(self) -> bool:
        return not (self.is_abandoned or (self.future is not None and self.future.cancelled()))

    def outcome(self) -> Any:  # noqa: ANN401 - as the verb returns
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result


def run_in_transaction(connection: SqliteConnection, operations: Sequence[QueuedCall]) -> None:
    """Run operations in one transaction; if one of them fails, each in a transaction of its own."""
    if _run_as_single_statement(connection, operations):
        return
    if all(one.mode.reads_first for one in operations) and _run_reading_first(connection, operations):
        return
    begin_immediate(connection)
    try:
        _run_operations(connection, operations)
    except Exception as error:  # noqa: BLE001 - it is the operation's result, not ours
        roll_back(connection)
        if len(operations) == 1 or isinstance(error, DatabaseFailed):
            fail(operations, error)
            return
        for operation in operations:
            run_in_transaction(connection, [operation])
        return
    _commit(connection, operations)


def _run_operations(connection: SqliteConnection, operations: Sequence[QueuedCall]) -> None:
    """Run operations, mergeable ones of the same verb in one call.

    Operations of one batch have no order among each other. Merged calls come first and the others (claims above all)
    last, so that claims see the jobs inserted by the same transaction.
    """
    if len(operations) == 1:
        _run_alone(connection, operations[0])
        return
    groups: dict[tuple[Any, ...], list[QueuedCall]] = {}
    alone: list[QueuedCall] = []
    for operation in operations:
        if operation.mode.is_mergeable:
            groups.setdefault((operation.verb, *operation.arguments[1:]), []).append(operation)
        else:
            alone.append(operation)
    for group in groups.values():
        _run_merged(connection, group)
    for operation in alone:
        _run_alone(connection, operation)


def _run_alone(connection: SqliteConnection, operation: QueuedCall) -> None:
    operation.result = operation.verb(connection, *operation.arguments)


def _run_merged(connection: SqliteConnection, operations: Sequence[QueuedCall]) -> None:
    if len(operations) == 1:
        _run_alone(connection, operations[0])
        return
    results = operations[0].verb(connection, _all_items(operations), *operations[0].arguments[1:])
    _distribute(operations, results)


def _all_items(operations: Sequence[QueuedCall]) -> list[Any]:
    return [item for operation in operations for item in operation.arguments[0]]


def _distribute(operations: Sequence[QueuedCall], results: Sequence[Any]) -> None:
    start = 0
    for operation in operations:
        end = start + len(operation.arguments[0])
        operation.result = results[start:end]
        start = end


def _commit(connection: SqliteConnection, operations: Sequence[QueuedCall]) -> None:
    try:
        connection.run("COMMIT")
    except (DatabaseFailed, DatabaseBusy) as error:
        roll_back(connection)
        fail(operations, error)


def _run_reading_first(connection: SqliteConnection, operations: Sequence[QueuedCall]) -> bool:
    """Run operations without the write lock until one of them writes; return whether that succeeded.

    SQLite refuses the lock if another process has written since this transaction began to read, or holds the lock. Then
    everything is read again after a short pause: a claim that came too late finds nothing, and does not block others.
    """
    for attempt in range(READ_FIRST_ATTEMPTS):
        if attempt:
            busy_pause()
        try:
            connection.run("BEGIN")
            _run_operations(connection, operations)
        except DatabaseBusy:
            roll_back(connection)
            continue
        except Exception:  # noqa: BLE001 - which operation failed is found out with the lock
            roll_back(connection)
            return False
        _commit(connection, operations)
        return True
    return False


def _run_as_single_statement(connection: SqliteConnection, operations: Sequence[QueuedCall]) -> bool:
    """Run operations as one statement without BEGIN and COMMIT; return whether that was possible.

    For a single job, BEGIN and COMMIT cost as much as the insert. For many, each further statement releases the
    interpreter lock and has to wait until the thread that submits releases it again.
    """
    first = operations[0]
    if (single_statement := first.mode.single_statement) is None:
        return False
    try:
        if len(operations) == 1:
            first.result = results = single_statement(connection, *first.arguments)
            return results is not None
        if not _can_merge(operations):
            return False
        results = single_statement(connection, _all_items(operations), *first.arguments[1:])
    except DatabaseBusy:
        roll_back(connection)
        # Nothing was done. A transaction waits for the lock.
        return False
    except Exception as error:  # noqa: BLE001 - it is the operation's result
        # It may be raised by a signal handler (a timeout) in the middle of a transaction. A transaction left open would
        # lock out other processes, and the next operations would be acknowledged without being committed.
        roll_back(connection)
        if len(operations) > 1 and not isinstance(error, DatabaseFailed):
            # Which operation failed is found out in transactions of their own.
            return False
        fail(operations, error)
        return True
    if results is None:
        return False
    # Outside the try block: it is committed, and an error from here on must not repeat it.
    _distribute(operations, results)
    return True


def _can_merge(operations: Sequence[QueuedCall]) -> bool:
    first = operations[0]
    verb, rest = first.verb, first.arguments[1:]
    return all(one.verb is verb and one.arguments[1:] == rest for one in operations)


def fail(operations: Iterable[QueuedCall], error: Exception) -> None:
    """Make an error the outcome of operations; the driver's errors become `StoreUnavailable`."""
    if isinstance(error, DatabaseFailed | DatabaseBusy):
        unavailable = StoreUnavailable(f"SQLite: {error}")
        unavailable.__cause__ = error
        error = unavailable
    for operation in operations:
        operation.result, operation.error = None, error


def deliver(batch: list[QueuedCall]) -> None:
    """Pass the outcomes to the waiting callers, waking each thread and each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[QueuedCall]] = {}
    for operation in batch:
        if operation.waiting is not None:
            operation.waiting.release()
        elif operation.future is not None:
            by_loop.setdefault(operation.future.get_loop(), []).append(operation)
    for loop, operations in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set_outcomes, operations)
        except RuntimeError:
            continue  # that loop is closed, and so are its callers


def _set_outcomes(operations: list[QueuedCall]) -> None:
    for operation in operations:
        future = operation.future
        if future is None or future.done():
            continue
        if operation.error is not None:
            future.set_exception(operation.error)
        else:
            future.set_result(operation.result)
