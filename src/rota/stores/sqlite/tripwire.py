"""A tripwire: the kernel tells whether a file may have lost its name, so that nobody has to look that up all the time.

To look two names up after its commit takes a lone submission a twentieth of its time. The kernel can be asked instead
(inotify) to note whatever may take a name away from a file: that the file was moved, deleted or replaced, or a folder
above it moved. It does so in the very call that does it, and to ask whether it has noted anything is one short call.
Whoever hears that it has looks at the names themselves.

What happens when something fails: where the kernel cannot be asked (too many listeners, a folder above that may not be
read, a link among them, another system), there is no tripwire, and names are looked up each time. What the kernel does
not note (a file system that was mounted over one of the folders) is seen within `LONGEST_UNSEEN_SECONDS`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
import termios
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from rota.stores.sqlite.forking import CLOSED, Holder

#: The file's links or rights have changed, it was moved, or is gone.
_CHANGES: Final = 0x4 | 0x400 | 0x800
_MOVED: Final = 0x800
#: How long to believe that nothing has happened because nothing was noted.
LONGEST_UNSEEN_SECONDS: Final = 1.0
_NOTHING: Final = bytes(4)


class Tripwire(Holder):
    """Notes what may happen to some files. Asked by one thread at a time."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        #: When the names were last looked at, and whether somebody is at it, or was interrupted.
        self._looked_at = -inf
        self._is_touched = False

    @classmethod
    def stretch(cls, *paths: str) -> Tripwire | None:
        """Stretch one around files; None where that cannot be done."""
        if sys.platform != "linux" or any(os.path.realpath(path) != path for path in paths):
            return None
        try:
            system = ctypes.CDLL(None, use_errno=True)
            descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None
        if descriptor < 0:
            return None
        wire = cls(descriptor)
        watched = {str(folder): _MOVED for path in paths for folder in Path(path).parents}
        watched |= dict.fromkeys(paths, _CHANGES)
        if any(system.inotify_add_watch(descriptor, os.fsencode(path), mask) < 0 for path, mask in watched.items()):
            wire.close()
            return None
        return wire

    def is_touched(self) -> bool:
        """Whether to look at the names: something was noted, or it is time."""
        if self._descriptor == CLOSED:
            return True
        is_quiet = fcntl.ioctl(self._descriptor, termios.FIONREAD, _NOTHING) == _NOTHING
        if is_quiet and not self._is_touched and monotonic() < self._looked_at + LONGEST_UNSEEN_SECONDS:
            return False
        # It stays touched until somebody has looked: a signal may keep this one from it.
        self._is_touched = True
        # Before the look: what happens after it is noted anew.
        self._looked_at = monotonic()
        with suppress(BlockingIOError):
            os.read(self._descriptor, 65_536)
        return True

    def note_look(self) -> None:
        """Note that the names were looked at, and are what they were."""
        self._is_touched = False
