"""The schema: what the migrations make is what `schema.sql` shows, and the constraints state the invariants."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from itertools import chain

import pytest

from rota.runtime.store import migrations_of
from rota.stores.mysql.driver import MARIADB_COLLATION, MysqlConnection, connect
from rota.stores.mysql.errors import ConstraintViolated
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import all_migrations, applied, migrate, statements_in
from servers.databases import fresh_database

SCHEMA = files("rota.stores.mysql").joinpath("schema.sql").read_text(encoding="utf-8")


async def shape(connection: MysqlConnection) -> dict[str, str]:
    tables = [name for (name,) in await connection.rows("SHOW TABLES")]
    return {name: (await connection.rows(f"SHOW CREATE TABLE `{name}`"))[0][1] for name in tables}


async def test_the_migrations_make_what_the_schema_shows(fresh: MysqlConnection) -> None:
    await migrate(fresh, 0)
    async with fresh_database() as url:
        shown = await connect(location_of(url), "test", autocommit=True)
        for part in statements_in(SCHEMA, shown.collation):
            await shown.run(part)
        assert await shape(fresh) == await shape(shown)
        await shown.close()


async def test_every_table_is_described(fresh: MysqlConnection) -> None:
    """The paragraph at the top of the schema names each table and the flow through it."""
    await migrate(fresh, 0)
    opening = SCHEMA.partition("CREATE TABLE")[0]
    assert set(await shape(fresh)) - {"rota_migration"} <= set(re.findall(r"`(\w+)`", opening))


async def test_a_database_is_migrated_once(fresh: MysqlConnection) -> None:
    assert await applied(fresh) == {}
    assert await migrate(fresh, 0) == [migration.name for migration in all_migrations()]
    assert await migrate(fresh, 0) == []
    assert await applied(fresh) == {migration.number: migration.name for migration in all_migrations()}


CUTS = [
    (number, count)
    for number, migration in enumerate(all_migrations())
    for count in range(len(statements_in(migration.text, "x")) + 1)
    # The first makes one table after the other, all alike.
    if number or count == 10
]


@pytest.mark.parametrize(("number", "count"), CUTS)
async def test_a_migration_that_was_cut_off_is_taken_up_again(url: str, number: int, count: int) -> None:
    """MySQL commits each statement by itself: a process that dies in the middle leaves half of the work."""
    scripts = [statements_in(migration.text, MARIADB_COLLATION) for migration in all_migrations()]
    done = [*chain.from_iterable(scripts[:number]), *scripts[number][:count]]
    async with fresh_database() as fresh_url:
        connection = await connect(location_of(fresh_url), "test", autocommit=True)
        for part in done:
            await connection.run(part)
        await connection.close()
        connection = await connect(location_of(fresh_url), "test", autocommit=True)
        assert await migrate(connection, 0) == [migration.name for migration in all_migrations()]
        whole = await connect(location_of(url), "test", autocommit=True)
        await migrate(whole, 0)
        assert await shape(connection) == await shape(whole)
        await whole.close()
        await connection.close()


async def test_processes_that_come_at_once_migrate_once(fresh_url: str) -> None:
    connections = [await connect(location_of(fresh_url), "test", autocommit=True) for _ in range(4)]
    done = await asyncio.gather(*(migrate(connection, 0) for connection in connections))
    assert sorted(done, key=len) == [[], [], [], [migration.name for migration in all_migrations()]]
    for connection in connections:
        await connection.close()


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.number for migration in all_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_the_migrations_a_database_has_seen_can_be_asked_for(fresh_url: str) -> None:
    names = [migration.name for migration in all_migrations()]
    assert await asyncio.to_thread(migrations_of, fresh_url) == [(name, False, True) for name in names]
    connection = await connect(location_of(fresh_url), "test", autocommit=True)
    await migrate(connection, 0)
    await connection.close()
    assert await asyncio.to_thread(migrations_of, fresh_url) == [(name, True, True) for name in names]


BREACHES = {
    "a finished job without an end": "UPDATE rota_job SET state = 'completed'",
    "an unfinished job with an end": "UPDATE rota_job SET finished_at = 1",
    "a running job without a lease": "UPDATE rota_job SET state = 'running'",
    "a blocked job that waits for nothing": "UPDATE rota_job SET state = 'blocked'",
    "more attempts than allowed": "UPDATE rota_job SET attempts = 4, fence = 4",
    "more attempts than claims": "UPDATE rota_job SET attempts = 1",
    "a state nobody knows": "UPDATE rota_job SET state = 'done'",
    "a lease without a fence": (
        "INSERT INTO rota_lease (id, fence, worker, boot, lease_until, started_at, updated_at)"
        " VALUES (1, 0, 'w', 'b', 1, 1, 1)"
    ),
    "a step with an outcome and no end": (
        "INSERT INTO rota_step (job_id, key_digest, `key`, number, began_under, began_at, outcome)"
        " VALUES (1, 'd', 'k', 1, 1, 1, '')"
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
async def test_the_database_itself_refuses(url: str, breach: str) -> None:
    connection = await connect(location_of(url), "test", autocommit=True)
    await migrate(connection, 0)
    await connection.run(
        "INSERT INTO rota_job (id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts,"
        " delivery, payload) VALUES (1, 't', 'q', 5, 'pending', 0, 0, 0, 0, 3, 'at_least_once', 'null')"
    )
    with pytest.raises(ConstraintViolated):
        await connection.run(BREACHES[breach])
    await connection.close()


async def test_words_that_differ_by_a_space_or_a_case_are_different_words(fresh: MysqlConnection) -> None:
    await migrate(fresh, 0)
    words = ["a", "a ", "A", "\u00e4", "a\u0308", "a\t"]
    await fresh.many("INSERT INTO rota_queue_lock (queue) VALUES (%s)", [(word,) for word in words])
    found = await fresh.rows("SELECT queue FROM rota_queue_lock ORDER BY queue")
    assert [word for (word,) in found] == sorted(words)
