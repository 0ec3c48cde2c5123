"""Desks: where work for SQLite is handed in and done.

A desk runs operations (see `operations`) over a connection of its own. Three kinds:

- `WriterDesk`: whatever has come in while the last commit was under way is run in one transaction, committed once, and
  each event loop is woken once. Nobody lingers to fill a batch: under load the batches fill by themselves. Operations
  of one verb that can share a call (all inserts, all settlements) are merged.
- `ReaderDesk`: no transaction around it; readers never wait for the writer.
- `InlineDesk` (in `inline`): no thread at all; for databases in memory, and for simulations that must not depend on
  threads.

The first two have a thread, which serves what is handed in. To wake a thread and be woken by it costs as much as a
fast disk takes for a commit. So a caller that may block and comes when nobody else is there does the work by hand: it
takes its turn at the connection, which only one thread has at a time. Where it would have to wait for its turn, it
hands its operation in like everyone, and shares a commit with everyone. What is done by hand is the caller's own
operation and nothing else, so a signal that interrupts it spoils nobody's work but its own.

What happens when something fails: after an error of the disk the desk refuses further work, since nobody knows what
reached it; a fresh start finds out. If the process dies, nothing was acknowledged that is not on the disk. If the loop
that asked is gone, the answer is dropped. Whoever hands something in while the desk closes is served or refused.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Protocol

from rota.core.errors import StoreUnavailable
from rota.stores.sqlite.driver import Broken, Connection, LostFile
from rota.stores.sqlite.forking import mind
from rota.stores.sqlite.operations import (
    PLAINLY,
    Manner,
    Operation,
    Verb,
    deliver,
    fail,
    patiently,
    roll_back,
    transact,
)

#: More than this in one transaction gains nothing and makes those at its head wait.
LARGEST_BATCH: Final = 1000

CLOSED: Final = "the store is closed"

Opener = Callable[[], Connection]
#: Raises `Broken` when the file that is being written is no longer the one that the next start would find.
Witness = Callable[[], None]
#: Does something after a commit: tells other processes what it was about, or makes the log longer for the next ones.
Afterwards = Callable[[Connection], None]


class Desk(Protocol):
    """Takes operations and answers them."""

    @property
    def has_lost_its_file(self) -> bool:
        """Whether the file was deleted, moved or replaced under us."""
        ...

    @property
    def by_hand(self) -> Desk | None:
        """The same desk for callers without a loop: at it, `run` blocks and never suspends. None if there is none."""
        ...

    async def run(self, verb: Verb, *arguments: Any, manner: Manner = PLAINLY) -> Any:  # noqa: ANN401 - as the verb does
        """Do something at the desk."""
        ...

    async def close(self) -> None:
        """Finish what was handed in and let go of the connection."""
        ...


#: Connections that must never be closed; the process keeps them until its end.
_ABANDONED: list[Connection] = []


def part_with(connection: Connection, *, is_lost: bool) -> None:
    """Close a connection, unless its file is lost: closing deletes, by name, the log of whatever lies there now."""
    if is_lost:
        _ABANDONED.append(connection)
    else:
        connection.close()


class ThreadDesk(ABC):
    """A connection, a thread that serves what is handed in, and turns for callers that serve themselves."""

    def __init__(self, name: str, opener: Opener, *, witness: Witness | None = None) -> None:
        self._witness = witness
        self._inbox: deque[Operation] = deque()
        #: Calls the thread. It is called once for all that comes in until it looks.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._is_called = False
        #: Held by whoever uses the connection.
        self.turn = threading.Lock()
        #: The threads that have the turn, or are about to: a call in the midst of that would wait for itself.
        self._insiders: set[int] = set()
        #: False while somebody is at it; found False, somebody was interrupted in the midst of it.
        self._is_tidy = True
        self._connection = opener()
        self._broken: str | None = None
        self._has_lost_its_file = False
        self._is_open = True
        #: Whether the thread has looked for the last time.
        self._has_ended = False
        self._thread = threading.Thread(target=self._attend, name=name, daemon=True)
        mind(self)
        self._thread.start()

    async def run(self, verb: Verb, *arguments: Any, manner: Manner = PLAINLY) -> Any:  # noqa: ANN401 - as the verb does
        """Hand an operation in and wait for its answer."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._hand_in(Operation(verb, arguments, manner, future))
        return await future

    def do(self, operation: Operation) -> Any:  # noqa: ANN401 - as its verb does
        """Do something and block until it is done: by hand, or in company if others are there."""
        me = threading.get_ident()
        if me in self._insiders:
            raise RuntimeError("called in the midst of such a call, by a signal or a finalizer; use another thread")
        if self.turn.locked() or self._inbox:
            self._wait_for(operation)
        else:
            self._do_by_hand(operation, me)
        return operation.outcome()

    def _do_by_hand(self, operation: Operation, me: int) -> None:
        try:
            # Before the turn is taken: a signal may come in between.
            self._insiders.add(me)
            # Not by acquire and release: only `with` cannot be interrupted between taking a lock and minding it.
            with self.turn:
                if not self._is_open:
                    raise StoreUnavailable(CLOSED)
                self._serve([operation])
        finally:
            self._insiders.discard(me)

    @property
    def by_hand(self) -> Desk:
        """The same desk for callers without a loop."""
        return HandDesk(self)

    @property
    def has_lost_its_file(self) -> bool:
        """Whether the file was deleted, moved or replaced under us."""
        return self._has_lost_its_file

    async def close(self) -> None:
        """Finish what was handed in, then end the thread."""
        if self._is_open:
            self._is_open = False
            self._bell.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def forsake(self) -> None:
        """Close, in a forked process: the thread is the parent's, and so is what was handed in."""
        self._is_open = False
        self._inbox.clear()
        if not self._has_ended:
            self._has_ended = True
            part_with(self._connection, is_lost=self._has_lost_its_file)

    def _hand_in(self, operation: Operation) -> None:
        self._inbox.append(operation)
        if not self._is_called:
            self._is_called = True
            self._bell.put(None)
        if self._has_ended:
            self._turn_away()

    def _wait_for(self, operation: Operation) -> None:
        operation.waiting = threading.Lock()
        operation.waiting.acquire()
        try:
            self._hand_in(operation)
            operation.waiting.acquire()
        except BaseException:
            operation.is_abandoned = True
            raise

    def _attend(self) -> None:
        self._insiders.add(threading.get_ident())
        while self._is_open:
            self._bell.get()
            # First: whoever comes while we look calls again.
            self._is_called = False
            with self.turn:
                while batch := self._gather():
                    self._serve(batch)
                    deliver(batch)
        with self.turn:
            part_with(self._connection, is_lost=self._has_lost_its_file)
        self._has_ended = True
        self._turn_away()
        # A thread that begins later may be given the same number.
        self._insiders.discard(threading.get_ident())

    def _gather(self) -> list[Operation]:
        """Take all that have come in."""
        batch: list[Operation] = []
        while self._inbox and len(batch) < LARGEST_BATCH:
            operation = self._inbox.popleft()
            # Not yet begun and no longer wanted: leave it.
            if operation.is_wanted:
                batch.append(operation)
        return batch

    def _serve(self, batch: list[Operation]) -> None:
        """Do what was asked, and leave the connection as it was found. Only in one's turn."""
        try:
            if not self._is_tidy:
                roll_back(self._connection)
            self._is_tidy = False
            if self._broken is not None:
                raise StoreUnavailable(self._broken)
            self._process(batch)
        except Exception as error:  # noqa: BLE001 - the thread must outlive every failure and answer everyone
            fail(batch, error)
            # It may be a signal's, as a timeout is, and have come in the midst of a transaction: see below.
            roll_back(self._connection)
        except BaseException:
            # A signal, on the thread of one who does it by hand. What stays begun would lock other processes out, and
            # take in what comes next, which would be acknowledged and not committed.
            roll_back(self._connection)
            raise
        self._is_tidy = True
        for operation in batch:
            if operation.error is not None:
                self._learn_from(operation.error.__cause__)

    def _learn_from(self, cause: BaseException | None) -> None:
        self._has_lost_its_file |= isinstance(cause, LostFile)
        if isinstance(cause, Broken) and cause.is_final:
            self._broken = f"stopped after an error of the database: {cause}; restart once the disk is sound"

    def _turn_away(self) -> None:
        """Refuse what came too late. Whoever looks in last does it, the thread or who came."""
        with self.turn:
            while batch := self._gather():
                fail(batch, StoreUnavailable(CLOSED))
                deliver(batch)

    @abstractmethod
    def _process(self, batch: list[Operation]) -> None:
        """Do a batch, and leave each operation its answer or its error."""


class WriterDesk(ThreadDesk):
    """The one writer: everything that waits goes into one commit, and the others are told of it."""

    def __init__(
        self,
        name: str,
        opener: Opener,
        *,
        witness: Witness | None = None,
        knock: Afterwards,
        lengthen: Afterwards | None = None,
    ) -> None:
        self._knock = knock
        self._lengthen = lengthen
        super().__init__(name, opener, witness=witness)

    def _process(self, batch: list[Operation]) -> None:
        transact(self._connection, batch)
        # Before anything else: somebody waits for it.
        self._knock(self._connection)
        if self._witness is not None:
            # Asked after the commit and before the answer: what went into a file without a name is not acknowledged.
            self._witness()
        if self._lengthen is not None:
            self._lengthen(self._connection)


class ReaderDesk(ThreadDesk):
    """A reader: each operation sees a snapshot of its own."""

    def _process(self, batch: list[Operation]) -> None:
        for operation in batch:
            try:
                # While another process repairs the log after a crash, even reading needs a lock.
                operation.answer = patiently(partial(operation.verb, self._connection, *operation.arguments))
            except Exception as error:  # noqa: BLE001 - it is that operation's answer
                fail([operation], error)
        if self._witness is not None:
            self._witness()


class HandDesk:
    """A desk for callers without a loop: what is done at it blocks, and never suspends."""

    def __init__(self, desk: ThreadDesk) -> None:
        self._desk = desk

    @property
    def by_hand(self) -> Desk:
        """Itself."""
        return self

    @property
    def has_lost_its_file(self) -> bool:
        """Whether the file was deleted, moved or replaced under us."""
        return self._desk.has_lost_its_file

    async def run(self, verb: Verb, *arguments: Any, manner: Manner = PLAINLY) -> Any:  # noqa: ANN401 - as the verb does
        """Do something on the caller's thread."""
        return self._desk.do(Operation(verb, arguments, manner))

    async def close(self) -> None:
        """Nothing: the desk is its owner's to close."""
