"""Rota shares a database with a program that has tables of its own called `job`, `tag`, `queue` and `token`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import asyncmy
import pymysql
import pytest

from rota import Rota
from rota.core.lifecycle import State
from rota.ports.store import JobQuery
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.location import location_of

OWN = ("job", "tag", "queue", "token")


@pytest.fixture
async def own_tables(fresh: MysqlConnection, fresh_url: str) -> AsyncIterator[MysqlConnection]:
    """A database with a program's tables, and then Rota's."""
    for name in OWN:
        await fresh.run(f"CREATE TABLE {name} (title VARCHAR(50) NOT NULL)")
        await fresh.run(f"INSERT INTO `{name}` VALUES ('of the program')")  # noqa: S608 - a constant
    before = await contents(fresh)
    store = await MysqlStore.open(fresh_url)
    await store.close()
    assert await contents(fresh) == before
    yield fresh
    assert await contents(fresh) == before


async def contents(connection: MysqlConnection) -> dict[str, Any]:
    found = {}
    for name in OWN:
        rows = await connection.rows(f"SELECT * FROM `{name}`")  # noqa: S608 - a constant
        found[name] = (await connection.rows(f"SHOW CREATE TABLE `{name}`"), rows)
    return found


async def pending(url: str) -> int:
    store = await MysqlStore.open(url)
    found = await store.find(JobQuery(states=(State.PENDING,)))
    assert await store.check() == []
    await store.close()
    return len(found)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_a_caller_submits_in_its_transaction(own_tables: MysqlConnection, fresh_url: str, ends: str) -> None:
    del own_tables
    app = Rota(fresh_url)

    @app.task
    def mail(number: int) -> int:
        return number

    where = location_of(fresh_url)
    connection = pymysql.connect(host=where.host, port=where.port, user=where.user, database=where.database)
    # Closed also after a failure: an open transaction would block the removal of the database.
    with closing(app), closing(connection):
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {OWN[0]} SET title = title")  # noqa: S608 - a constant
        mail.using(tx=connection, tags=("red",), idempotency_key="once").submit(1)
        getattr(connection, ends)()
    assert await pending(fresh_url) == (ends == "commit")


async def test_an_awaiting_caller_submits_in_its_transaction(own_tables: MysqlConnection, fresh_url: str) -> None:
    del own_tables
    app = Rota(fresh_url)

    @app.task
    async def mail(number: int) -> int:
        return number

    where = location_of(fresh_url)
    connection = await asyncmy.connect(host=where.host, port=where.port, user=where.user, database=where.database)
    try:
        await mail.using(tx=connection).asubmit(1)
        await connection.commit()
    finally:
        await connection.ensure_closed()
        app.close()
    assert await pending(fresh_url) == 1
