"""`tools/rename_tables/postgres.py`: a store of a release without table prefix goes on after the script."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from builders import claim, means, new_job
from rota.core.decision import decide
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.ports.store import JobQuery, Receipt
from rota.stores.postgres import PostgresStore
from stores.postgres.test_schema import migrated, shape

BEFORE = Path(__file__).with_name("before_prefix")
SCRIPT = Path(__file__).parents[3] / "tools" / "rename_tables" / "postgres.py"
MIGRATIONS = sorted(path.stem for path in BEFORE.glob("0*.pgsql"))


async def make_old_store(dsn: str, migrations: list[str], *, with_data: bool = True) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute((BEFORE / "register.pgsql").read_text())
    for name in migrations:
        await connection.execute((BEFORE / f"{name}.pgsql").read_text())
        await connection.execute('INSERT INTO "migration" VALUES ($1, $2, $3, 0)', int(name[:4]), name, "digest")
    if with_data:
        await connection.execute((BEFORE / "data.pgsql").read_text())
    await connection.close()


def run_script(dsn: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, dsn], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
async def renamed(blank: str) -> AsyncIterator[PostgresStore]:
    await make_old_store(blank, MIGRATIONS)
    done = run_script(blank)
    assert done.returncode == 0, done.stderr
    store = await PostgresStore.open(blank)
    yield store
    await store.close()


async def test_old_jobs_run_after_the_script(renamed: PostgresStore) -> None:
    now = datetime.now(UTC)
    (lapsed,) = await renamed.lost(10)
    assert lapsed.id == 2
    assert [job.id for job in await renamed.find(JobQuery(tag="old"))] == [1]
    (job,) = await renamed.claim(claim(types=("mail",)))
    assert (job.id, job.payload) == (1, '"first"')
    assert await renamed.settle([decide(job, Succeeded(), means(now))]) == [1]
    states = {job.id: job.state for job in await renamed.get([JobId(number) for number in (1, 2, 3, 1001)])}
    assert states == {1: State.COMPLETED, 2: State.RUNNING, 3: State.COMPLETED, 1001: State.DEAD}
    assert [queue.max_depth for queue in await renamed.queues()] == [100]
    assert (await renamed.configuration()).values == {"log_level": "debug"}
    assert [answer.receipt for answer in await renamed.insert([new_job(id=3)])] == [Receipt.ID_TAKEN]
    assert not [finding for finding in await renamed.check() if not finding.startswith("setting")]


async def test_the_script_leaves_the_schema_of_a_new_store(blank: str) -> None:
    await make_old_store(blank, MIGRATIONS, with_data=False)
    assert run_script(blank).returncode == 0
    found = await shape(blank)
    connection = await asyncpg.connect(blank)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    assert await migrated(blank)
    assert found == await shape(blank)


async def test_a_store_without_the_prefix_is_not_opened(blank: str) -> None:
    """New tables beside the old ones would hide its jobs."""
    await make_old_store(blank, MIGRATIONS)
    before = await shape(blank)
    with pytest.raises(InvalidRequest, match=r"lack the prefix rota_.*run tools/rename_tables/postgres.py"):
        await PostgresStore.open(blank)
    assert await shape(blank) == before


async def test_a_database_with_another_table_of_migrations_takes_a_store(blank: str) -> None:
    connection = await asyncpg.connect(blank)
    await connection.execute('CREATE TABLE "migration" (number int, name text, digest text, applied_at bigint)')
    await connection.close()
    await (await PostgresStore.open(blank)).close()


async def test_a_store_that_is_not_at_the_last_old_migration_is_refused(blank: str) -> None:
    await make_old_store(blank, MIGRATIONS[:-1], with_data=False)
    before = await shape(blank)
    done = run_script(blank)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the store is at migration 0005_lists, not at 0006_schedule_app" in done.stderr
    assert await shape(blank) == before


async def test_a_store_with_the_prefix_and_a_database_without_a_store_are_refused(blank: str, dsn: str) -> None:
    assert "the tables have the prefix rota_ already" in run_script(dsn).stderr
    assert "there is no store" in run_script(blank).stderr


async def test_a_store_in_use_is_refused(blank: str) -> None:
    await make_old_store(blank, MIGRATIONS, with_data=False)
    connection = await asyncpg.connect(blank)
    async with connection.transaction():
        await connection.execute('SELECT 1 FROM "job"')
        done = run_script(blank)
    await connection.close()
    assert (done.returncode, "stop all processes of Rota" in done.stderr) == (1, True)
