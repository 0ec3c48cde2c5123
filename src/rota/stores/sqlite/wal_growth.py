"""Preallocation of the write-ahead log: it is extended with zeros ahead of the commits that need the space.

A commit that makes the log longer must also bring the new length to the disk, through the file system's journal, and
takes up to twice as long. After a checkpoint SQLite writes the log from its beginning again, and it is long enough. But
until the first checkpoint, for the first thousand commits and more after each start, every commit makes it longer. So
when few zeros are left at its end, the writer adds as many bytes of zeros as the log has.

To SQLite, what follows the last commit is not part of the log, whether zeros or an earlier round: neither has the salt
of this round. Zeros are added only with the write lock, so no other process writes to the log or shortens it meanwhile.

Failures have no effect: where another process has the lock or the disk is full, commits extend the log themselves. If
the process dies here, some zeros follow the last commit.
"""

from __future__ import annotations

import os
from typing import Final

from rota.stores.sqlite.driver import DatabaseBusy, DatabaseFailed, SqliteConnection, roll_back
from rota.stores.sqlite.file_identity import FileId, file_id_in, file_size

#: Somewhat more than the log holds at a checkpoint (`wal_autocheckpoint`): beyond that nothing is needed.
TARGET_BYTES: Final = 4_100 * 4_120
#: A process that writes little needs no preallocation.
MINIMUM_BYTES: Final = 65_536
#: The next commit brings all of it to the disk.
MAX_STEP_BYTES: Final = 1_048_576
COMMITS_BETWEEN_CHECKS: Final = 8
#: How much free space there should be: more than all processes need until the next check.
FREE_BYTES: Final = 262_144
#: The log begins with a header, which contains the page size. A header precedes each page, and begins with the page's
#: number. See SQLite's file format.
_LOG_HEADER: Final = 32
_PAGE_SIZE: Final = slice(8, 12)
_PAGE_HEADER: Final = 24
_PAGE_NUMBER: Final = 4


class WalPreallocator:
    """Extends one log, for the connection that writes to it."""

    def __init__(self, log: bytes, log_id: FileId) -> None:
        self._log = log
        self._log_id = log_id
        self._commits_left = COMMITS_BETWEEN_CHECKS

    def after_commit(self, connection: SqliteConnection) -> None:
        """Check every few commits whether to extend the log."""
        self._commits_left -= 1
        # Not only at zero: a signal before the counter is reset must not stop the checks for ever.
        if self._commits_left <= 0:
            self._commits_left = COMMITS_BETWEEN_CHECKS
            try:
                self._check(connection)
            except (DatabaseBusy, DatabaseFailed):
                return
            except OSError as error:
                # Without a number it was raised by a signal handler (a timeout): the caller expects it.
                if error.errno is None:
                    raise
                roll_back(connection)

    def _check(self, connection: SqliteConnection) -> None:
        length = file_size(self._log)
        if not MINIMUM_BYTES <= length < TARGET_BYTES:
            return
        # Closing it drops no lock: SQLite has none on the log itself.
        descriptor = os.open(self._log, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not _has_free_space(descriptor, length):
                connection.run("BEGIN IMMEDIATE")
                try:
                    self._extend(descriptor)
                finally:
                    roll_back(connection)
        finally:
            os.close(descriptor)

    def _extend(self, descriptor: int) -> None:
        log = os.fstat(descriptor)
        size = log.st_size
        # Checked again with the lock: it may be another file by now, be truncated, or be extended by another process.
        if (
            file_id_in(log) == self._log_id
            and MINIMUM_BYTES <= size < TARGET_BYTES
            and not _has_free_space(descriptor, size)
        ):
            os.pwrite(descriptor, bytes(min(size, MAX_STEP_BYTES, TARGET_BYTES - size)), size)


def _has_free_space(descriptor: int, length: int) -> bool:
    """Whether the last `FREE_BYTES` of the log were never written to, by any process."""
    frame = int.from_bytes(os.pread(descriptor, _LOG_HEADER, 0)[_PAGE_SIZE]) + _PAGE_HEADER
    before = (length - FREE_BYTES - _LOG_HEADER) // frame
    return before >= 0 and not any(os.pread(descriptor, _PAGE_NUMBER, _LOG_HEADER + before * frame))
