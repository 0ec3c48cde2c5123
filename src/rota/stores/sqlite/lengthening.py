"""The log, made longer ahead of those who write to it.

A commit that makes the log longer has to bring its new length to the disk as well, by the file system's own journal,
and takes up to twice as long. After a checkpoint the log is written from its beginning again, and is long enough; but
until the first one, for the first thousand commits and more after every start, each commit makes it longer. So whoever
writes adds zeros when there are few of them left at the end, as many as the log has bytes.

To SQLite what lies behind the last commit is no part of the log, be it zeros or what is left of an earlier round:
neither has the mark of this one. Only who has the write lock adds them: nobody else writes to the log then, or shortens
it.

What happens when something fails: nothing. Where another process has the lock or the disk is full, commits make the log
longer by themselves. If the process dies here, there are zeros behind the last commit, or not all of them.
"""

from __future__ import annotations

import os
from typing import Final

from rota.stores.sqlite.driver import Broken, Busy, Connection
from rota.stores.sqlite.inodes import Inode, inode_in, length_of
from rota.stores.sqlite.operations import roll_back

#: Somewhat more than the log has when it is written back (`wal_autocheckpoint`): then nothing more is needed.
ENOUGH: Final = 4_100 * 4_120
#: Whoever writes only a little needs none of it.
LEAST: Final = 65_536
#: The next commit brings all of them to the disk.
MOST_AT_ONCE: Final = 1_048_576
COMMITS_BETWEEN_LOOKS: Final = 8
#: How much room there should be: more than is needed until the next look, by one process or another.
ROOM: Final = 262_144
#: The log begins with a header, in which the size of a page stands; before each page is another, which begins with the
#: number of that page. See SQLite's file format.
_HEADER: Final = 32
_PAGE_SIZE: Final = slice(8, 12)
_PAGE_HEADER: Final = 24
_NUMBER: Final = 4


class Lengthener:
    """Makes one log longer, for the connection that writes to it."""

    def __init__(self, log: bytes, inode: Inode) -> None:
        self._log = log
        self._inode = inode
        self._until_look = COMMITS_BETWEEN_LOOKS

    def __call__(self, connection: Connection) -> None:
        """Look now and then whether it is time, after a commit."""
        self._until_look -= 1
        # Not only at zero: a signal that comes before it is set anew must not be the end of it.
        if self._until_look <= 0:
            self._until_look = COMMITS_BETWEEN_LOOKS
            try:
                self._look(connection)
            except (Busy, Broken):
                return
            except OSError as error:
                # Not the system's, then, but a signal's, as a timeout is: whoever set it waits for it.
                if error.errno is None:
                    raise
                roll_back(connection)

    def _look(self, connection: Connection) -> None:
        length = length_of(self._log)
        if not LEAST <= length < ENOUGH:
            return
        # To close it drops no lock: SQLite has none on the log itself.
        descriptor = os.open(self._log, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not _has_room(descriptor, length):
                connection.run("BEGIN IMMEDIATE")
                try:
                    self._lengthen(descriptor)
                finally:
                    roll_back(connection)
        finally:
            os.close(descriptor)

    def _lengthen(self, descriptor: int) -> None:
        log = os.fstat(descriptor)
        # Another that was put in its place is not ours, and our lock is not for it.
        # And somebody may have cut it off, or been quicker, before we had the lock.
        if inode_in(log) == self._inode and LEAST <= log.st_size < ENOUGH and not _has_room(descriptor, log.st_size):
            more = min(log.st_size, MOST_AT_ONCE, ENOUGH - log.st_size)
            os.pwrite(descriptor, bytes(more), log.st_size)


def _has_room(descriptor: int, length: int) -> bool:
    """Whether the pages at the end were never written to, by any process."""
    frame = int.from_bytes(os.pread(descriptor, _HEADER, 0)[_PAGE_SIZE]) + _PAGE_HEADER
    before = (length - ROOM - _HEADER) // frame
    return before >= 0 and not any(os.pread(descriptor, _NUMBER, _HEADER + before * frame))
