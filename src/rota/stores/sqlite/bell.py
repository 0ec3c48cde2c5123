"""The bell between processes that share a file: who has committed knocks, and the kernel tells the others (inotify).

A knock reads a byte of a small file beside the database if there is new work, and opens and closes it for writing if
something has a new time. The kernel tells who listens which of the two it was, and nothing goes to the disk; to set the
times of a file would, and now and then takes as long as a commit. A knock tells that something is new, not what: that
is in the database. Where the file cannot be made or opened, nobody knocks, and the others notice from the log.

Whoever is woken takes a core, and on a machine with few of them it takes that of the one who commits, or of the one
whom the knock is for. So a process that never asks for work does nothing more than hear of it. And the kernel tells of
writes to the log in the midst of a commit; so it is asked to only where nobody has knocked for a while, and else we
look at the log's time now and then, which costs less than to be told.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Final

from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.forking import CLOSED, Holder

_IN_ACCESS: Final = 0x1
_IN_MODIFY: Final = 0x2
_IN_CLOSE_WRITE: Final = 0x8
#: Never told while the file is open: for a watch that rests.
_IN_DELETE_SELF: Final = 0x400
#: The kernel could keep no more: anything may have rung.
_IN_Q_OVERFLOW: Final = 0x4000
#: How long after a knock to look for writes by ourselves, and how often.
AWAKE_SECONDS: Final = 0.5
PEEK_SECONDS: Final = 0.02
#: How long after a write to ring for it: it is not on the disk yet, and most are knocked for when they are.
HUSH_SECONDS: Final = 0.002
#: Which watch, what happened, a cookie, and the length of a name, which there is only for files in folders.
_EVENT: Final = struct.Struct("iIII")


_CLAPPER: Final = b"."
#: Who reads must not write down that it did; only its owner may ask for that, and to others it matters once a day.
_QUIETLY: Final = getattr(os, "O_NOATIME", 0)


def door_of(path: str) -> str:
    """Name the file that knocks open."""
    return f"{path}-bell"


def _hang(door: str, file: os.stat_result) -> bool:
    """See to it that there is a door, and say whether there is one. As many may knock as may write to the file."""
    with suppress(FileExistsError):
        made = os.open(door, os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IMODE(file.st_mode))
        try:
            # As SQLite does with its log: neither our umask counts, nor that an operator happened to be the first.
            os.fchmod(made, stat.S_IMODE(file.st_mode))
            if os.geteuid() == 0:
                os.fchown(made, file.st_uid, file.st_gid)
            # What is read must be there.
            os.write(made, _CLAPPER)
        finally:
            os.close(made)
    return stat.S_ISREG(os.stat(door).st_mode)  # noqa: PTH116 - as above


class Knocker(Holder):
    """Tells the others, after a commit, what it was about."""

    def __init__(self, path: str) -> None:
        # The door is opened at the first knock for work, and stays open: to open it each time takes four times as long.
        super().__init__()
        self._door = door_of(path)

    def knock(self, connection: Connection) -> None:
        """Knock if a connection has made something that others should hear of. A hint: whatever fails, fails."""
        try:
            if connection.has_made_work:
                connection.has_made_work = False
                if self._descriptor == CLOSED:
                    self._descriptor = _opened(self._door)
                if not os.pread(self._descriptor, 1, 0):
                    # Somebody has emptied it, and what is not there cannot be read.
                    self.close()
            if connection.has_set_times:
                connection.has_set_times = False
                os.close(os.open(self._door, os.O_WRONLY))
        except OSError as error:
            # Not again at the next commit, which may have nothing to tell.
            connection.has_made_work = connection.has_set_times = False
            # A signal's, as a timeout is: whoever set it waits for it.
            if error.errno is None:
                raise


def _opened(door: str) -> int:
    """Open a door to knock at."""
    try:
        descriptor = os.open(door, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | _QUIETLY)
    except PermissionError:
        descriptor = os.open(door, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not os.pread(descriptor, 1, 0):
        # Of an earlier release, or emptied by somebody. Never through a link: it may lead to a file that is no door.
        with suppress(OSError):
            empty = os.open(door, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            os.write(empty, _CLAPPER)
            os.close(empty)
    return descriptor


class Bell:
    """Rings for knocks and for writes, where the kernel tells. What rings while nobody listens is kept."""

    def __init__(self, path: str) -> None:
        #: How often a knock told of work, as far as anybody here asks for work, and of times.
        self.work = 0
        self.times = 0
        #: Whether the log was written to since this was last taken back.
        self.is_written = False
        self._log = os.fsencode(f"{path}-wal")
        self._hears_work = self._hears_writes = self._is_told_of_writes = False
        self._awake_until = -inf
        self._stamp = self.stamp()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[asyncio.Event] = set()
        self._system: Any = None
        self._descriptor: int | None = None
        if sys.platform == "linux":
            self._open(path)

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
            # What rang before we came counts now, and not at the loop's next turn.
            self._ring()
        rung = asyncio.Event()
        self._listeners.add(rung)
        try:
            yield rung
        finally:
            self._listeners.discard(rung)
            if not self._listeners and self._descriptor is not None:
                loop.remove_reader(self._descriptor)
                # The kernel keeps one of equal rings; knocks and writes by turns would fill its memory.
                self.hear_writes(wanted=False)

    def hear_work(self) -> None:
        """Ring for new work too, from now on."""
        self._hears_work = True

    def hear_writes(self, *, wanted: bool) -> None:
        """Ring when the log is written to, or for knocks only. What is written before that rings for nobody."""
        if self._descriptor is None or wanted == self._hears_writes:
            return
        self._hears_writes = wanted
        if wanted:
            self._stamp = self.stamp()
            self._listen()
        else:
            self._set_timer(None)
            self._be_told(wanted=False)

    def _listen(self) -> None:
        """Look at the log again and again while something goes on, and have its writes told while nothing does."""
        assert self._loop is not None
        if self._loop.time() < self._awake_until:
            self._look_in(PEEK_SECONDS)
            return
        self._be_told(wanted=True)
        # What was written just before.
        self._peek()

    def _peek(self) -> None:
        if self.stamp() != self._stamp:
            self._ring_for_write()
        elif not self._is_told_of_writes:
            self._listen()

    def _ring_for_write(self) -> None:
        self.hear_writes(wanted=False)
        self.is_written = True
        self._wake()

    def _be_told(self, *, wanted: bool) -> None:
        if wanted != self._is_told_of_writes:
            self._is_told_of_writes = wanted
            self._watch(self._log, _IN_MODIFY if wanted else _IN_DELETE_SELF)

    def _look_in(self, seconds: float) -> None:
        """Look at the log after a while instead of being told any more."""
        self._be_told(wanted=False)
        self._set_timer(seconds)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None and self._loop is not None:
            self._timer = self._loop.call_later(seconds, self._peek)

    def stamp(self) -> tuple[int, int]:
        """Say when the log was written to last, and how long it is."""
        try:
            log = os.stat(self._log)  # noqa: PTH116 - at every look
        except OSError:
            return 0, 0
        return log.st_mtime_ns, log.st_size

    def close(self) -> None:
        """Let go of the kernel's end."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        self._set_timer(None)
        if self._listeners and self._loop is not None:
            self._loop.remove_reader(descriptor)
        os.close(descriptor)

    def _ring(self) -> None:
        if self._descriptor is None:
            return
        try:
            told = os.read(self._descriptor, 65_536)
        except BlockingIOError:
            return
        is_knocked = False
        for _, mask, _, _ in _EVENT.iter_unpack(told):
            if mask & _IN_MODIFY and self._is_told_of_writes:
                self._look_in(HUSH_SECONDS)
            if mask & (_IN_CLOSE_WRITE | _IN_ACCESS) and self._loop is not None:
                self._awake_until = self._loop.time() + AWAKE_SECONDS
            if not self._hears_work and mask & _IN_ACCESS and self._hears_writes:
                # That was what was written, and it concerns nobody here.
                self._look_in(PEEK_SECONDS)
            if self._hears_work and mask & (_IN_ACCESS | _IN_Q_OVERFLOW):
                self.work += 1
                is_knocked = True
            if mask & (_IN_CLOSE_WRITE | _IN_Q_OVERFLOW):
                self.times += 1
                is_knocked = True
        if is_knocked:
            self._wake()

    def _wake(self) -> None:
        for rung in self._listeners:
            rung.set()

    def _open(self, path: str) -> None:
        try:
            if not _hang(door_of(path), os.stat(path)):  # noqa: PTH116 - a text will do
                return
            self._system = ctypes.CDLL(None, use_errno=True)
            descriptor = self._system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return
        if descriptor < 0:
            return  # too many listeners on this host; looking now and then will do
        self._descriptor = int(descriptor)
        knocks = self._watch(os.fsencode(door_of(path)), _IN_CLOSE_WRITE | _IN_ACCESS)
        if knocks < 0 or self._watch(self._log, _IN_DELETE_SELF) < 0:
            self.close()

    def _watch(self, path: bytes, mask: int) -> int:
        return int(self._system.inotify_add_watch(self._descriptor, path, mask))
