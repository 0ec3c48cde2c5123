"""The schema: what the migrations make is what `schema.sql` shows, and the constraints state the invariants."""

from __future__ import annotations

import re
import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest

from rota.stores.sqlite.driver import ConstraintViolated, StandardConnection
from rota.stores.sqlite.migrations import all_migrations, applied, migrate


def shape(connection: StandardConnection) -> dict[str, str]:
    rows = connection.rows("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {name: _plain(sql) for name, sql in rows}


def _plain(sql: str) -> str:
    """Write a definition without what only the eye sees: SQLite appends a new column in its own way."""
    return re.sub(r" ?([,()]) ?", r"\1", re.sub(r"\s+", " ", sql)).replace("IF NOT EXISTS ", "").strip()


def test_the_migrations_make_what_the_schema_shows(tmp_path: Path) -> None:
    migrated = StandardConnection(str(tmp_path / "migrated.db"))
    migrate(migrated, 0)
    shown_path = tmp_path / "shown.db"
    script = files("rota.stores.sqlite").joinpath("schema.sql").read_text(encoding="utf-8")
    raw = sqlite3.connect(shown_path)
    raw.executescript(script)
    raw.close()
    shown = StandardConnection(str(shown_path))
    try:
        assert shape(migrated) == shape(shown)
    finally:
        migrated.close()
        shown.close()


def test_a_database_is_migrated_once(tmp_path: Path) -> None:
    connection = StandardConnection(str(tmp_path / "once.db"))
    assert migrate(connection, 0) == [migration.name for migration in all_migrations()]
    assert migrate(connection, 0) == []
    assert applied(connection) == {migration.number: migration.name for migration in all_migrations()}
    connection.close()


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.number for migration in all_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


BREACHES = {
    "a finished job without an end": "UPDATE rota_job SET state = 'completed'",
    "an unfinished job with an end": "UPDATE rota_job SET finished_at = 1",
    "a running job without a lease": "UPDATE rota_job SET state = 'running'",
    "a lease on a job that does not run": "UPDATE rota_job SET lease_until = 1",
    "a blocked job that waits for nothing": "UPDATE rota_job SET state = 'blocked'",
    "more attempts than allowed": "UPDATE rota_job SET attempts = 4, fence = 4",
    "more attempts than claims": "UPDATE rota_job SET attempts = 1",
    "a state nobody knows": "UPDATE rota_job SET state = 'done'",
}


@pytest.mark.parametrize("breach", BREACHES)
def test_the_database_itself_refuses(breach: str) -> None:
    connection = StandardConnection(":memory:")
    migrate(connection, 0)
    connection.run(
        "INSERT INTO rota_job (id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts,"
        " delivery, payload) VALUES (1, 't', 'q', 5, 'pending', 0, 0, 0, 0, 3, 'at_least_once', 'null')"
    )
    with pytest.raises(ConstraintViolated):
        connection.run(BREACHES[breach])
    connection.close()
