"""What the kernel knows of a file that has a name: which one it is and how long, but not when it was written to.

`os.stat` asks for the times too. Since Linux 6.13 a file whose times somebody has seen is given a new one, exact to the
nanosecond, at its next write, and its inode goes through the file system's journal for that: a commit that follows upon
a look at the log took a third longer. `statx` can be asked for the rest alone.

What happens when something fails: where the system has no `statx`, or a container does not let it through, `os.stat` is
asked, which says the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

#: Its number and its device's two: enough to tell a file from all others.
Inode = tuple[int, int, int]

_WORKING_DIRECTORY: Final = -100
_AS_STAT: Final = 0
_NUMBER: Final = 0x100
_SIZE: Final = 0x200


class _Told(ctypes.Structure):
    """What the kernel writes down, of which we read four fields."""

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
    # Told once: to find out at every call what it takes lasts as long as the call.
    _statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def inode_of(name: bytes) -> Inode:
    """Say which file has a name now; `OSError` if none has."""
    # Anew for each: two threads may ask at once.
    told = _Told()
    if _statx is None or _statx(_WORKING_DIRECTORY, name, _AS_STAT, _NUMBER, ctypes.byref(told)):
        return inode_in(os.stat(name))  # noqa: PTH116 - at every commit: a Path would cost as much again
    return told.number, told.major, told.minor


class Named:
    """A name that is looked up after every commit, by one thread at a time: what the kernel writes to is made once."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._told = _Told()
        self._where = ctypes.byref(self._told)

    def has(self, inode: Inode) -> bool:
        """Whether a file still has the name; `OSError` if none has."""
        if _statx is None or _statx(_WORKING_DIRECTORY, self._name, _AS_STAT, _NUMBER, self._where):
            return inode_in(os.stat(self._name)) == inode  # noqa: PTH116 - as below
        told = self._told
        return (told.number, told.major, told.minor) == inode


def inode_in(seen: os.stat_result) -> Inode:
    """Say the same of a file that was looked at."""
    return seen.st_ino, os.major(seen.st_dev), os.minor(seen.st_dev)


def length_of(name: bytes) -> int:
    """Say how many bytes a file has; `OSError` if there is none."""
    told = _Told()
    if _statx is None or _statx(_WORKING_DIRECTORY, name, _AS_STAT, _SIZE, ctypes.byref(told)):
        return os.stat(name).st_size  # noqa: PTH116 - as above
    return int(told.size)
