"""The bell between processes that share a file: who has committed knocks, and the kernel tells the others (inotify).

A knock opens an empty file beside the database and closes it again: for reading if there is new work, for writing if
something has a new time. The kernel tells who listens which of the two it was, and nothing goes to the disk; to set the
times of a file would, and now and then takes as long as a commit. A knock tells that something is new, not what: that
is in the database. Where the file cannot be made or opened, nobody knocks, and the others notice from the log.
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
from typing import Any, Final

from rota.stores.sqlite.driver import Connection

_IN_MODIFY: Final = 0x2
_IN_CLOSE_WRITE: Final = 0x8
_IN_CLOSE_NOWRITE: Final = 0x10
#: Never told while the file is open: for a watch that rests.
_IN_DELETE_SELF: Final = 0x400
#: The kernel could keep no more: anything may have rung.
_IN_Q_OVERFLOW: Final = 0x4000
#: Which watch, what happened, a cookie, and the length of a name, which there is only for files in folders.
_EVENT: Final = struct.Struct("iIII")


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
        finally:
            os.close(made)
    return stat.S_ISREG(os.stat(door).st_mode)  # noqa: PTH116 - as above


class Knocker:
    """Tells the others, after a commit, what it was about."""

    def __init__(self, path: str) -> None:
        self._door = door_of(path)

    def knock(self, connection: Connection) -> None:
        """Knock if a connection has made something that others should hear of. A hint: whatever fails, fails."""
        if connection.has_made_work:
            connection.has_made_work = False
            self._open(os.O_RDONLY)
        if connection.has_set_times:
            connection.has_set_times = False
            self._open(os.O_WRONLY)

    def _open(self, how: int) -> None:
        with suppress(OSError):
            os.close(os.open(self._door, how))


class Bell:
    """Rings for knocks and for writes, where the kernel tells. What rings while nobody listens is kept."""

    def __init__(self, path: str) -> None:
        #: How often a knock told of work, and of times.
        self.work = 0
        self.times = 0
        #: Whether the log was written to since this was last taken back.
        self.is_written = False
        self._log = os.fsencode(f"{path}-wal")
        self._hears_writes = False
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

    def hear_writes(self, *, wanted: bool) -> None:
        """Ring when the log is written to, or for knocks only."""
        if self._descriptor is not None and wanted != self._hears_writes:
            self._hears_writes = wanted
            self._watch(self._log, _IN_MODIFY if wanted else _IN_DELETE_SELF)

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
        for _, mask, _, _ in _EVENT.iter_unpack(told):
            self.is_written |= bool(mask & _IN_MODIFY)
            self.work += bool(mask & (_IN_CLOSE_NOWRITE | _IN_Q_OVERFLOW))
            self.times += bool(mask & (_IN_CLOSE_WRITE | _IN_Q_OVERFLOW))
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
        knocks = self._watch(os.fsencode(door_of(path)), _IN_CLOSE_WRITE | _IN_CLOSE_NOWRITE)
        if knocks < 0 or self._watch(self._log, _IN_DELETE_SELF) < 0:
            self.close()

    def _watch(self, path: bytes, mask: int) -> int:
        return int(self._system.inotify_add_watch(self._descriptor, path, mask))
