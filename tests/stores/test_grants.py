"""Database roles with the least privileges: the SQL of `rota db grants`, run on real servers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from itertools import count
from typing import Final

import psycopg
import pytest

from builders import BASE, DAY, ManualClock, claim, entry, means, new_jobs
from rota.core.decision import decide
from rota.core.errors import InvalidRequest
from rota.core.outcome import Succeeded
from rota.ports.store import Retention
from rota.stores.grants import SECRET_TABLES, Roles
from rota.stores.mysql import MysqlStore
from rota.stores.mysql import grants as mysql_grants
from rota.stores.postgres import PostgresStore, partitions
from rota.stores.postgres import grants as postgres_grants
from servers import mariadb, postgres
from servers.databases import empty_database, fresh_database
from servers.roles import (
    ROLES,
    execute,
    limited_mariadb,
    limited_postgres,
    make_limited_postgres,
    mariadb_as,
    postgres_as,
    run_mariadb,
)

_numbers: Final = count(1)
DDL = [
    "CREATE TABLE other (id bigint)",
    "DROP TABLE rota_job",
    "ALTER TABLE rota_job ADD COLUMN other bigint",
    "TRUNCATE TABLE rota_job",
    "UPDATE rota_ledger SET actor = 'somebody else'",
    "DELETE FROM rota_migration",
]


@pytest.fixture
async def dsn() -> AsyncIterator[str]:
    async with limited_postgres() as dsn:
        yield dsn


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with limited_mariadb() as url:
        yield url


def as_role(dsn: str, role: str) -> str:
    return dsn.replace(f"//{ROLES.run}@", f"//{role}@")


def denied_by_postgres(dsn: str, statement: str) -> bool:
    try:
        execute(dsn, statement)
    except psycopg.errors.InsufficientPrivilege:
        return True
    return False


def denied_by_mariadb(url: str, statement: str) -> bool:
    """Run a statement as the user of a URL with the server's own client."""
    match = re.fullmatch(r"mysql://(\w+)@127\.0\.0\.1:(\d+)/(\w+)", url)
    assert match
    done = subprocess.run(
        ["mariadb", "--no-defaults", "-h127.0.0.1", f"-u{match[1]}", f"-P{match[2]}", match[3], "-e", statement],
        capture_output=True,
        check=False,
        text=True,
    )
    return " denied to user " in done.stderr


@pytest.mark.parametrize("statement", DDL)
async def test_the_role_that_runs_rota_may_not_change_tables_on_postgresql(dsn: str, statement: str) -> None:
    assert denied_by_postgres(dsn, statement)


@pytest.mark.parametrize("statement", DDL)
async def test_the_user_that_runs_rota_may_not_change_tables_on_mariadb(url: str, statement: str) -> None:
    assert denied_by_mariadb(url, statement)


async def test_the_reading_role_reads_what_is_no_secret_and_writes_nothing_on_postgresql(dsn: str) -> None:
    read = as_role(dsn, ROLES.read)
    for table in postgres_grants.tables():
        assert denied_by_postgres(read, f"TABLE {table}") is (table in SECRET_TABLES), table
        assert denied_by_postgres(read, f"TRUNCATE {table}"), table
    assert not denied_by_postgres(read, "SELECT * FROM rota_any_job")
    for function in ("rota_add_partition('x', 1, 2)", "rota_lock_partition('x')", "rota_drop_partition('x', '{}')"):
        assert denied_by_postgres(read, f"SELECT {function}"), function


async def test_the_reading_user_reads_what_is_no_secret_and_writes_nothing_on_mariadb(url: str) -> None:
    read = as_role(url, ROLES.read)
    for table in mysql_grants.tables():
        assert denied_by_mariadb(read, f"SHOW COLUMNS FROM {table}") is (table in SECRET_TABLES), table
        assert denied_by_mariadb(read, f"ALTER TABLE {table} FORCE"), table
    assert denied_by_mariadb(read, "DELETE FROM rota_job")


async def test_every_table_is_named_in_the_grants_on_postgresql() -> None:
    server = postgres.shared_server()
    async with postgres.new_database(server) as dsn:
        await (await PostgresStore.open(dsn)).close()
        with psycopg.connect(dsn) as connection:
            found = connection.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
            ).fetchall()
    assert {name for (name,) in found if not re.fullmatch(r"rota_job_done_\d{8}", name)} == set(
        postgres_grants.tables()
    )


async def test_every_table_is_named_in_the_grants_on_mariadb() -> None:
    async with empty_database() as url:
        await (await MysqlStore.open(url)).close()
        server = mariadb.shared_server()
        assert set(server.execute(f"SHOW TABLES IN {url.rpartition('/')[2]}").split()) == set(mysql_grants.tables())


async def test_upkeep_adds_and_drops_daily_partitions_without_the_right_to(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MIN_DROPPED", 10)
    store = await PostgresStore.open(dsn, clock=ManualClock())
    try:
        jobs = new_jobs(20)
        await store.insert(jobs, entry=entry(), now=BASE)
        held = await store.claim(claim(limit=20), now=BASE)
        await store.settle([decide(job, Succeeded(), means(BASE)) for job in held], now=BASE)
        assert await store.prune(Retention(DAY, DAY, DAY), 1, now=BASE + 3 * DAY) == 20
    finally:
        await store.close()
    with psycopg.connect(dsn) as connection:
        ((days,),) = connection.execute(
            "SELECT array_agg(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'rota_job_done'::regclass"
        ).fetchall()
    assert f"rota_job_done_{BASE:%Y%m%d}" not in days
    assert f"rota_job_done_{BASE + 6 * DAY:%Y%m%d}" in days


@pytest.mark.parametrize(
    "name", ["rota_job", "rota_job_done_rest", "x; DROP TABLE rota_job", "rota_job_done_20200101\n"]
)
async def test_the_functions_take_names_of_daily_partitions_only(dsn: str, name: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for call in ("rota_add_partition(%s, 1, 2)", "rota_lock_partition(%s)", "rota_drop_partition(%s, '{}')"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(f"SELECT {call}".encode(), [name])


async def test_the_functions_find_the_stores_tables_whatever_the_callers_search_path(dsn: str) -> None:
    """A table of the caller with the same name is not taken for Rota's: the functions have their owner's rights."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE rota_job_done (id bigint) ON COMMIT PRESERVE ROWS")
        connection.execute("SET search_path = pg_temp, public")
        connection.execute("SELECT public.rota_add_partition('rota_job_done_19990101', 1, 2)")
        (place,) = connection.execute(
            "SELECT inhparent::regclass::text FROM pg_inherits"
            " WHERE inhrelid = 'public.rota_job_done_19990101'::regclass"
        ).fetchone() or ("",)
        assert place == "public.rota_job_done"
        connection.execute("SELECT public.rota_drop_partition('rota_job_done_19990101', '{}')")


async def test_the_roles_work_in_a_schema_of_their_own() -> None:
    server = postgres.shared_server()
    dsn = await make_limited_postgres(server, f"in_schema_{next(_numbers)}", schema="queue")
    store = await PostgresStore.open(dsn)
    assert (await store.census()).total() == 0
    await store.close()


async def test_a_role_that_may_not_migrate_is_told_so_on_postgresql() -> None:
    server = postgres.shared_server()
    async with postgres.new_database(server) as dsn:
        execute(dsn, postgres_grants.grants(dsn, ROLES).roles)
        with pytest.raises(InvalidRequest, match=r"0001_tables is missing.*rota db migrate"):
            await PostgresStore.open(postgres_as(server, ROLES.run, dsn.rpartition("/")[2]))


async def test_a_user_that_may_not_migrate_is_told_so_on_mariadb() -> None:
    server = mariadb.shared_server()
    async with fresh_database() as url:
        run_mariadb(server, mysql_grants.grants(url, ROLES).roles)
        name = url.rpartition("/")[2]
        server.execute(f"GRANT SELECT ON {name}.* TO {ROLES.run}")
        with pytest.raises(InvalidRequest, match=r"0001_tables is missing.*rota db migrate"):
            await MysqlStore.open(mariadb_as(server, ROLES.run, name))


@pytest.mark.parametrize("name", ["", "x y", 'x"; DROP ROLE y; --', "x'y", "1x", "x" * 64, "x@'", "x@"])
def test_a_name_that_is_no_role_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="run_role"):
        Roles("rota_migrate", name, "rota_read")


def test_roles_need_different_names() -> None:
    with pytest.raises(InvalidRequest, match="different names"):
        Roles("rota", "rota", "rota_read")


def test_hosts_of_a_user_are_for_mariadb() -> None:
    roles = Roles("m@10.0.0.%", "r", "q")
    assert "CREATE USER IF NOT EXISTS 'm'@'10.0.0.%';" in mysql_grants.grants("mysql://u@h/d", roles).roles
    with pytest.raises(InvalidRequest, match=r"pg_hba\.conf"):
        postgres_grants.grants("postgresql://u@h/d", roles)
