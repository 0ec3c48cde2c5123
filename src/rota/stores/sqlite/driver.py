"""SQLite driver: a small connection interface over the standard library's `sqlite3`, and opening of database files.

Nothing outside this module calls `sqlite3` for the store's own connections; the caller's connection has an adapter of
its own in `caller_tx`. Errors of SQLite are translated into four exceptions: another process holds the lock
(`DatabaseBusy`), a constraint refused a row (`ConstraintViolated`), the database cannot be used (`DatabaseFailed`), or
its file is gone (`FileLost`).
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from rota.core.errors import StoreUnavailable
from rota.stores.rows import Row
from rota.stores.statements import for_rows

Parameters = Sequence[Any] | dict[str, Any]
T = TypeVar("T")

#: The first version with STRICT tables; RETURNING and json_each are older.
OLDEST_SQLITE: Final = (3, 37, 0)
IN_MEMORY: Final = ":memory:"
#: How long to wait for another process that holds the write lock.
LONGEST_BUSY_SECONDS: Final = 15.0
#: Short and random. SQLite's own growing pauses can starve one of several writing processes for half a second.
BUSY_PAUSE_SECONDS: Final = 0.001
#: A power of two. More rows in one statement gain nothing.
MAX_ROWS_PER_STATEMENT: Final = 128
#: synchronous=FULL: an acknowledged commit survives a power cut. The other settings only save work.
_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32768",
)
#: Two megabytes for readers: counting a million jobs would fill any cache, and the operating system caches files
#: anyway.
_READER_CACHE: Final = "PRAGMA cache_size = -2048"
_FINAL_CODES: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
#: What sqlite3 raises. It decodes SQLite's messages as UTF-8; a message that is not UTF-8 quotes a damaged file.
_RAISED: Final = (sqlite3.Error, UnicodeDecodeError)


class DatabaseBusy(Exception):
    """Another process holds the write lock."""


class DatabaseFailed(Exception):
    """The database cannot be used: full disk, failed write, damaged or unreadable file."""

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        #: After a failed write or sync the content of the disk is unknown until the store is opened again.
        self.is_final = is_final


class FileLost(DatabaseFailed):
    """The database file was deleted, moved or replaced while in use: what is written now will never be read."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} or its log was deleted, moved or replaced while in use; all calls are refused until a restart",
            is_final=True,
        )


class ConstraintViolated(Exception):
    """A constraint refused a row."""


class SqliteConnection(Protocol):
    """One connection to a database. Used by one thread at a time."""

    #: Whether statements since the last commit made jobs claimable, or set a time for upkeep. Other processes are
    #: notified of it after the commit.
    has_made_work: bool
    has_set_times: bool

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of changed rows."""
        ...

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        """Run a statement once for each set of parameters and return the number of changed rows."""
        ...

    def close(self) -> None: ...


#: Opens a connection to a path: `StandardConnection`, or a test's own.
Connect = Callable[[str], SqliteConnection]


class StandardConnection:
    """A connection over the standard library's `sqlite3`."""

    def __init__(self, location: str) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            needed = ".".join(map(str, OLDEST_SQLITE))
            raise DatabaseFailed(f"SQLite {needed} or newer is needed, this is {sqlite3.sqlite_version}", is_final=True)
        self.has_made_work = self.has_set_times = False
        try:
            self._connection = sqlite3.connect(
                location, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except sqlite3.Error as error:
            raise DatabaseFailed(f"cannot open {location}: {error}", is_final=True) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except _RAISED as error:
            raise _translated(error) from error

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        try:
            return self._connection.execute(sql, parameters).rowcount
        except _RAISED as error:
            raise _translated(error) from error

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        try:
            return self._connection.executemany(sql, parameters).rowcount
        except _RAISED as error:
            raise _translated(error) from error

    def close(self) -> None:
        self._connection.close()


def _translated(error: sqlite3.Error | UnicodeDecodeError) -> Exception:
    if isinstance(error, UnicodeDecodeError):
        message = error.object.decode("utf-8", "replace")
        return translate(f"the file is damaged: {message}", sqlite3.SQLITE_CORRUPT)
    return translate(str(error), getattr(error, "sqlite_errorcode", 0))


def translate(message: str, code: int) -> Exception:
    """Return the exception of this module for a result code of SQLite."""
    primary = code & 0xFF
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return DatabaseBusy(message)
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return ConstraintViolated(message)
    return DatabaseFailed(message, is_final=primary in _FINAL_CODES)


def run_for_rows(connection: SqliteConnection, sql: str, rows: Sequence[Row], *, before: Row = ()) -> int:
    """Run a statement with one row of VALUES for many rows and return the number of changed rows.

    Many rows in one statement are one call of the driver, which releases the interpreter lock once; `many` would
    release and reacquire it at every row. The rows are split at powers of two, so that few different statements are
    prepared.
    """
    changed = start = 0
    while start < len(rows):
        count = 1 << (min(len(rows) - start, MAX_ROWS_PER_STATEMENT).bit_length() - 1)
        parameters = (*before, *chain.from_iterable(rows[start : start + count]))
        changed += connection.run(for_rows(sql, count), parameters)
        start += count
    return changed


def retry_while_busy(act: Callable[[], T]) -> T:
    """Call a function that needs a lock, and repeat it in short, random pauses while another process holds the lock."""
    give_up_at = time.monotonic() + LONGEST_BUSY_SECONDS
    while True:
        try:
            return act()
        except DatabaseBusy as error:
            if time.monotonic() > give_up_at:
                message = f"another process has held the database's lock for {LONGEST_BUSY_SECONDS:.0f} s"
                raise StoreUnavailable(message) from error
            busy_pause()


def busy_pause() -> None:
    time.sleep(BUSY_PAUSE_SECONDS * (0.5 + random.random()))  # noqa: S311 - jitter, no secret


def begin_immediate(connection: SqliteConnection) -> None:
    """Begin a transaction with the write lock."""
    retry_while_busy(partial(connection.run, "BEGIN IMMEDIATE"))


def roll_back(connection: SqliteConnection) -> None:
    try:
        connection.run("ROLLBACK")
    except (DatabaseFailed, DatabaseBusy):
        return  # SQLite has already rolled back by itself


def resolve_path(path: str) -> str:
    """Return the absolute path of a file, so that the process may change its folder.

    A link is resolved, as SQLite does: the log lies beside the file itself.
    """
    if path == IN_MEMORY:
        return path
    return os.path.realpath(path) if Path(path).is_symlink() else os.path.abspath(path)  # noqa: PTH100 - keep the name


def open_database(path: str, connect: Connect) -> SqliteConnection:
    """Open a connection for writing; a file that does not exist is created."""
    if path != IN_MEMORY:
        _create(path)
    connection = connect(path)
    try:
        for pragma in _PRAGMAS:
            retry_while_busy(partial(connection.rows, pragma))
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(opener: Callable[[], SqliteConnection]) -> SqliteConnection:
    """Open a connection for reading, with a small cache."""
    connection = opener()
    connection.rows(_READER_CACHE)
    return connection


def _create(path: str) -> None:
    """Create a missing file that only its owner may read, because of the payloads.

    An existing file is never opened here: closing it again would drop every lock that this process holds on it (POSIX
    locks), and other processes would take the database for unused and delete its log.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
            raise DatabaseFailed("Permission denied: it must be readable and writable", is_final=True) from None
    except OSError as error:
        raise DatabaseFailed(error.strerror or str(error), is_final=True) from error
