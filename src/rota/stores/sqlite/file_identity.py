"""File identity: notices that the database file or its log was deleted, moved or replaced while in use.

Unix lets a process go on writing to a file that has lost its name, and everything it then acknowledges is lost. So
after every commit the identity (inode and device) of both names is compared with that of the files that were opened.

Two costs are avoided:

- `os.stat` also reads the times of a file. Since Linux 6.13 a file whose times were read gets a new exact time at its
  next write, which goes through the file system's journal: a commit after such a read took a third longer. `statx`
  reads only the fields that are requested. Where there is no `statx`, or a container forbids it, `os.stat` is used.
- Looking up two names takes a twentieth of the time of a single submission. After some commits the kernel is asked
  instead (inotify) to record whatever may take a name away: the file was moved, deleted or replaced, or a folder above
  it was moved. Checking whether it recorded anything is one short call. Where inotify cannot be used (too many watches,
  an unreadable folder, a link in the path, another system), names are looked up each time. What inotify does not report
  (a file system mounted over a folder) is noticed within `LONGEST_UNCHECKED_SECONDS`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
import termios
from contextlib import suppress
from copy import copy
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from rota.stores.sqlite.driver import FileLost
from rota.stores.sqlite.fork import CLOSED, DescriptorOwner

#: After how many commits inotify is used: watches are limited, and most processes write little.
COMMITS_BEFORE_WATCH: Final = 100
#: How long a lack of inotify events is trusted.
LONGEST_UNCHECKED_SECONDS: Final = 1.0

#: Inode number, major and minor device number: these identify a file.
FileId = tuple[int, int, int]

_AT_FDCWD: Final = -100
_AT_STATX_SYNC_AS_STAT: Final = 0
_STATX_INO: Final = 0x100
_STATX_SIZE: Final = 0x200
_IN_MOVE_SELF: Final = 0x800
#: IN_ATTRIB (links or rights changed), IN_DELETE_SELF, IN_MOVE_SELF.
_IN_IDENTITY: Final = 0x4 | 0x400 | _IN_MOVE_SELF
_NO_BYTES: Final = bytes(4)


class _StatxBuffer(ctypes.Structure):
    """struct statx, of which four fields are read."""

    _fields_ = (
        ("mode_and_owners", ctypes.c_byte * 32),
        ("number", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("blocks_and_times", ctypes.c_byte * 88),
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("rest", ctypes.c_byte * 112),
    )


_statx = getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None
if _statx is not None:
    # Declared once: ctypes takes as long as the call itself to infer the argument types at every call.
    _statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def file_id(name: bytes) -> FileId:
    """Return the identity of the file that has a name; `OSError` if there is none."""
    # A buffer for each call: two threads may call at once.
    buffer = _StatxBuffer()
    if _statx is None or _statx(_AT_FDCWD, name, _AT_STATX_SYNC_AS_STAT, _STATX_INO, ctypes.byref(buffer)):
        return file_id_in(os.stat(name))  # noqa: PTH116 - at every commit: a Path would double the cost
    return buffer.number, buffer.major, buffer.minor


def file_id_in(status: os.stat_result) -> FileId:
    return status.st_ino, os.major(status.st_dev), os.minor(status.st_dev)


def file_size(name: bytes) -> int:
    """Return the size of a file in bytes; `OSError` if there is none."""
    buffer = _StatxBuffer()
    if _statx is None or _statx(_AT_FDCWD, name, _AT_STATX_SYNC_AS_STAT, _STATX_SIZE, ctypes.byref(buffer)):
        return os.stat(name).st_size  # noqa: PTH116 - as above
    return int(buffer.size)


class NameProbe:
    """Checks one name after every commit, with a buffer that is made once. Used by one thread at a time."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._buffer = _StatxBuffer()
        self._pointer = ctypes.byref(self._buffer)

    def belongs_to(self, expected: FileId) -> bool:
        """Whether the name still belongs to a file; `OSError` if no file has it."""
        if _statx is None or _statx(_AT_FDCWD, self._name, _AT_STATX_SYNC_AS_STAT, _STATX_INO, self._pointer):
            return file_id_in(os.stat(self._name)) == expected  # noqa: PTH116 - as above
        buffer = self._buffer
        return (buffer.number, buffer.major, buffer.minor) == expected


class NameWatch(DescriptorOwner):
    """An inotify watch on whatever may take the names of files away. Used by one thread at a time."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        #: When the names were last checked, and whether a check is due, or was interrupted.
        self._checked_at = -inf
        self._is_check_due = False

    @classmethod
    def open(cls, *paths: str) -> NameWatch | None:
        """Watch some files; None where that is impossible."""
        if sys.platform != "linux" or any(os.path.realpath(path) != path for path in paths):
            return None
        try:
            system = ctypes.CDLL(None)
            descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None
        if descriptor < 0:
            return None
        watch = cls(descriptor)
        masks = {str(folder): _IN_MOVE_SELF for path in paths for folder in Path(path).parents}
        masks |= dict.fromkeys(paths, _IN_IDENTITY)
        if any(system.inotify_add_watch(descriptor, os.fsencode(path), mask) < 0 for path, mask in masks.items()):
            watch.close()
            return None
        return watch

    def needs_check(self) -> bool:
        """Whether the names must be checked: something was recorded, or the last check is too old."""
        if self._descriptor == CLOSED:
            return True
        is_quiet = fcntl.ioctl(self._descriptor, termios.FIONREAD, _NO_BYTES) == _NO_BYTES
        if is_quiet and not self._is_check_due and monotonic() < self._checked_at + LONGEST_UNCHECKED_SECONDS:
            return False
        # It stays due until `mark_checked`: a signal may interrupt the check.
        self._is_check_due = True
        # Before the check: later events are recorded anew.
        self._checked_at = monotonic()
        with suppress(BlockingIOError):
            os.read(self._descriptor, 65_536)
        return True

    def mark_checked(self) -> None:
        self._is_check_due = False


class FileIdentity:
    """The identities of a store's database file and log, and the check that their names still belong to them."""

    def __init__(self, path: str) -> None:
        self.path = path
        file, self.log = os.fsencode(path), os.fsencode(f"{path}-wal")
        try:
            # A connection is open, so the log exists. Read later, a log put in its place would be trusted.
            self._file_id, self.log_id = file_id(file), file_id(self.log)
        except OSError:
            raise FileLost(path) from None
        self._probes = NameProbe(file), NameProbe(self.log)
        self._commits = 0
        self._watch: NameWatch | None = None

    def for_another_thread(self) -> FileIdentity:
        """Return a copy with probes of its own: each is used by one thread at a time."""
        other = copy(self)
        other.__dict__["_probes"] = NameProbe(os.fsencode(self.path)), NameProbe(self.log)
        return other

    def check_after_commit(self) -> None:
        """Check the names unless the kernel reports no change; start the kernel's watch after some commits."""
        if self._watch is not None:
            if self._watch.needs_check():
                self.check()
                self._watch.mark_checked()
            return
        self._commits += 1
        if self._commits == COMMITS_BEFORE_WATCH:
            # Before the check: what happens in between is recorded.
            self._watch = NameWatch.open(self.path, os.fsdecode(self.log))
        self.check()

    def check(self) -> None:
        """Check the names; raise `FileLost` if another file, or none, has one of them."""
        file, log = self._probes
        try:
            if file.belongs_to(self._file_id) and log.belongs_to(self.log_id):
                return
        except OSError as error:
            # Without a number it was raised by a signal handler (a timeout) and says nothing about the file.
            if error.errno is None:
                raise
        raise FileLost(self.path)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
