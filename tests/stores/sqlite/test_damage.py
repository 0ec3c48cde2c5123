"""A damaged file is reported as such, also if the message of SQLite is not valid UTF-8."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.apsw_connection import ApswConnection
from rota.stores.sqlite.driver import DatabaseFailed, SqliteConnection, StandardConnection


@pytest.mark.parametrize("connect", [StandardConnection, ApswConnection])
def test_damage_whose_name_is_not_text_is_told_as_damage(
    tmp_path: Path, connect: Callable[[str], SqliteConnection]
) -> None:
    """The standard driver raised UnicodeDecodeError, which nobody took for the store's: found by a power cut."""
    path = tmp_path / "damaged.db"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE sound (number INTEGER)")
    raw.execute("PRAGMA writable_schema = ON")
    raw.execute("INSERT INTO sqlite_schema VALUES ('table', CAST(x'f2f2' AS TEXT), 'torn', 5, 'CREATE TABL')")
    raw.commit()
    raw.close()
    connection = connect(str(path))
    for ask in (
        lambda: connection.rows("PRAGMA journal_mode = WAL"),
        lambda: connection.run("DELETE FROM sound"),
        lambda: connection.many("DELETE FROM sound WHERE number = ?", [(1,)]),
    ):
        with pytest.raises(DatabaseFailed, match="malformed") as answer:
            ask()
        assert answer.value.is_final
    connection.close()
