"""The file of a store: opening it, and noticing that it is no longer the one that was opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Final

from rota.stores.sqlite.driver import Broken, Connection, LostFile
from rota.stores.sqlite.inodes import Named, inode_of
from rota.stores.sqlite.operations import patiently
from rota.stores.sqlite.tripwire import Tripwire

#: After how many commits the kernel is asked to watch: it has few watches to give, and most processes write little.
COMMITS_TO_TRIPWIRE: Final = 100
IN_MEMORY: Final = ":memory:"

#: How a connection is made of a path: `StandardConnection`, or `ApswConnection` of `apsw_driver`.
Connect = Callable[[str], Connection]

#: synchronous=FULL: an acknowledged commit survives a power cut. The rest only spares work.
_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32768",
)
#: Two megabytes for whoever only reads: counting a million jobs would fill any cache, which then stays; what is read
#: again and again the system keeps anyway.
_READERS_CACHE: Final = "PRAGMA cache_size = -2048"


def open_file(path: str, connect: Connect) -> Connection:
    """Open a database for whoever writes; a file that is not there yet is made."""
    if path != IN_MEMORY:
        _create(path)
    connection = connect(path)
    try:
        for pragma in _PRAGMAS:
            patiently(partial(connection.rows, pragma))
    except BaseException:
        connection.close()
        raise
    return connection


def for_reading(opener: Callable[[], Connection]) -> Connection:
    """Open a database for whoever only reads."""
    connection = opener()
    connection.rows(_READERS_CACHE)
    return connection


class FileWitness:
    """Knows which files a store was opened on, and tells when they are no longer there under their names.

    Unix lets a program go on writing into a file that has lost its name, and every answer it gives then is a lie.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        file, self.log = os.fsencode(path), os.fsencode(f"{path}-wal")
        try:
            # A connection is open, so the log is there; learnt later, one that was put in its place would be trusted.
            self._known_file, self.known_log = inode_of(file), inode_of(self.log)
        except OSError:
            raise LostFile(path) from None
        self._names = Named(file), Named(self.log)
        self._commits = 0
        self._tripwire: Tripwire | None = None

    def for_another(self) -> FileWitness:
        """Give one that knows the same, for another desk: each is asked by one thread at a time."""
        other = copy(self)
        other.__dict__["_names"] = Named(os.fsencode(self.path)), Named(self.log)
        return other

    def after_commit(self) -> None:
        """Look, unless the kernel says that there is no need; ask it to once there were so many commits."""
        if self._tripwire is not None:
            if self._tripwire.is_touched():
                self()
                self._tripwire.note_look()
            return
        self._commits += 1
        if self._commits == COMMITS_TO_TRIPWIRE:
            # Before the look: what happens in between is noted.
            self._tripwire = Tripwire.stretch(self.path, os.fsdecode(self.log))
        self()

    def close(self) -> None:
        """Let go of the kernel's end."""
        if self._tripwire is not None:
            self._tripwire.close()

    def __call__(self) -> None:
        """Look; raise `LostFile` if another file, or none, has a name now."""
        file, log = self._names
        try:
            if file.has(self._known_file) and log.has(self.known_log):
                return
        except OSError as error:
            # Not the system's, then, but a signal's, as a timeout is: it says nothing about the file.
            if error.errno is None:
                raise
        raise LostFile(self.path)


def found(path: str) -> str:
    """Say where a file is, wherever this process goes. A link is followed, as SQLite does: the log lies beside."""
    if path == IN_MEMORY:
        return path
    return os.path.realpath(path) if Path(path).is_symlink() else os.path.abspath(path)  # noqa: PTH100 - as it is named


def _create(path: str) -> None:
    """Make a file that is not there yet, so that payloads are not for everyone to read.

    Never opens one that is: closing it again would drop every lock this process holds on it (that is how POSIX locks
    work), and other processes would take the database for unused and delete its log under us.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
            raise Broken("Permission denied: it must be read and written", is_final=True) from None
    except OSError as error:
        raise Broken(error.strerror or str(error), is_final=True) from error
