"""A connection over apsw, with which tests record or fail file operations (VFS), and count the steps of statements."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from rota.stores.rows import Row
from rota.stores.sqlite.driver import DatabaseFailed, Parameters, translate


class ApswConnection:
    """The store's connection interface over apsw."""

    def __init__(self, location: str, *, vfs: str | None = None) -> None:
        self.has_made_work = self.has_set_times = False
        try:
            self._connection = apsw.Connection(location, vfs=vfs)
        except apsw.Error as error:
            raise DatabaseFailed(f"cannot open {location}: {error}", is_final=True) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        try:
            rows: list[Row] = self._connection.execute(sql, parameters).fetchall()
        except apsw.Error as error:
            raise translate(str(error), getattr(error, "extendedresult", 0)) from error
        return rows

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        before: int = self._connection.total_changes()
        self.rows(sql, parameters)
        return int(self._connection.total_changes() - before)

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        before: int = self._connection.total_changes()
        try:
            self._connection.executemany(sql, parameters)
        except apsw.Error as error:
            raise translate(str(error), getattr(error, "extendedresult", 0)) from error
        return int(self._connection.total_changes() - before)

    def close(self) -> None:
        self._connection.close()
