"""Rota shares a file with a program that has tables of its own called `job`, `tag`, `queue` and `token`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rota import Rota
from rota.core.lifecycle import State
from rota.ports.store import JobQuery
from rota.stores.sqlite import SqliteStore

OWN = ("job", "tag", "queue", "token")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a program's tables."""
    path = tmp_path / "program.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in OWN:
            connection.execute(f"CREATE TABLE {name} (title TEXT NOT NULL)")
            connection.execute(f"INSERT INTO {name} VALUES ('of the program')")  # noqa: S608 - a constant
    return path


def contents(path: Path) -> dict[str, list[tuple[str, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in OWN}  # noqa: S608 - a constant


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_a_caller_submits_in_its_transaction(path: Path, ends: str) -> None:
    store = await SqliteStore.open(path)
    app = Rota(str(path))

    @app.task
    def mail(number: int) -> int:
        return number

    with closing(app), closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE job SET title = 'changed'")
        mail.using(tx=connection, tags=("red",), idempotency_key="once").submit(1)
        getattr(connection, ends)()
    has_committed = ends == "commit"
    assert len(await store.find(JobQuery(states=(State.PENDING,), tag="red"))) == has_committed
    assert await store.check() == []
    await store.close()
    others = {name: [("of the program",)] for name in OWN}
    assert contents(path) == ({**others, "job": [("changed",)]} if has_committed else others)
