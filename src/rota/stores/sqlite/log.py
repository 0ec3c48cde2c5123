"""The length of the log: why the first commits after a start should not be slower than the rest.

A commit that makes the log longer has to sync the file's new length as well, which on a journalling file system is a
second write and takes up to as long again. SQLite writes over a long log from its beginning once it is checkpointed, so
that this passes by itself after some hundred commits; but the log is deleted when the last process closes the database.
So whoever keeps the store in order writes it to its full length once, ahead of those who wait for a commit.

What is written says nothing (the same number in the file's header, again and again), and nobody waits for it, so it is
not synced commit by commit. That weakens nobody else's commit: a sync is of the whole file, and a checkpoint, which
falls due at the end of this, syncs as always. If the process dies in the midst of it, the log is shorter than it might
be.
"""

from __future__ import annotations

import os
from typing import Final

from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.files import SYNC_ALWAYS, SYNC_AT_CHECKPOINTS
from rota.stores.sqlite.operations import Manner

#: How many commits are made before others have their turn: two or three milliseconds.
AT_ONCE: Final = 128
#: What the log has of its own, before all pages and before each.
_HEADER_BYTES: Final = 32
_FRAME_BYTES: Final = 24


class Log:
    """The log beside a database file."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        #: How many commits made it longer so far.
        self._made = 0
        #: Whether it is as long as it will be. Not asked again: who has cut it since will have had a reason.
        self.is_long = False
        #: It is lengthened by itself. Where others write, they make it longer.
        self.manner: Final = Manner(stroke=self.lengthen)

    def lengthen(self, connection: Connection) -> bool:
        """Make it longer by a little, if it is not long, in commits that nobody waits for."""
        ((pages,),) = connection.rows("PRAGMA wal_autocheckpoint")
        ((page,),) = connection.rows("PRAGMA page_size")
        ((number,),) = connection.rows("PRAGMA application_id")
        left = min(pages - self._made, AT_ONCE)
        if left <= 0 or os.stat(self._path).st_size >= _HEADER_BYTES + pages * (_FRAME_BYTES + page):  # noqa: PTH116
            self.is_long = True
            return True
        connection.rows(SYNC_AT_CHECKPOINTS)
        try:
            for _ in range(left):
                connection.run(f"PRAGMA application_id = {number}")
        finally:
            connection.rows(SYNC_ALWAYS)
        self._made += left
        return True


def leave_it(connection: Connection) -> bool:  # noqa: ARG001 - a verb, as the desks want them
    """Do nothing, among others."""
    return False
