"""Changed rows of the ledger are detected: by `rota ledger verify` and by `rota db check`, on every store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from builders import entry
from conformance.stores.adapters import SHARED, Adapter
from rota.cli.exits import Exit
from rota.cli.main import main
from rota.ports.store import Retention
from rota.stores.mysql.driver import connect
from rota.stores.mysql.location import location_of

pytestmark = pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name)

DAMAGE = {
    "changed": ("UPDATE rota_ledger SET actor = 'nobody' WHERE number = 3", 3),
    "another digest": ("UPDATE rota_ledger SET digest = 'x' WHERE number = 3", 3),
    "another time": ("UPDATE rota_ledger SET at = at + 1 WHERE number = 1", 1),
    "missing": ("DELETE FROM rota_ledger WHERE number = 3", 4),
    "renumbered": ("UPDATE rota_ledger SET number = 9 WHERE number = 5", 6),
}


@pytest.fixture
async def place(adapter: Adapter, tmp_path: Path) -> AsyncIterator[str]:
    """A database whose ledger has six entries."""
    async for place in adapter.place(tmp_path):
        store = await adapter.open(place, lambda: datetime.now(UTC))
        for number in range(6):
            await store.record([entry(f"act {number + 1}")])
        await store.close()
        yield place


async def execute(place: str, sql: str) -> None:
    """Change a database behind the back of its store."""
    if place.startswith("postgres"):
        server = await asyncpg.connect(place)
        await server.execute(sql)
        await server.close()
    elif place.startswith("mysql"):
        connection = await connect(location_of(place), "test", autocommit=True)
        await connection.run(sql)
        await connection.close()
    else:
        with closing(sqlite3.connect(place)) as file, file:
            file.execute(sql)


async def rota(*words: str) -> int:
    return await asyncio.to_thread(main, list(words))


async def test_a_whole_ledger_is_called_whole(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await rota("ledger", "verify", "--store", place) == Exit.OK
    assert "the ledger is whole: 6 entries" in capsys.readouterr().err
    await rota("db", "check", "--store", place)
    assert "ledger" not in capsys.readouterr().out


@pytest.mark.parametrize("damage", DAMAGE)
async def test_the_first_entry_that_is_wrong_is_named(
    place: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sql, number = DAMAGE[damage]
    await execute(place, sql)
    assert await rota("ledger", "verify", "--store", place) == Exit.PROBLEMS_FOUND
    assert f"ledger: entry {number} of " in capsys.readouterr().out
    assert await rota("db", "check", "--store", place) == Exit.PROBLEMS_FOUND
    assert f"ledger: entry {number} of " in capsys.readouterr().out


async def test_entries_that_retention_deleted_are_not_missed_and_what_is_left_is_checked(
    adapter: Adapter, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = await adapter.open(place, lambda: datetime.now(UTC))
    await store.record([entry("act 7")], now=datetime.now(UTC) + timedelta(days=99))
    await store.prune(Retention(history=timedelta(days=90)), 3, now=datetime.now(UTC) + timedelta(days=95))
    left = [one.number for one in await store.ledger()]
    await store.close()
    assert left == [7, 6, 5, 4]
    assert await rota("ledger", "verify", "--store", place) == Exit.OK
    await execute(place, "UPDATE rota_ledger SET detail = 'forged' WHERE number = 7")
    assert await rota("ledger", "verify", "--store", place) == Exit.PROBLEMS_FOUND
    assert "ledger: entry 7 of " in capsys.readouterr().out


async def test_a_place_without_a_store_is_refused_and_stays_as_it_is(
    adapter: Adapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del adapter
    missing = tmp_path / "typo.db"
    assert await rota("ledger", "verify", "--store", str(missing)) == Exit.NOT_FOUND
    assert "holds no store" in capsys.readouterr().err
    assert not missing.exists()
