"""A connection with other settings than the product's: smaller, so that rare things happen often, or worse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from rota.stores.rows import Row
from rota.stores.sqlite.driver import Parameters, SqliteConnection

_SETTING: Final = re.compile(r"\s*PRAGMA\s+(\w+)\s*=", re.IGNORECASE)


Settings = Mapping[str, str]


class PassedOn:
    """A connection that is another one. To be changed in one thing or the other."""

    def __init__(self, inner: SqliteConnection) -> None:
        self._inner = inner
        self.has_made_work = self.has_set_times = False

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._inner.rows(sql, parameters)

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        return self._inner.run(sql, parameters)

    def many(self, sql: str, parameters: Iterable[Parameters]) -> int:
        return self._inner.many(sql, parameters)

    def close(self) -> None:
        self._inner.close()


class _Altered(PassedOn):
    def __init__(self, inner: SqliteConnection, settings: Settings) -> None:
        super().__init__(inner)
        self._settings = settings

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        setting = _SETTING.match(sql)
        if setting is not None and setting[1] in self._settings:
            sql = f"PRAGMA {setting[1]} = {self._settings[setting[1]]}"
        return super().rows(sql, parameters)


def altered(connect: Callable[[str], SqliteConnection], settings: Settings) -> Callable[[str], SqliteConnection]:
    """Return a way to connect like `connect`, where some PRAGMAs get another value than the store sets."""
    return lambda path: _Altered(connect(path), settings)
