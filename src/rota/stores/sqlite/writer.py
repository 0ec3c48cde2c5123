"""The group-commit writer, and the readers beside it: threads that own a connection and run operations on it.

- `WriterThread`: all operations that arrive while a commit is under way are run in the next transaction, committed
  once, and each event loop is woken once. The writer never waits to fill a batch: under load batches fill by
  themselves.
- `ReaderThread`: no transaction around operations; in WAL mode readers do not wait for the writer.
- `InlineWriter`, `InlineReader`: no thread; for databases in memory, and for simulations that must be deterministic.

Waking a thread and being woken by it costs as much as a commit on a fast disk. So a caller that may block, and finds
the connection free and nothing queued, takes the connection's lock and runs its operation on its own thread. Otherwise
it queues the operation like every caller, and shares a commit. A caller runs only its own operation, so a signal that
interrupts it damages no other.

Failures: after a disk error the thread refuses further operations, because the content of the disk is unknown until the
store is opened again. If the process dies, nothing was acknowledged that is not on the disk. If the event loop of a
caller is gone, its result is dropped. An operation that arrives while the thread closes is run or refused.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from rota.core.errors import StoreUnavailable
from rota.stores.sqlite import fork
from rota.stores.sqlite.driver import DatabaseFailed, FileLost, SqliteConnection, retry_while_busy, roll_back
from rota.stores.sqlite.group_commit import PLAIN, OperationMode, QueuedCall, deliver, fail, run_in_transaction

#: More operations in one transaction gain nothing and delay the first of them.
LARGEST_BATCH: Final = 1000

CLOSED: Final = "the store is closed"

T = TypeVar("T")
Opener = Callable[[], SqliteConnection]
#: Raises `FileLost` when the open file is no longer the one that the next start would open.
FileCheck = Callable[[], None]
#: Called after each commit: notifies other processes, or preallocates the write-ahead log.
AfterCommit = Callable[[SqliteConnection], None]


class ConnectionRunner(Protocol):
    """Runs operations on a connection."""

    @property
    def has_lost_file(self) -> bool:
        """Whether the database file was deleted, moved or replaced."""
        ...

    @property
    def blocking(self) -> ConnectionRunner | None:
        """The same for callers without an event loop: its `run` blocks and never suspends. None if there is none."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a new operation would wait for another one."""
        ...

    async def run(self, verb: Callable[..., T], *arguments: object, mode: OperationMode = PLAIN) -> T:
        """Run a verb with the connection before its arguments, and return its result."""
        ...

    async def close(self) -> None:
        """Finish the queued operations and close the connection."""
        ...


#: Connections that must never be closed; the process keeps them until its end.
_NEVER_CLOSED: list[SqliteConnection] = []


def close_connection(connection: SqliteConnection, *, is_lost: bool) -> None:
    """Close a connection unless its file is lost: closing deletes, by name, the log of the file that is there now."""
    if is_lost:
        _NEVER_CLOSED.append(connection)
    else:
        connection.close()


class RunnerThread(ABC):
    """A connection, a thread that runs queued operations, and a lock for callers that run their own."""

    def __init__(self, name: str, opener: Opener, *, check_file: FileCheck | None = None) -> None:
        self._check_file = check_file
        self._queue: deque[QueuedCall] = deque()
        #: Wakes the thread, once for all operations that arrive until it reads the queue.
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._is_woken = False
        #: Held by the thread that uses the connection.
        self.lock = threading.Lock()
        #: The threads that hold the lock or are about to: a nested call on one of them would deadlock.
        self._threads_inside: set[int] = set()
        #: False while an operation runs; if it is False before the next one, the last one was interrupted.
        self._is_clean = True
        self._connection = opener()
        self._failure: str | None = None
        self._has_lost_file = False
        self._is_open = True
        #: Whether the thread has looked at the queue for the last time.
        self._has_ended = False
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        fork.register(self)
        self._thread.start()

    async def run(self, verb: Callable[..., T], *arguments: object, mode: OperationMode = PLAIN) -> T:
        """Queue an operation and wait for its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(QueuedCall(verb, arguments, mode, future))
        return await future

    def run_blocking(self, operation: QueuedCall) -> Any:  # noqa: ANN401 - as its verb returns
        """Run an operation and block until it is done: on this thread if the connection is free, else queued."""
        thread_id = threading.get_ident()
        if thread_id in self._threads_inside:
            raise RuntimeError(
                "the store was called by a signal handler or finalizer during another call of this thread;"
                " call it from another thread"
            )
        if self.lock.locked() or self._queue:
            self._enqueue_and_wait(operation)
        else:
            self._run_on_this_thread(operation, thread_id)
        return operation.outcome()

    def _run_on_this_thread(self, operation: QueuedCall, thread_id: int) -> None:
        try:
            # Before the lock is taken: a signal may arrive in between.
            self._threads_inside.add(thread_id)
            # Only `with` cannot be interrupted between taking a lock and remembering to release it.
            with self.lock:
                if not self._is_open:
                    raise StoreUnavailable(CLOSED)
                self._run_batch([operation])
        finally:
            self._threads_inside.discard(thread_id)

    @property
    def blocking(self) -> ConnectionRunner:
        return BlockingRunner(self)

    @property
    def has_lost_file(self) -> bool:
        return self._has_lost_file

    @property
    def is_busy(self) -> bool:
        return bool(self._queue) or self.lock.locked()

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._wake.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def close_after_fork(self) -> None:
        """Close in a forked process: the thread and the queued operations belong to the parent."""
        self._is_open = False
        self._queue.clear()
        if not self._has_ended:
            self._has_ended = True
            close_connection(self._connection, is_lost=self._has_lost_file)

    def _enqueue(self, operation: QueuedCall) -> None:
        self._queue.append(operation)
        if not self._is_woken:
            self._is_woken = True
            self._wake.put(None)
        if self._has_ended:
            self._refuse_queued()

    def _enqueue_and_wait(self, operation: QueuedCall) -> None:
        operation.waiting = threading.Lock()
        operation.waiting.acquire()
        try:
            self._enqueue(operation)
            operation.waiting.acquire()
        except BaseException:
            operation.is_abandoned = True
            raise

    def _loop(self) -> None:
        self._threads_inside.add(threading.get_ident())
        while self._is_open:
            self._wake.get()
            # First: an operation that arrives from now on wakes the thread again.
            self._is_woken = False
            with self.lock:
                while batch := self._next_batch():
                    self._run_batch(batch)
                    deliver(batch)
        with self.lock:
            close_connection(self._connection, is_lost=self._has_lost_file)
        self._has_ended = True
        self._refuse_queued()
        # A thread that starts later may get the same id.
        self._threads_inside.discard(threading.get_ident())

    def _next_batch(self) -> list[QueuedCall]:
        """Take the queued operations, without those whose callers no longer wait."""
        batch: list[QueuedCall] = []
        while self._queue and len(batch) < LARGEST_BATCH:
            operation = self._queue.popleft()
            if operation.is_awaited:
                batch.append(operation)
        return batch

    def _run_batch(self, batch: list[QueuedCall]) -> None:
        """Run operations and leave no transaction open. Only with the lock."""
        try:
            if not self._is_clean:
                roll_back(self._connection)
            self._is_clean = False
            if self._failure is not None:
                raise StoreUnavailable(self._failure)
            self._execute(batch)
        except Exception as error:  # noqa: BLE001 - the thread must survive every failure and answer every caller
            fail(batch, error)
            # It may be raised by a signal handler (a timeout) in the middle of a transaction: see below.
            roll_back(self._connection)
        except BaseException:
            # A signal on the thread of a caller that runs its own operation. A transaction left open would lock out
            # other processes, and the next operations would be acknowledged without being committed.
            roll_back(self._connection)
            raise
        self._is_clean = True
        for operation in batch:
            if operation.error is not None:
                self._note_failure(operation.error.__cause__)

    def _note_failure(self, cause: BaseException | None) -> None:
        self._has_lost_file |= isinstance(cause, FileLost)
        if isinstance(cause, DatabaseFailed) and cause.is_final:
            self._failure = f"stopped after an error of the database: {cause}; restart once the disk is sound"

    def _refuse_queued(self) -> None:
        """Refuse operations that came after the end. Called by the thread and by a caller, whichever is last."""
        with self.lock:
            while batch := self._next_batch():
                fail(batch, StoreUnavailable(CLOSED))
                deliver(batch)

    @abstractmethod
    def _execute(self, batch: list[QueuedCall]) -> None:
        """Run a batch and set the result or error of each operation."""


class WriterThread(RunnerThread):
    """The only writer of this process: all waiting operations share one commit, then other processes are notified."""

    def __init__(
        self,
        name: str,
        opener: Opener,
        *,
        check_file: FileCheck | None = None,
        notify: AfterCommit,
        grow_wal: AfterCommit | None = None,
    ) -> None:
        self._notify = notify
        self._grow_wal = grow_wal
        super().__init__(name, opener, check_file=check_file)

    def _execute(self, batch: list[QueuedCall]) -> None:
        run_in_transaction(self._connection, batch)
        # First, because an idle worker waits for it.
        self._notify(self._connection)
        if self._check_file is not None:
            # After the commit and before the answer: what was written to a file without a name is not acknowledged.
            self._check_file()
        if self._grow_wal is not None:
            self._grow_wal(self._connection)


class ReaderThread(RunnerThread):
    """A reader: each operation reads its own snapshot."""

    def _execute(self, batch: list[QueuedCall]) -> None:
        for operation in batch:
            try:
                # While another process recovers the log after a crash, even reading needs a lock.
                operation.result = retry_while_busy(partial(operation.verb, self._connection, *operation.arguments))
            except Exception as error:  # noqa: BLE001 - it is that operation's result
                fail([operation], error)
        if self._check_file is not None:
            self._check_file()


class BlockingRunner:
    """A thread's connection for callers without an event loop: `run` blocks and never suspends."""

    def __init__(self, thread: RunnerThread) -> None:
        self._thread = thread

    @property
    def blocking(self) -> ConnectionRunner:
        return self

    @property
    def has_lost_file(self) -> bool:
        return self._thread.has_lost_file

    @property
    def is_busy(self) -> bool:
        return self._thread.is_busy

    async def run(self, verb: Callable[..., T], *arguments: object, mode: OperationMode = PLAIN) -> T:
        result: T = self._thread.run_blocking(QueuedCall(verb, arguments, mode))
        return result

    async def close(self) -> None:
        """Do nothing: the thread is closed by its owner."""


class InlineWriter:
    """Runs each operation at once, on the caller's thread, in a transaction of its own."""

    has_lost_file = False
    is_busy = False
    #: Its connection belongs to the event loop.
    blocking: ConnectionRunner | None = None

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    async def run(self, verb: Callable[..., T], *arguments: object, mode: OperationMode = PLAIN) -> T:
        operation = QueuedCall(verb, arguments, mode)
        run_in_transaction(self._connection, [operation])
        result: T = operation.outcome()
        return result

    async def close(self) -> None:
        self._connection.close()


class InlineReader(InlineWriter):
    """Reads over the writer's connection. No other operation can run between two statements: no snapshot is needed."""

    async def run(self, verb: Callable[..., T], *arguments: object, mode: OperationMode = PLAIN) -> T:
        try:
            return verb(self._connection, *arguments)
        except Exception as error:  # noqa: BLE001 - translated as by every runner
            operation = QueuedCall(verb, arguments, mode)
            fail((operation,), error)
            result: T = operation.outcome()
            return result

    async def close(self) -> None:
        """Do nothing: the writer closes the connection."""
