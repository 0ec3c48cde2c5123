"""A connection to SQLite over apsw, the optional extra: a newer SQLite, and faster in batches."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from rota.stores.rows import Row
from rota.stores.sqlite.driver import Broken, Parameters, translated


class ApswConnection:
    """Over apsw, the optional extra."""

    def __init__(self, location: str, *, vfs: str | None = None) -> None:
        self.has_made_work = self.has_set_times = False
        try:
            self._connection = apsw.Connection(location, vfs=vfs)
        except apsw.Error as error:
            raise Broken(f"cannot open {location}: {error}", is_final=True) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement and give the rows it yields."""
        try:
            rows: list[Row] = self._connection.execute(sql, parameters).fetchall()
        except apsw.Error as error:
            raise translated(str(error), getattr(error, "extendedresult", 0)) from error
        return rows

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement and say how many rows it changed."""
        before: int = self._connection.total_changes()
        self.rows(sql, parameters)
        return int(self._connection.total_changes() - before)

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        """Run a statement for each set of parameters and say how many rows were changed in all."""
        before: int = self._connection.total_changes()
        try:
            self._connection.executemany(sql, parameters)
        except apsw.Error as error:
            raise translated(str(error), getattr(error, "extendedresult", 0)) from error
        return int(self._connection.total_changes() - before)

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
