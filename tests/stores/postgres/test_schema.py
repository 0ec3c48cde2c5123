"""The schema: what the migrations make is what `schema.sql` shows, and the constraints state the invariants."""

from __future__ import annotations

import asyncio
from importlib.resources import files

import asyncpg
import pytest

from rota.runtime.store import migrations_of
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.connection import Connector
from rota.stores.postgres.database import Database
from rota.stores.postgres.migrations import all_migrations, applied, migrate
from servers.postgres import new_database, shared_server

SHAPE = """
SELECT 'column', format('%s.%s', c.relname, a.attname),
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, l.collname, pg_get_expr(d.adbin, d.adrelid))
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v')
UNION ALL
SELECT 'table', relname, concat_ws(' ', relkind, reloptions, pg_get_partkeydef(oid), pg_get_expr(relpartbound, oid))
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
UNION ALL
SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'constraint', format('%s.%s', conrelid::regclass, conname), pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'function', proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL
SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = 'public'
ORDER BY 1, 2
"""


async def shape(dsn: str) -> list[tuple[str, str, str]]:
    connection = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await connection.fetch(SHAPE)]
    finally:
        await connection.close()


async def migrated(dsn: str) -> list[str]:
    database = Database(Connector(dsn))
    try:
        return await database.write(migrate)
    finally:
        await database.close()


async def test_the_migrations_make_what_the_schema_shows(blank: str) -> None:
    await migrated(blank)
    script = files("rota.stores.postgres").joinpath("schema.sql").read_text(encoding="utf-8")
    async with new_database(shared_server()) as shown:
        connection = await asyncpg.connect(shown)
        await connection.execute(script)
        await connection.close()
        assert await shape(blank) == await shape(shown)


async def test_a_database_is_migrated_once(blank: str) -> None:
    names = [migration.name for migration in all_migrations()]
    assert await migrated(blank) == names
    assert await migrated(blank) == []
    database = Database(Connector(blank))
    assert await database.read(applied) == {migration.number: migration.name for migration in all_migrations()}
    await database.close()


async def test_concurrent_migrations_wait_and_run_once(blank: str) -> None:
    done = await asyncio.gather(*(migrated(blank) for _ in range(4)))
    assert sorted(done) == [[], [], [], [migration.name for migration in all_migrations()]]


async def test_a_store_can_be_opened_on_a_new_database_by_many_at_once(blank: str) -> None:
    stores = await asyncio.gather(*(PostgresStore.open(blank) for _ in range(4)))
    assert [(await store.census()).total() for store in stores] == [0, 0, 0, 0]
    for store in stores:
        await store.close()


async def test_a_migration_that_fails_leaves_nothing_behind(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [
        *all_migrations(),
        type(all_migrations()[0])(9999, "9999_broken", "CREATE TABLE half (id bigint); BROKEN"),
    ]
    monkeypatch.setattr("rota.stores.postgres.migrations.all_migrations", lambda: broken)
    with pytest.raises(Exception, match="BROKEN"):
        await migrated(blank)
    assert await shape(blank) == []


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.number for migration in all_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_the_status_tells_what_a_database_has_seen_and_changes_nothing(blank: str, dsn: str) -> None:
    names = [migration.name for migration in all_migrations()]
    assert await asyncio.to_thread(migrations_of, blank) == [(name, False, True) for name in names]
    assert await asyncio.to_thread(migrations_of, dsn) == [(name, True, True) for name in names]
    assert await shape(blank) == []


REFUSED = {
    "a running job without a lease": "UPDATE rota_job SET state = 'running'",
    "a lease on a job that does not run": "UPDATE rota_job SET lease_until = 1",
    "a finished job without an end": "UPDATE rota_job_done SET finished_at = NULL",
    "an unfinished job among the finished": "UPDATE rota_job_done SET state = 'pending'",
}
FOUND = {
    "a finished job among the unfinished": "UPDATE rota_job SET state = 'completed'",
    "an unfinished job with an end": "UPDATE rota_job SET finished_at = 1",
    "a blocked job that waits for nothing": "UPDATE rota_job SET state = 'blocked'",
    "more attempts than allowed": "UPDATE rota_job SET attempts = 4, fence = 4",
    "more attempts than claims": "UPDATE rota_job SET attempts = 1",
    "a state nobody knows": "UPDATE rota_job SET state = 'done'",
}
COLUMNS = "id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload"


async def filled(dsn: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(dsn)
    values = "{}, 't', 'q', 5, '{}', 0, 0, 0, 0, 3, 'at_least_once', 'null'"
    await connection.execute(f"INSERT INTO rota_job ({COLUMNS}) VALUES ({values.format(1, 'pending')})")  # noqa: S608 - constants
    await connection.execute(
        f"INSERT INTO rota_job_done ({COLUMNS}, finished_at) VALUES ({values.format(2, 'dead')}, 1)"  # noqa: S608 - constants
    )
    return connection


@pytest.mark.parametrize("breach", REFUSED)
async def test_the_database_itself_refuses(dsn: str, breach: str) -> None:
    connection = await filled(dsn)
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(REFUSED[breach])
    await connection.close()


@pytest.mark.parametrize("breach", FOUND)
async def test_a_check_of_the_database_finds(dsn: str, breach: str) -> None:
    connection = await filled(dsn)
    store = await PostgresStore.open(dsn)
    before = await store.check()
    await connection.execute(FOUND[breach])
    found = [finding for finding in await store.check() if finding not in before]
    await store.close()
    await connection.close()
    assert found[0].startswith("job 1 has a state and counts that contradict each other")
