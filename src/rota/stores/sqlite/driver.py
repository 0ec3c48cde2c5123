"""A connection to SQLite, as little of it as we need, over the standard library's driver.

`apsw_driver` has the same over apsw. Nothing above the two knows which one is in use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, Protocol

from rota.stores.rows import Row
from rota.stores.statements import for_rows

Parameters = Sequence[Any] | dict[str, Any]

#: The first with STRICT tables; RETURNING and json_each are older.
OLDEST_SQLITE: Final = (3, 37, 0)


class Busy(Exception):
    """Another process holds the write lock."""


class Broken(Exception):
    """The database cannot be used: full disk, failed write, damaged or unreadable file."""

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        #: After a failed write or sync nobody knows what is on the disk; only a fresh start can tell.
        self.is_final = is_final


class LostFile(Broken):
    """The file was deleted, moved or replaced while it was in use: what is written now, nobody will ever read."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} or its log was deleted, moved or replaced while in use; nothing is taken until a restart",
            is_final=True,
        )


class Clash(Exception):
    """A constraint refused a row."""


class Connection(Protocol):
    """One connection to a database. Used by one thread at a time."""

    #: Whether verbs have made work, or set a time for something, of which others should hear once it is committed.
    has_made_work: bool
    has_set_times: bool

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement and give the rows it yields."""
        ...

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement and say how many rows it changed."""
        ...

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        """Run a statement for each set of parameters and say how many rows were changed in all."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


#: A power of two. More rows in one statement gain nothing.
MOST_ROWS: Final = 128


def run_for_rows(connection: Connection, sql: str, rows: Sequence[Row], *, before: Row = ()) -> int:
    """Run a statement with one row of VALUES for many rows, and say how many rows were changed in all.

    Many rows in one statement are one step for the driver, and while SQLite takes it, the rest of the process runs;
    `many` would let go of the interpreter and fight to get it back at every row. The rows are cut at powers of two, so
    that few different statements are ever prepared.
    """
    changed = start = 0
    while start < len(rows):
        count = 1 << (min(len(rows) - start, MOST_ROWS).bit_length() - 1)
        parameters = (*before, *chain.from_iterable(rows[start : start + count]))
        changed += connection.run(for_rows(sql, count), parameters)
        start += count
    return changed


_FINAL_CODES: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def translated(message: str, code: int) -> Exception:
    """Say in our words what SQLite reported."""
    primary = code & 0xFF
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return Busy(message)
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return Clash(message)
    return Broken(message, is_final=primary in _FINAL_CODES)


#: What the standard driver raises. It reads SQLite's own messages as UTF-8; one that is not quotes a damaged file.
_RAISED: Final = (sqlite3.Error, UnicodeDecodeError)


def _told(error: sqlite3.Error | UnicodeDecodeError) -> Exception:
    if isinstance(error, UnicodeDecodeError):
        message = error.object.decode("utf-8", "replace")
        return translated(f"the file is damaged: {message}", sqlite3.SQLITE_CORRUPT)
    return translated(str(error), getattr(error, "sqlite_errorcode", 0))


class StandardConnection:
    """Over the standard library's sqlite3."""

    def __init__(self, location: str) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            needed = ".".join(map(str, OLDEST_SQLITE))
            raise Broken(f"SQLite {needed} or newer is needed, this is {sqlite3.sqlite_version}", is_final=True)
        self.has_made_work = self.has_set_times = False
        try:
            self._connection = sqlite3.connect(
                location, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except sqlite3.Error as error:
            raise Broken(f"cannot open {location}: {error}", is_final=True) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement and give the rows it yields."""
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except _RAISED as error:
            raise _told(error) from error

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement and say how many rows it changed."""
        try:
            return self._connection.execute(sql, parameters).rowcount
        except _RAISED as error:
            raise _told(error) from error

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        """Run a statement for each set of parameters and say how many rows were changed in all."""
        try:
            return self._connection.executemany(sql, parameters).rowcount
        except _RAISED as error:
            raise _told(error) from error

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
