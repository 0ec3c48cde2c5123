"""A store that a newer or another release has migrated: this release refuses to start on it, and says so."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncmy
import asyncpg
import pytest

from journeys.system import open_system
from rota.cli.exits import Exit
from rota.cli.main import main
from rota.core.errors import SchemaTooNew
from rota.runtime.store import migrations_of, open_store
from rota.stores.mysql.location import location_of
from servers.databases import fresh_database
from servers.postgres import new_database, shared_server
from servers.private_server import free_port

NEWER = "9001_of_tomorrow"
RECORD = f"INSERT INTO rota_migration (number, name, digest, applied_at) VALUES (9001, '{NEWER}', 'x', 1)"  # noqa: S608 - a test


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
async def migrated(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Return the URL of a store that has seen all migrations of this release."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            url = str(tmp_path / "rota.db")
        elif request.param == "postgres":
            url = await stack.enter_async_context(new_database(shared_server()))
        else:
            url = await stack.enter_async_context(fresh_database())
        await (await open_store(url)).close()
        yield url


@pytest.fixture
async def migrated_by_another(migrated: str) -> str:
    """Return the URL of a store that has seen all migrations of this release, and one more."""
    await record(migrated, RECORD)
    return migrated


async def record(url: str, statement: str) -> None:
    if url.startswith("postgres"):
        server = await asyncpg.connect(url)
        await server.execute(statement)
        await server.close()
    elif "://" not in url:
        with sqlite3.connect(url) as connection:
            connection.execute(statement)
        connection.close()
    else:
        mariadb = await asyncmy.connect(**location_of(url).driver_arguments(), autocommit=True)
        await mariadb.cursor().execute(statement)
        await mariadb.ensure_closed()


async def test_a_store_of_a_newer_release_is_not_opened(migrated_by_another: str) -> None:
    """There was no error: an older process went on writing as if nothing had changed."""
    with pytest.raises(SchemaTooNew, match=NEWER):
        await open_store(migrated_by_another)


async def test_a_store_of_another_branch_is_not_opened(migrated: str) -> None:
    """Two branches can give the same number to different migrations. Only numbers were compared."""
    states = await asyncio.to_thread(migrations_of, migrated)
    ours = states[-1].name
    theirs = f"{ours[:4]}_of_a_branch"
    await record(migrated, f"UPDATE rota_migration SET name = '{theirs}' WHERE name = '{ours}'")  # noqa: S608 - a test
    with pytest.raises(SchemaTooNew, match=f"{theirs} where this release has {ours}"):
        await open_store(migrated)
    assert (await asyncio.to_thread(migrations_of, migrated))[-2:] == [(ours, False, True), (theirs, True, False)]


@pytest.fixture
def newer(migrated_by_another: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.chdir(tmp_path)
    return migrated_by_another


Says = Callable[[], str]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Says:
    def read() -> str:
        out, error = capfd.readouterr()
        return out + error

    return read


@pytest.mark.parametrize("command", ["check", "status"])
def test_the_database_commands_name_the_newer_migration(newer: str, command: str, said: Says) -> None:
    assert main(["db", command, "--store", newer]) == Exit.PROBLEMS_FOUND
    assert f"migration {NEWER} is of a newer or another release" in said()


def test_the_status_lists_it_as_unknown(newer: str, capfd: pytest.CaptureFixture[str]) -> None:
    main(["db", "status", "--store", newer, "-o", "json"])
    listed = json.loads(capfd.readouterr().out)
    assert [row["migration"] for row in listed if not row["known"]] == [NEWER]
    assert all(row["applied"] for row in listed)
    assert migrations_of(newer)[-1] == (NEWER, True, False)


def test_migrating_refuses_and_says_what_to_install(newer: str, said: Says) -> None:
    assert main(["db", "migrate", "--store", newer]) == Exit.CONFLICT
    output = said()
    assert NEWER in output
    assert "fix: install the release" in output


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_role_refuses_to_start_and_says_what_to_install(newer: str, role: str, tmp_path: Path) -> None:
    with open_system(tmp_path) as system:
        port = () if role == "worker" else ("--port", str(free_port()))
        process = system.start(role, "--store", newer, *port)
        assert process.wait(60) == Exit.CONFLICT
        assert NEWER in system.logs()
        assert "fix: install the release" in system.logs()
