"""The log is written to its full length once, by whoever keeps the store in order, and weakens nobody's commit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from building import new_job
from crash.altered import altered
from rota.ports.store import Retention
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import Connection, Parameters, StandardConnection

_PAGES: Final = 200
_FRAME: Final = 4096 + 24
_SYNCED_ALWAYS: Final = 2


class Opened:
    """Makes connections, and keeps them at hand."""

    def __init__(self, pages: int = _PAGES) -> None:
        self.made: list[Noting] = []
        self.connect = altered(self._make, {"wal_autocheckpoint": str(pages)})

    def _make(self, path: str) -> Connection:
        self.made.append(Noting(path))
        return self.made[-1]

    def synced(self) -> set[int]:
        """How the connections sync that are still open."""
        return {int(one.rows("PRAGMA synchronous")[0][0]) for one in self.made if not one.is_closed}


class Noting(StandardConnection):
    """A connection that notes how it synced when it was told to write."""

    is_closed = False

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.weakly: set[str] = set()
        self.fails = False

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        if self.rows("PRAGMA synchronous") != [(_SYNCED_ALWAYS,)]:
            self.weakly.add(sql.split("=", maxsplit=1)[0].strip())
            if self.fails:
                raise OSError("as if")
        return super().run(sql, parameters)

    def close(self) -> None:
        self.is_closed = True
        super().close()


async def test_whoever_prunes_finds_the_log_long_afterwards_and_does_not_lengthen_it_twice(tmp_path: Path) -> None:
    opened, log = Opened(), tmp_path / "rota.db-wal"
    store = await SqliteStore.open(tmp_path / "rota.db", connect=opened.connect)
    await store.prune(Retention(), 10)
    length = log.stat().st_size
    assert length >= _PAGES * _FRAME
    await store.insert([new_job() for _ in range(40)])
    await store.prune(Retention(), 10)
    assert log.stat().st_size < length + _PAGES * _FRAME
    await store.close()


async def test_only_what_says_nothing_is_written_without_a_sync(tmp_path: Path) -> None:
    opened = Opened()
    store = await SqliteStore.open(tmp_path / "rota.db", connect=opened.connect)
    await store.insert([new_job()])
    await store.prune(Retention(), 10)
    await store.insert([new_job()])
    assert set().union(*(one.weakly for one in opened.made)) == {"PRAGMA application_id"}
    assert opened.synced() == {_SYNCED_ALWAYS}
    await store.close()


async def test_who_fails_in_the_midst_of_it_syncs_every_commit_as_before(tmp_path: Path) -> None:
    opened = Opened()
    store = await SqliteStore.open(tmp_path / "rota.db", connect=opened.connect)
    for connection in opened.made:
        connection.fails = True
    with pytest.raises(OSError, match="as if"):
        await store.prune(Retention(), 10)
    assert opened.synced() == {_SYNCED_ALWAYS}
    await store.close()


async def test_a_log_that_was_long_already_is_left_as_it_is(tmp_path: Path) -> None:
    opened, log = Opened(pages=24), tmp_path / "rota.db-wal"
    store = await SqliteStore.open(tmp_path / "rota.db", connect=opened.connect)
    while log.stat().st_size < 24 * _FRAME:
        await store.insert([new_job()])
    await store.prune(Retention(), 10)
    assert set().union(*(one.weakly for one in opened.made)) == set()
    await store.close()
