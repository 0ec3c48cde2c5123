"""The script for stores made before the tables had the prefix: all jobs stay and run, and it can be run again."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from builders import BASE, HOUR, at, claim, ids_of, means, new_job
from rota.core.decision import decide
from rota.core.errors import InvalidRequest, SchemaTooNew
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import applied, migrate, statements_in
from servers.databases import fresh_database

SCRIPT = Path(__file__).parents[3] / "tools" / "rename_tables" / "mysql.py"
BEFORE = Path(__file__).parent / "before_prefix"
#: The table of applied migrations before the prefix.
REGISTER = "migration"
COMPLETED, RUNNING, BLOCKED, SCHEDULED, PENDING = map(JobId, range(101, 106))


@pytest.fixture
async def old(fresh: MysqlConnection) -> MysqlConnection:
    """A store as the last release without the prefix has left it."""
    for name in ("schema.sql", "rows.sql"):
        for part in statements_in((BEFORE / name).read_text(encoding="utf-8"), fresh.collation):
            await fresh.run(part)
    return fresh


def run_script(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, url], capture_output=True, text=True, check=False)


async def shape(connection: MysqlConnection) -> dict[str, str]:
    tables = [name for (name,) in await connection.rows("SHOW TABLES")]
    return {name: (await connection.rows(f"SHOW CREATE TABLE `{name}`"))[0][1] for name in tables}


async def fresh_shape() -> dict[str, str]:
    async with fresh_database() as url:
        connection = await connect(location_of(url), "test", autocommit=True)
        await migrate(connection, 0)
        made = await shape(connection)
        await connection.close()
    return made


async def test_the_tables_are_as_a_new_store_has_them(old: MysqlConnection, fresh_url: str) -> None:
    done = run_script(fresh_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert await shape(old) == await fresh_shape()
    assert await migrate(old, 0) == []


async def test_jobs_of_before_run_afterwards(old: MysqlConnection, fresh_url: str) -> None:
    del old
    assert run_script(fresh_url).returncode == 0
    store = await MysqlStore.open(fresh_url)
    assert await store.check() == []
    assert ids_of(await store.claim(claim(limit=1), now=BASE)) == [PENDING]
    (running,) = await store.get([RUNNING])
    assert await store.settle([decide(running, Succeeded("1"), means())], now=at(1)) == [RUNNING]
    assert await store.promote(10, now=BASE + 2 * HOUR) == {"default": 1}
    assert set(ids_of(await store.claim(claim(), now=BASE + 2 * HOUR))) == {BLOCKED, SCHEDULED}
    (completed,) = await store.get([COMPLETED])
    assert completed.state is State.COMPLETED
    assert [queue.max_depth for queue in await store.queues()] == [5]
    assert (await store.configuration()).values == {"log_level": "debug"}
    assert await store.check() == []
    await store.close()


@pytest.mark.parametrize("renamed", ["tables", "tables and some keys", "all but the record"])
async def test_a_run_that_was_cut_off_is_taken_up_again(old: MysqlConnection, fresh_url: str, renamed: str) -> None:
    script = runpy.run_path(str(SCRIPT))
    await old.run(script["RENAME"])
    tables = {"tables": (), "tables and some keys": ("rota_job", "rota_tag")}.get(renamed, script["TABLES"].values())
    for table in tables:
        await script["_rename_keys"](old, table)
    with pytest.raises(SchemaTooNew):
        await MysqlStore.open(fresh_url)
    assert run_script(fresh_url).returncode == 0
    assert await shape(old) == await fresh_shape()
    assert await old.rows("SELECT count(*) FROM rota_job") == ((5,),)


async def test_a_second_run_changes_nothing(old: MysqlConnection, fresh_url: str) -> None:
    assert run_script(fresh_url).returncode == 0
    before = await applied(old)
    again = run_script(fresh_url)
    assert (again.returncode, await applied(old)) == (0, before)
    assert "nothing to do" in again.stdout


async def test_a_store_that_is_not_at_the_last_migration_is_refused(old: MysqlConnection, fresh_url: str) -> None:
    await old.run(f"DELETE FROM {REGISTER} WHERE number = 4")  # noqa: S608 - a constant
    before = await shape(old)
    refused = run_script(fresh_url)
    assert refused.returncode == 1
    assert "rota db migrate" in refused.stderr
    assert await shape(old) == before


async def test_a_database_without_a_store_is_refused(fresh: MysqlConnection, fresh_url: str) -> None:
    await fresh.run(f"CREATE TABLE {REGISTER} (number BIGINT, name VARCHAR(255))")
    refused = run_script(fresh_url)
    assert (refused.returncode, "not a store" in refused.stderr) == (1, True)


async def test_a_store_of_before_is_not_opened_beside_new_tables(old: MysqlConnection, fresh_url: str) -> None:
    """New and empty tables beside the old ones would look as if all jobs were lost."""
    with pytest.raises(InvalidRequest, match=r"tools/rename_tables/mysql\.py"):
        await MysqlStore.open(fresh_url)
    assert not any(name.startswith("rota_") for name in await shape(old))
    assert run_script(fresh_url).returncode == 0
    store = await MysqlStore.open(fresh_url)
    await store.insert([new_job()])
    await store.close()
