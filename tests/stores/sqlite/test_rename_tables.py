"""Stores made before tables had the prefix: refused, until `tools/rename_tables/sqlite.py` has renamed their tables."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from builders import claim, means
from rota.core.decision import decide
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Succeeded
from rota.ports.store import JobQuery, Store
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.migrations import all_migrations

OLD: Final = Path(__file__).parent / "before_prefix"
TOOL: Final = Path(__file__).parents[3] / "tools" / "rename_tables" / "sqlite.py"
MIGRATIONS: Final = sorted(OLD.glob("0*.sql.old"))
#: In a variable, so that no script takes it for a table of this release.
REGISTER: Final = "migration"


def make_old(path: Path, migrations: list[Path] = MIGRATIONS) -> None:
    """Make a store as an old release did, with some jobs, beside a table of the user's own."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        f"CREATE TABLE {REGISTER} (number INTEGER PRIMARY KEY, name TEXT, digest TEXT, applied_at INTEGER)"
    )
    for migration in migrations:
        connection.executescript(migration.read_text())
        row = (int(migration.name[:4]), migration.name.removesuffix(".sql.old"), "digest", 0)
        connection.execute(f"INSERT INTO {REGISTER} VALUES (?, ?, ?, ?)", row)  # noqa: S608 - a constant
    connection.executescript((OLD / "rows.sql.old").read_text())
    connection.execute("CREATE TABLE purchase (number INTEGER)")
    connection.execute("INSERT INTO purchase VALUES (7)")
    connection.close()


def rename(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, path], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    make_old(tmp_path / "old.db")
    return tmp_path / "old.db"


async def test_a_store_without_the_prefix_is_refused_and_the_message_names_the_script(old: Path) -> None:
    """Otherwise an empty store would be made beside its jobs."""
    before = schema(old)
    with pytest.raises(StoreUnavailable, match=r"tools/rename_tables/sqlite\.py"):
        await SqliteStore.open(old)
    assert schema(old) == before


async def settled(store: Store, ids: set[int]) -> None:
    """Claim jobs and complete them; they must be exactly these."""
    jobs = await store.claim(claim(limit=10))
    assert {job.id for job in jobs} == ids
    now = await store.time()
    settlements = [decide(job, Succeeded("true"), means(now)) for job in jobs]
    assert set(await store.settle(settlements)) == ids


async def test_the_jobs_of_a_renamed_store_run(old: Path) -> None:
    assert rename(old).returncode == 0
    store = await SqliteStore.open(old)
    assert await store.promote(10) == {"default": 1}
    await settled(store, {1, 2})
    await settled(store, {3})
    (lapsed,) = await store.lost(10)
    now = await store.time()
    assert await store.settle([decide(lapsed, Lost(), means(now))]) == [JobId(4)]
    await store.promote(10, now=now + timedelta(hours=1))
    await settled(store, {4})
    assert {job.state for job in await store.find(JobQuery())} == {State.COMPLETED}
    assert [job.id for job in await store.find(JobQuery(tag="urgent"))] == [1]
    assert [attempt.fence for attempt in await store.attempts(JobId(4))] == [1, 2, 3]
    assert [(queue.name, queue.max_running) for queue in await store.queues()] == [("limited", 7)]
    assert (await store.configuration()).values == {"log_level": "debug"}
    assert (await store.census()).pruned == {State.COMPLETED: 41}
    assert await store.check() == []
    await store.close()


def schema(path: Path) -> dict[str, str]:
    """Read the definitions, without what only the eye sees."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name <> 'purchase'")
    found = {name: re.sub(r'[\s"]+|--.*', "", sql).replace("IFNOTEXISTS", "") for name, sql in rows}
    connection.close()
    return {name: sql for name, sql in found.items() if name != "rota_migration"}


async def test_a_renamed_store_has_the_schema_of_a_new_one_and_the_users_table_is_untouched(
    old: Path, tmp_path: Path
) -> None:
    assert rename(old).returncode == 0
    await (await SqliteStore.open(tmp_path / "new.db")).close()
    assert schema(old) == schema(tmp_path / "new.db")
    connection = sqlite3.connect(old)
    assert connection.execute("SELECT number FROM purchase").fetchall() == [(7,)]
    first = all_migrations()[0]
    assert connection.execute("SELECT number, name, digest FROM rota_migration").fetchall() == [
        (first.number, first.name, first.digest)
    ]
    connection.close()


def without_the_last_migration(path: Path) -> None:
    make_old(path, MIGRATIONS[:-1])


def renamed_before(path: Path) -> None:
    make_old(path)
    assert rename(path).returncode == 0


def with_a_table_of_a_new_name(path: Path) -> None:
    make_old(path)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE rota_tag (mine INTEGER)")
    connection.close()


def of_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE purchase (number INTEGER)")
    connection.close()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (without_the_last_migration, "rota db migrate"),
        (renamed_before, "already"),
        (with_a_table_of_a_new_name, "the file is unchanged"),
        (of_another_program, "no store of Rota"),
        (lambda _: None, "no such file"),
    ],
    ids=["older", "twice", "name taken", "foreign", "missing"],
)
def test_other_files_are_refused_and_left_as_they_are(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "some.db"
    make(path)
    before = path.read_bytes() if path.exists() else None
    refused = rename(path)
    assert refused.returncode == 1
    assert reason in refused.stderr
    assert (path.read_bytes() if path.exists() else None) == before
