"""Forking: what becomes of connections in a process that is forked.

SQLite notes once for all connections of a process which locks it holds on a file, and a fork copies the note but not
the locks. Beside a connection that it inherited, a child that opens the file anew relies on locks that it does not
have: whoever closes the file last elsewhere deletes the log under it. And a lock that was held in the moment of the
fork seems held to the child for ever.

So a fork waits until nobody is at a connection, and the child closes all that it inherited before it does anything
else. To close a connection at rest touches nothing of the parent's, whose own locks tell that the file is in use.

What happens when something fails: a connection that somebody is at for too long is left alone, in use as it is. The
child may then be refused by the store; it cannot close what is in the midst of something.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final, Protocol
from weakref import WeakSet

#: How long a fork waits for those who are at a connection.
LONGEST_WAIT_SECONDS: Final = 5.0


class Keeper(Protocol):
    """Has a connection, which is used by whoever has the turn."""

    #: Held by whoever uses the connection.
    turn: threading.Lock

    def forsake(self) -> None:
        """Close the connection and take nothing more, in a forked process that has the turn."""
        ...


#: One fork at a time; and who minds a connection waits for a fork, but not for those for whom that waits. A signal that
#: forks may come while its thread has either.
_forking = threading.RLock()
_guard = threading.RLock()
_keepers: WeakSet[Keeper] = WeakSet()
#: Whose turn is held for a fork, and who could not be waited for: never cleared away in a child, which would close it.
_resting: list[Keeper] = []
_left_alone: list[Keeper] = []


def mind(keeper: Keeper) -> None:
    """Have a connection closed in every process that is forked."""
    with _guard:
        _keepers.add(keeper)


#: In place of a descriptor where there is none.
CLOSED: Final = -1


class Holder:
    """Has a descriptor beside a connection, which a forked process lets go of as well."""

    def __init__(self, descriptor: int = CLOSED) -> None:
        self._descriptor = descriptor
        self.turn = threading.Lock()
        mind(self)

    def close(self) -> None:
        """Let go of it."""
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            os.close(descriptor)

    def forsake(self) -> None:
        """Let go of it, in a forked process."""
        self.close()


class Opening:
    """Has forks wait while connections are opened that nobody minds yet."""

    def __init__(self) -> None:
        self.turn = threading.Lock()

    def __enter__(self) -> None:
        self.turn.acquire()
        mind(self)

    def __exit__(self, *_: object) -> None:
        self.turn.release()

    def forsake(self) -> None:
        """Nothing: by then everything is minded."""


def _pause() -> None:
    _forking.acquire()
    give_up_at = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        _guard.acquire()
        others = [keeper for keeper in _keepers if keeper not in _resting and keeper not in _left_alone]
        if not others:
            return
        _guard.release()
        for keeper in others:
            is_resting = keeper.turn.acquire(timeout=max(give_up_at - time.monotonic(), 0))
            (_resting if is_resting else _left_alone).append(keeper)


def _go_on() -> None:
    for keeper in _resting:
        keeper.turn.release()
    _resting.clear()
    _left_alone.clear()
    _guard.release()
    _forking.release()


def _start_anew() -> None:
    for keeper in _resting:
        keeper.forsake()
        keeper.turn.release()
    _resting.clear()
    _keepers.clear()
    _guard.release()
    _forking.release()


os.register_at_fork(before=_pause, after_in_parent=_go_on, after_in_child=_start_anew)
