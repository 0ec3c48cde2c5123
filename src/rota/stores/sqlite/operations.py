"""Operations: plain functions over a connection to SQLite, run together in one transaction.

What happens when something fails: if an operation raises, the transaction is rolled back and every operation is run
again in a transaction of its own, so that one bad request cannot fail its neighbours. If the commit itself fails, all
of them are answered with `StoreUnavailable`: whether they happened is unknown, and every verb is safe to repeat.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from rota.core.errors import StoreUnavailable
from rota.stores.sqlite.driver import Broken, Busy, Connection

#: How long to wait for another process that holds the write lock.
LONGEST_BUSY_SECONDS: Final = 15.0
#: How often whoever reads first looks again when somebody else was quicker, before it takes the lock and looks then.
LOOKS: Final = 3
#: Short and random: SQLite's own growing pauses starve someone for half a second when several processes write.
BUSY_PAUSE_SECONDS: Final = 0.001

T = TypeVar("T")
Verb = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Manner:
    """How an operation may be done."""

    #: May share a call with others of its verb and further arguments: the first is a batch, answered in its order.
    is_mergeable: bool = False
    #: Does the same in a transaction of its own, by one statement if it can; None, and nothing done, where it cannot.
    #: Only for a verb that is mergeable.
    stroke: Verb | None = None
    #: Reads first, and often finds nothing to write: then the lock is not taken at all, unless another needs it.
    reads_first: bool = False


PLAINLY: Final = Manner()
MERGED: Final = Manner(is_mergeable=True)


class Operation:
    """Something to be done at a desk, and who waits for the answer: a task on a loop, a thread, or its own caller."""

    # Written only where they are set: every job makes an operation, and most have none of these.
    #: Held until there is an answer, by a thread that waits.
    waiting: threading.Lock | None = None
    #: Set by a thread that waits no longer.
    is_abandoned = False
    answer: Any = None
    error: BaseException | None = None

    def __init__(
        self, verb: Verb, arguments: tuple[Any, ...], manner: Manner, future: asyncio.Future[Any] | None = None
    ) -> None:
        self.verb = verb
        self.arguments = arguments
        self.manner = manner
        self.future = future

    @property
    def is_wanted(self) -> bool:
        """Whether anyone still waits."""
        return not (self.is_abandoned or (self.future is not None and self.future.cancelled()))

    def outcome(self) -> Any:  # noqa: ANN401 - as the verb does
        """Give the answer, or raise what went wrong."""
        if self.error is not None:
            raise self.error
        return self.answer


def perform(connection: Connection, operations: Sequence[Operation]) -> None:
    """Run operations, those that can share a call together.

    What arrived together has no order among itself: what is shared comes first, and what cannot be (claims above all)
    last, so that it sees what was just inserted.
    """
    if len(operations) == 1:
        _perform_alone(connection, operations[0])
        return
    shared: dict[tuple[Any, ...], list[Operation]] = {}
    alone: list[Operation] = []
    for operation in operations:
        if operation.manner.is_mergeable:
            shared.setdefault((operation.verb, *operation.arguments[1:]), []).append(operation)
        else:
            alone.append(operation)
    for together in shared.values():
        _perform_together(connection, together)
    for operation in alone:
        _perform_alone(connection, operation)


def _perform_alone(connection: Connection, operation: Operation) -> None:
    operation.answer = operation.verb(connection, *operation.arguments)


def _perform_together(connection: Connection, operations: Sequence[Operation]) -> None:
    if len(operations) == 1:
        _perform_alone(connection, operations[0])
        return
    answers = operations[0].verb(connection, _gathered(operations), *operations[0].arguments[1:])
    _share_out(operations, answers)


def _gathered(operations: Sequence[Operation]) -> list[Any]:
    return [item for operation in operations for item in operation.arguments[0]]


def _share_out(operations: Sequence[Operation], answers: Sequence[Any]) -> None:
    start = 0
    for operation in operations:
        end = start + len(operation.arguments[0])
        operation.answer = answers[start:end]
        start = end


def patiently(act: Callable[[], T]) -> T:
    """Do something that needs a lock, waiting for other processes in short, random pauses."""
    give_up_at = time.monotonic() + LONGEST_BUSY_SECONDS
    while True:
        try:
            return act()
        except Busy as error:
            if time.monotonic() > give_up_at:
                message = f"another process has held the database's lock for {LONGEST_BUSY_SECONDS:.0f} s"
                raise StoreUnavailable(message) from error
            _pause()


def _pause() -> None:
    time.sleep(BUSY_PAUSE_SECONDS * (0.5 + random.random()))  # noqa: S311 - spreads, protects nothing


def begin(connection: Connection) -> None:
    """Take the write lock."""
    patiently(partial(connection.run, "BEGIN IMMEDIATE"))


def transact(connection: Connection, operations: Sequence[Operation]) -> None:
    """Run operations in one transaction; if one of them fails, each in a transaction of its own."""
    if _strike(connection, operations):
        return
    if all(one.manner.reads_first for one in operations) and _look_first(connection, operations):
        return
    begin(connection)
    try:
        perform(connection, operations)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is that operation's answer, not ours
        roll_back(connection)
        if len(operations) == 1 or isinstance(error, Broken):
            fail(operations, error)
            return
        for operation in operations:
            transact(connection, [operation])
        return
    _commit(connection, operations)


def _commit(connection: Connection, operations: Sequence[Operation]) -> None:
    try:
        connection.run("COMMIT")
    except (Broken, Busy) as error:
        roll_back(connection)
        fail(operations, error)


def _look_first(connection: Connection, operations: Sequence[Operation]) -> bool:
    """Run operations without the lock until one of them writes; say whether that went well.

    What was read still holds when it is written upon, or else SQLite refuses the lock, as it does while another process
    has it. Then all of it is read again, a moment later: whoever was too late for something finds nothing any more, and
    does not keep others from the next.
    """
    for look in range(LOOKS):
        if look:
            _pause()
        try:
            connection.run("BEGIN")
            perform(connection, operations)
        except Busy:
            roll_back(connection)
            continue
        except Exception:  # noqa: BLE001 - whose answer it is, is found out with the lock
            roll_back(connection)
            return False
        _commit(connection, operations)
        return True
    return False


def _strike(connection: Connection, operations: Sequence[Operation]) -> bool:
    """Do operations at one stroke; say whether that was possible.

    Beginning and ending cost one job as much as storing it. And for a crowd each further statement lets go of the
    interpreter, and has to wait until the thread that hands in lets go of it in its turn.
    """
    first = operations[0]
    if (stroke := first.manner.stroke) is None:
        return False
    try:
        if len(operations) == 1:
            first.answer = answers = stroke(connection, *first.arguments)
            return answers is not None
        if not _are_mergeable(operations):
            return False
        answers = stroke(connection, _gathered(operations), *first.arguments[1:])
    except Busy:
        roll_back(connection)
        # Nothing was done. In a transaction, it waits for its turn among the processes.
        return False
    except Exception as error:  # noqa: BLE001 - it is that operation's answer
        # It may be a signal's, as a timeout is, and have come in the midst of a transaction. What stays begun would
        # lock others out, and take in what comes next, which would be acknowledged and not committed.
        roll_back(connection)
        if len(operations) > 1 and not isinstance(error, Broken):
            # Whose it is, is found out in transactions of their own.
            return False
        fail(operations, error)
        return True
    if answers is None:
        return False
    # Not above: it is committed, and what fails now must not have it done again.
    _share_out(operations, answers)
    return True


def _are_mergeable(operations: Sequence[Operation]) -> bool:
    """Say whether all can share one call."""
    first = operations[0]
    verb, rest = first.verb, first.arguments[1:]
    return all(one.verb is verb and one.arguments[1:] == rest for one in operations)


def roll_back(connection: Connection) -> None:
    """Undo whatever has been begun."""
    try:
        connection.run("ROLLBACK")
    except (Broken, Busy):
        return  # SQLite has already rolled back by itself


def fail(operations: Iterable[Operation], error: Exception) -> None:
    """Make an error the answer of operations, in words that our callers know."""
    if isinstance(error, Broken | Busy):
        unavailable = StoreUnavailable(f"SQLite: {error}")
        unavailable.__cause__ = error
        error = unavailable
    for operation in operations:
        operation.answer, operation.error = None, error


def deliver(batch: list[Operation]) -> None:
    """Bring the answers to those who wait, waking each thread and each loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation]] = {}
    for operation in batch:
        if operation.waiting is not None:
            operation.waiting.release()
        elif operation.future is not None:
            by_loop.setdefault(operation.future.get_loop(), []).append(operation)
    for loop, operations in by_loop.items():
        try:
            loop.call_soon_threadsafe(_answer, operations)
        except RuntimeError:
            continue  # that loop is closed; nobody waits there any more


def _answer(operations: list[Operation]) -> None:
    for operation in operations:
        future = operation.future
        if future is None or future.done():
            continue
        if operation.error is not None:
            future.set_exception(operation.error)
        else:
            future.set_result(operation.answer)
