"""`rota doctor` finds what is wrong with this host: no API, a store of no or another schema, a readable file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rota.cli.exits import Exit
from rota.cli.main import main
from rota.stores.sqlite import SqliteStore


def doctor(capsys: pytest.CaptureFixture[str], store: Path) -> dict[str, Any]:
    """Run it without an API, and give its findings by code."""
    code = main(["doctor", "--store", str(store), "--api-url", "http://127.0.0.1:9", "-o", "json"])
    assert code == Exit.PROBLEMS_FOUND
    return {finding["code"]: finding for finding in json.loads(capsys.readouterr().out)}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"

    async def create() -> None:
        await (await SqliteStore.open(path)).close()

    asyncio.run(create())
    path.chmod(0o600)
    return path


def test_an_api_that_is_away_is_a_finding_and_not_an_error(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert doctor(capsys, store).keys() == {"api_unreachable"}


def test_a_file_that_all_users_can_read_is_found(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    store.chmod(0o644)
    assert doctor(capsys, store)["file_permissions"]["fix"] == f"chmod o-rw {store}"
    store.chmod(0o640)
    assert "file_permissions" not in doctor(capsys, store)


def test_a_store_without_the_schema_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    assert doctor(capsys, tmp_path / "empty.db")["migration_pending"]["fix"] == "rota db migrate"


def test_a_store_of_a_newer_release_is_found(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("INSERT INTO rota_migration VALUES (99, 'later', 'x', 0)")
    assert doctor(capsys, store)["schema_too_new"]["severity"] == "critical"
