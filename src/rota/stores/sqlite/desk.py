"""Desks: where work for SQLite is handed in and done.

A desk runs operations, which are plain functions over a connection. Three kinds:

- `WriterDesk`: one thread, one connection. It takes whatever has come in while the last commit was under way, runs all
  of it in one transaction, commits once and wakes each event loop once. Nobody lingers to fill a batch: under load the
  batches fill by themselves. Operations of one verb that can share a call (all inserts, all settlements) are merged.
- `ReaderDesk`: one thread, one connection, no transaction around it; readers never wait for the writer.
- `InlineDesk`: no thread at all; for databases in memory, and for simulations that must not depend on threads.

What happens when something fails: if an operation raises, the transaction is rolled back and every operation is run
again in a transaction of its own, so that one bad request cannot fail its neighbours. If the commit itself fails, all
of them are answered with `StoreUnavailable`: whether they happened is unknown, and every verb is safe to repeat. After
an error of the disk the desk refuses further work, since nobody knows what reached it; a fresh start finds out. If the
process dies, nothing was acknowledged that is not on the disk. If the loop that asked is gone, the answer is dropped.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from rota.core.errors import StoreUnavailable
from rota.stores.sqlite.driver import Broken, Busy, Connection, LostFile

#: More than this in one transaction gains nothing and makes those at its head wait.
LARGEST_BATCH: Final = 1000
#: How long to wait for another process that holds the write lock.
LONGEST_BUSY_SECONDS: Final = 15.0
#: Short and random: SQLite's own growing pauses starve someone for half a second when several processes write.
BUSY_PAUSE_SECONDS: Final = 0.001

T = TypeVar("T")
Verb = Callable[..., Any]
Opener = Callable[[], Connection]
#: Raises `Broken` when the file that is being written is no longer the one that the next start would find.
Witness = Callable[[], None]
#: Tells other processes what the last commit was about.
Knock = Callable[[Connection], None]


@dataclass(slots=True, eq=False)
class Operation:
    """Something to be done at a desk, and where to bring the answer."""

    verb: Verb
    arguments: tuple[Any, ...]
    #: May share a call with others of its verb and further arguments: the first is a batch, answered in its order.
    is_mergeable: bool
    #: Asked before the lock is taken, if nobody else needs it: an answer other than None spares it.
    glance: Verb | None = None
    future: asyncio.Future[Any] | None = None
    answer: Any = None
    error: BaseException | None = None


class Desk(Protocol):
    """Takes operations and answers them."""

    @property
    def has_lost_its_file(self) -> bool:
        """Whether the file was deleted, moved or replaced under us."""
        ...

    async def run(self, verb: Verb, *arguments: Any, merge: bool = False, glance: Verb | None = None) -> Any:  # noqa: ANN401 - as the verb does
        """Do something at the desk; not if a glance before gives the answer, which it may without a lock."""
        ...

    async def close(self) -> None:
        """Finish what was handed in and let go of the connection."""
        ...


def perform(connection: Connection, operations: Sequence[Operation]) -> None:
    """Run operations, those that can share a call together.

    What arrived together has no order among itself: what is shared comes first, and what cannot be (claims above all)
    last, so that it sees what was just inserted.
    """
    shared: dict[tuple[Any, ...], list[Operation]] = {}
    alone: list[Operation] = []
    for operation in operations:
        if operation.is_mergeable:
            shared.setdefault((operation.verb, *operation.arguments[1:]), []).append(operation)
        else:
            alone.append(operation)
    for together in shared.values():
        _perform_together(connection, together)
    for operation in alone:
        operation.answer = operation.verb(connection, *operation.arguments)


def _perform_together(connection: Connection, operations: Sequence[Operation]) -> None:
    if len(operations) == 1:
        operation = operations[0]
        operation.answer = operation.verb(connection, *operation.arguments)
        return
    batch = [item for operation in operations for item in operation.arguments[0]]
    answers = operations[0].verb(connection, batch, *operations[0].arguments[1:])
    start = 0
    for operation in operations:
        size = len(operation.arguments[0])
        operation.answer = answers[start : start + size]
        start += size


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
            time.sleep(BUSY_PAUSE_SECONDS * (0.5 + random.random()))  # noqa: S311 - spreads, protects nothing


def begin(connection: Connection) -> None:
    """Take the write lock."""
    patiently(partial(connection.run, "BEGIN IMMEDIATE"))


def transact(connection: Connection, operations: Sequence[Operation]) -> None:
    """Run operations in one transaction; if one of them fails, each in a transaction of its own."""
    begin(connection)
    try:
        perform(connection, operations)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is that operation's answer, not ours
        _roll_back(connection)
        if len(operations) == 1 or isinstance(error, Broken):
            _fail(operations, error)
            return
        for operation in operations:
            transact(connection, [operation])
        return
    try:
        connection.run("COMMIT")
    except (Broken, Busy) as error:
        _roll_back(connection)
        _fail(operations, error)


def _roll_back(connection: Connection) -> None:
    try:
        connection.run("ROLLBACK")
    except (Broken, Busy):
        return  # SQLite has already rolled back by itself


def _fail(operations: Iterable[Operation], error: Exception) -> None:
    if isinstance(error, Broken | Busy):
        unavailable = StoreUnavailable(f"SQLite: {error}")
        unavailable.__cause__ = error
        error = unavailable
    for operation in operations:
        operation.answer, operation.error = None, error


class InlineDesk:
    """Does everything at once, on the caller's thread."""

    has_lost_its_file = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def run(self, verb: Verb, *arguments: Any, merge: bool = False, glance: Verb | None = None) -> Any:  # noqa: ANN401 - as the verb does
        """Do something in a transaction of its own. There is nobody to keep from the lock."""
        operation = Operation(verb, arguments, merge, glance)
        transact(self._connection, [operation])
        if operation.error is not None:
            raise operation.error
        return operation.answer

    async def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


#: Connections that must never be closed; the process keeps them until its end.
_ABANDONED: list[Connection] = []


def part_with(connection: Connection, *, is_lost: bool) -> None:
    """Close a connection, unless its file is lost: closing deletes, by name, the log of whatever lies there now."""
    if is_lost:
        _ABANDONED.append(connection)
    else:
        connection.close()


class ThreadDesk:
    """A thread with a connection of its own, fed through a queue."""

    def __init__(self, name: str, opener: Opener, *, witness: Witness | None = None) -> None:
        self._witness = witness
        self._inbox: SimpleQueue[Operation | None] = SimpleQueue()
        self._connection = opener()
        self._broken: str | None = None
        self._has_lost_its_file = False
        self._is_open = True
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def run(self, verb: Verb, *arguments: Any, merge: bool = False, glance: Verb | None = None) -> Any:  # noqa: ANN401 - as the verb does
        """Hand an operation in and wait for its answer."""
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._inbox.put(Operation(verb, arguments, merge, glance, future))
        return await future

    @property
    def has_lost_its_file(self) -> bool:
        """Whether the file was deleted, moved or replaced under us."""
        return self._has_lost_its_file

    async def close(self) -> None:
        """Finish what was handed in, then end the thread."""
        if self._is_open:
            self._is_open = False
            self._inbox.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _serve(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._gather()
            if batch:
                self._serve_batch(batch)
        part_with(self._connection, is_lost=self._has_lost_its_file)

    def _gather(self) -> tuple[list[Operation], bool]:
        """Wait for an operation, then take all that have come in meanwhile."""
        batch: list[Operation] = []
        operation = self._inbox.get()
        try:
            while operation is not None:
                # Not yet begun and no longer wanted: leave it.
                if operation.future is None or not operation.future.cancelled():
                    batch.append(operation)
                if len(batch) >= LARGEST_BATCH:
                    return batch, False
                operation = self._inbox.get_nowait()
        except Empty:
            return batch, False
        return batch, True

    def _serve_batch(self, batch: list[Operation]) -> None:
        try:
            if self._broken is not None:
                raise StoreUnavailable(self._broken)
            self._process(batch)
        except Exception as error:  # noqa: BLE001 - the thread must outlive every failure and answer everyone
            _fail(batch, error)
        for operation in batch:
            cause = operation.error.__cause__ if operation.error is not None else None
            self._has_lost_its_file |= isinstance(cause, LostFile)
            if isinstance(cause, Broken) and cause.is_final:
                self._broken = f"stopped after an error of the database: {cause}; restart once the disk is sound"
        _deliver(batch)

    def _process(self, batch: list[Operation]) -> None:
        raise NotImplementedError


class WriterDesk(ThreadDesk):
    """The one writer: everything that waits goes into one commit, and the others are told of it."""

    def __init__(self, name: str, opener: Opener, *, witness: Witness | None = None, knock: Knock) -> None:
        self._knock = knock
        super().__init__(name, opener, witness=witness)

    def _process(self, batch: list[Operation]) -> None:
        # Not when somebody needs the lock anyway: what it writes may be what the others look for.
        left = list(filter(self._needs_lock, batch)) if all(one.glance is not None for one in batch) else batch
        if left:
            transact(self._connection, left)
            # Before anything else: somebody waits for it.
            self._knock(self._connection)
        if self._witness is not None:
            # Asked after the commit and before the answer: what went into a file without a name is not acknowledged.
            self._witness()

    def _needs_lock(self, operation: Operation) -> bool:
        """Look whether an operation can be answered without the lock, for which others may be waiting."""
        assert operation.glance is not None
        operation.answer = patiently(partial(operation.glance, self._connection, *operation.arguments))
        return operation.answer is None


class ReaderDesk(ThreadDesk):
    """A reader: each operation sees a snapshot of its own."""

    def _process(self, batch: list[Operation]) -> None:
        for operation in batch:
            try:
                # While another process repairs the log after a crash, even reading needs a lock.
                operation.answer = patiently(partial(operation.verb, self._connection, *operation.arguments))
            except Exception as error:  # noqa: BLE001 - it is that operation's answer
                _fail([operation], error)
        if self._witness is not None:
            self._witness()


def _deliver(batch: list[Operation]) -> None:
    """Bring the answers to the loops that asked, waking each loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation]] = {}
    for operation in batch:
        by_loop.setdefault(_loop_of(operation), []).append(operation)
    for loop, operations in by_loop.items():
        try:
            loop.call_soon_threadsafe(_answer, operations)
        except RuntimeError:
            continue  # that loop is closed; nobody waits there any more


def _loop_of(operation: Operation) -> asyncio.AbstractEventLoop:
    assert operation.future is not None
    return operation.future.get_loop()


def _answer(operations: list[Operation]) -> None:
    for operation in operations:
        future = operation.future
        if future is None or future.done():
            continue
        if operation.error is not None:
            future.set_exception(operation.error)
        else:
            future.set_result(operation.answer)
