"""Fork safety: a forked process closes all connections that it inherited.

SQLite records once per process which locks it holds on a file. A fork copies that record but not the locks. If a child
kept an inherited connection and opened the file anew, it would rely on locks that it does not have, and the last other
process to close the file would delete the log. A lock that was held at the moment of the fork would seem held in the
child for ever.

So a fork waits until no thread uses a connection, and the child closes everything it inherited before it does anything
else. Closing an idle connection does not affect the parent, whose own locks still mark the file as in use.

Failures: a connection that stays in use longer than `LONGEST_WAIT_SECONDS` is left open in the child. The store may
then refuse the child's calls.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final, Protocol
from weakref import WeakSet

#: How long a fork waits for threads that use a connection.
LONGEST_WAIT_SECONDS: Final = 5.0
#: In place of a file descriptor where there is none.
CLOSED: Final = -1


class ForkAware(Protocol):
    """Owns a connection or file descriptor that a forked process must close."""

    #: Held by the thread that uses the connection.
    lock: threading.Lock

    def close_after_fork(self) -> None:
        """Close the inherited connection in the forked process. The caller holds `lock`."""
        ...


#: One fork at a time; `register` waits for a fork, but not for the threads that the fork waits for. Both are reentrant,
#: because a signal handler that forks may run while its thread holds either.
_forking = threading.RLock()
_registering = threading.RLock()
_registered: WeakSet[ForkAware] = WeakSet()
#: Those whose lock is held for the fork, and those that could not be waited for. The second list is never cleared in a
#: child, because that would close them.
_locked: list[ForkAware] = []
_left_open: list[ForkAware] = []


def register(owner: ForkAware) -> None:
    """Have an owner closed in every forked process."""
    with _registering:
        _registered.add(owner)


class DescriptorOwner:
    """Owns a file descriptor that a forked process closes as well."""

    def __init__(self, descriptor: int = CLOSED) -> None:
        self._descriptor = descriptor
        self.lock = threading.Lock()
        register(self)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            os.close(descriptor)

    def close_after_fork(self) -> None:
        self.close()


class ForkBlocker:
    """Context manager: forks wait while connections are opened that are not registered yet."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        self.lock.acquire()
        register(self)

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def close_after_fork(self) -> None:
        """Do nothing: by then everything is registered."""


def _before() -> None:
    _forking.acquire()
    give_up_at = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        _registering.acquire()
        others = [owner for owner in _registered if owner not in _locked and owner not in _left_open]
        if not others:
            return
        _registering.release()
        for owner in others:
            is_locked = owner.lock.acquire(timeout=max(give_up_at - time.monotonic(), 0))
            (_locked if is_locked else _left_open).append(owner)


def _after_in_parent() -> None:
    for owner in _locked:
        owner.lock.release()
    _locked.clear()
    _left_open.clear()
    _registering.release()
    _forking.release()


def _after_in_child() -> None:
    for owner in _locked:
        owner.close_after_fork()
        owner.lock.release()
    _locked.clear()
    _registered.clear()
    _registering.release()
    _forking.release()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
