"""A store in the file of an application with tables of the same words: neither affects the other."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

import pytest

from rota import Rota
from rota.core.lifecycle import State
from rota.ports.store import JobQuery
from rota.stores.sqlite import SqliteStore

#: Words that Rota uses too. In a variable, so that no script takes them for tables of Rota.
TABLES: Final = ("job", "tag", "queue", "token", "migration")


def content(path: Path) -> list[Any]:
    """Read the definitions and rows of the user's tables."""
    connection = sqlite3.connect(path)
    places = ", ".join("?" * len(TABLES))
    found: list[Any] = connection.execute(
        f"SELECT type, name, sql FROM sqlite_schema WHERE tbl_name IN ({places}) ORDER BY name",  # noqa: S608 - a test
        TABLES,
    ).fetchall()
    for name in TABLES:
        found += connection.execute(f"SELECT '{name}', * FROM {name}").fetchall()  # noqa: S608 - a test
    connection.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "application.db"
    connection = sqlite3.connect(path)
    for number, name in enumerate(TABLES):
        connection.execute(f"CREATE TABLE {name} (number INTEGER PRIMARY KEY, name TEXT)")
        connection.execute(f"CREATE INDEX {name}_name ON {name} (name)")
        connection.execute(f"INSERT INTO {name} VALUES (?, 'mine')", (number,))  # noqa: S608 - a test
    connection.commit()
    connection.close()
    return path


async def test_a_file_with_tables_of_the_same_words_takes_a_store_and_submissions_in_its_transactions(
    path: Path,
) -> None:
    before = content(path)
    assert len(before) == 3 * len(TABLES)
    app = Rota(f"sqlite:///{path}")

    @app.task
    def ship(number: int) -> int:
        return number

    store = await SqliteStore.open(path)
    connection = sqlite3.connect(path)
    connection.execute(f"INSERT INTO {TABLES[0]} VALUES (100, 'rolled back')")  # noqa: S608 - a test
    ship.using(tx=connection, tags=["urgent"], idempotency_key="k").submit(1)
    connection.rollback()
    assert await store.find(JobQuery()) == []
    assert content(path) == before
    connection.execute(f"INSERT INTO {TABLES[0]} VALUES (100, 'committed')")  # noqa: S608 - a test
    ship.using(tx=connection, tags=["urgent"], idempotency_key="k").submit(2)
    connection.commit()
    connection.close()
    (job,) = await store.find(JobQuery(tag="urgent"))
    assert (job.type, job.state) == ("ship", State.PENDING)
    assert [row for row in content(path) if row not in before] == [(TABLES[0], 100, "committed")]
    await store.close()
    app.close()
