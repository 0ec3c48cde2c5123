"""The lookout: tells when someone may have written to the file.

SQLite tells nobody, but its change counter can be read in microseconds, and on Linux the kernel tells (inotify) when
the log is written to. So nobody polls there: an idle process sleeps, and another process's work is heard of at once.
Where there is no such bell, the counter is read every `GLANCE_SECONDS`.

The bell rings when a commit is written, and the counter moves when it is on the disk; so after the bell we look again
and again for a while (`PAUSES`). Our own commits ring and count too: whoever is woken for nothing asks once more than
needed, but not more often than every `GLANCE_SECONDS`. What happens between two waits is seen at the next look: the
counter forgets nothing. The log is never opened for this: closing it would drop the locks that this process holds on it
(that is how POSIX locks work).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rota.stores.sqlite.driver import Broken, Busy, Connection

#: Without a bell how often to look, and with one how often to report at most.
GLANCE_SECONDS: Final = 0.02
#: How long to wait before each look after the bell rang; a disk that takes longer is seen at the next wait.
PAUSES: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, *(GLANCE_SECONDS,) * 10)
_IN_MODIFY: Final = 0x2


class Lookout:
    """Watches one database file."""

    def __init__(self, connection: Connection, path: str) -> None:
        self.connection = connection
        self._bell = Bell(f"{path}-wal")
        self._seen = self._counter()
        self._changes = 0
        self._reported_at = -GLANCE_SECONDS

    async def wait(self, seconds: float) -> bool:
        """Wait until someone may have written, at most for a while; say whether someone may have."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + seconds
        # Whoever else watches may be the one to notice; the count tells everyone who waits.
        changes = self._changes
        await asyncio.sleep(min(self._reported_at + GLANCE_SECONDS - loop.time(), seconds))
        with self._bell.attended() as bell:
            while not self._has_changed(since=changes):
                left = give_up_at - loop.time()
                if left <= 0:
                    return False
                if bell is None:
                    await asyncio.sleep(min(left, GLANCE_SECONDS))
                elif await _rings(bell, left):
                    await self._look_out(changes)
        self._reported_at = loop.time()
        return True

    def close(self) -> None:
        """Listen no more; the connection is left to its owner."""
        self._bell.close()

    async def _look_out(self, changes: int) -> None:
        """Look until what rang the bell is to be seen."""
        for pause in PAUSES:
            if self._has_changed(since=changes):
                return
            await asyncio.sleep(pause)

    def _has_changed(self, since: int) -> bool:
        self._look()
        return self._changes != since

    def _look(self) -> None:
        seen = self._counter()
        if seen is not None and seen != self._seen:
            self._seen = seen
            self._changes += 1

    def _counter(self) -> int | None:
        """Read the change counter; None while another process repairs the log, or if it cannot be read."""
        try:
            ((version,),) = self.connection.rows("PRAGMA data_version")
        except (Busy, Broken):
            return None
        return int(version)


class Bell:
    """Rings when a file is written to, where the kernel tells. What rings while nobody listens is kept."""

    def __init__(self, path: str) -> None:
        self._descriptor = _listen(path) if sys.platform == "linux" else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[asyncio.Event] = set()

    @contextmanager
    def attended(self) -> Iterator[asyncio.Event | None]:
        """Give what is set when the bell rings; None where there is no bell, or for a second event loop."""
        loop = asyncio.get_running_loop()
        if self._descriptor is None or (self._listeners and self._loop is not loop):
            yield None
            return
        if not self._listeners:
            self._loop = loop
            loop.add_reader(self._descriptor, self._ring)
        rung = asyncio.Event()
        self._listeners.add(rung)
        try:
            yield rung
        finally:
            self._listeners.discard(rung)
            if not self._listeners and self._descriptor is not None:
                loop.remove_reader(self._descriptor)

    def _ring(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._descriptor or -1, 65_536)
        for rung in self._listeners:
            rung.set()

    def close(self) -> None:
        """Let go of the kernel's end."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if self._listeners and self._loop is not None:
            self._loop.remove_reader(descriptor)
        os.close(descriptor)


def _listen(path: str) -> int | None:
    try:
        system = ctypes.CDLL(None, use_errno=True)
        descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    if descriptor < 0:
        return None  # too many listeners on this host; looking now and then will do
    if system.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(descriptor)
        return None
    return int(descriptor)


async def _rings(rung: asyncio.Event, seconds: float) -> bool:
    # Not wait_for: on Python 3.11 it swallows a cancellation that arrives together with the bell.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await rung.wait()
    is_rung = rung.is_set()
    rung.clear()
    return is_rung
