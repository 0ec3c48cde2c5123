"""After a failure in the middle of a transaction its jobs do not exist, and the owner can go on with it."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from asyncpg import exceptions
from psycopg import errors

from conformance.caller_tx.callers import (
    ASYNC_PSYCOPG,
    ASYNCMY,
    ASYNCPG,
    DRIVERS,
    PSYCOPG,
    SQLITE3,
    Caller,
    Way,
)
from rota import Rota, Task
from rota.core.ids import to_number
from rota.ports.store import JobQuery, Store

Ship = Task[[int], int]
TESTS = Path(__file__).parents[2]

#: Makes storing a tag fail, when the job itself has been stored.
SPOIL = {
    "sqlite-file": ["ALTER TABLE rota_tag RENAME TO tag_away"],
    "postgres": ["ALTER TABLE rota_tag ADD CONSTRAINT spoilt CHECK (tag <> 't')"],
    "mariadb": [
        "CREATE TRIGGER spoilt BEFORE INSERT ON rota_tag FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'tag'"
    ],
}
MEND = {
    "sqlite-file": ["ALTER TABLE tag_away RENAME TO tag"],
    "postgres": ["ALTER TABLE rota_tag DROP CONSTRAINT spoilt"],
    "mariadb": ["DROP TRIGGER spoilt"],
}


@pytest.fixture
async def spoilt(way: Way, caller: Caller) -> AsyncIterator[None]:
    for sql in SPOIL[way.store.name]:
        await caller.execute(sql)
    await caller.commit()
    await caller.start()
    yield
    await caller.rollback()
    await caller.start()
    for sql in MEND[way.store.name]:
        await caller.execute(sql)
    await caller.commit()
    await caller.start()


@pytest.mark.parametrize("way", DRIVERS, ids=lambda way: way.name)
@pytest.mark.usefixtures("spoilt")
async def test_an_error_in_the_middle_leaves_the_transaction_as_it_was(
    caller: Caller, task: Ship, store: Store
) -> None:
    first = await caller.submit(task, 1)
    await caller.buy(1)
    with pytest.raises(Exception, match=r"tag|spoilt") as failure:
        await caller.submit(task, 2, tags=["t"], idempotency_key="k")
    # It is the driver's own error, which the caller can handle.
    assert type(failure.value).__module__.partition(".")[0] in {"sqlite3", "asyncpg", "psycopg", "pymysql", "asyncmy"}
    await caller.buy(2)
    await caller.commit()
    assert [job.id for job in await store.find(JobQuery())] == [to_number(first.id)]
    await caller.start()
    assert await caller.fetch("SELECT number FROM purchase ORDER BY number") == [(1,), (2,)]
    assert await caller.fetch("SELECT * FROM rota_idempotency") == []


@pytest.mark.parametrize("way", DRIVERS, ids=lambda way: way.name)
async def test_a_program_that_is_killed_before_its_commit_leaves_nothing(
    way: Way, place: str, caller: Caller, task: Ship, store: Store
) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "conformance.caller_tx.killed_program",
        way.name,
        place,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert program.stdout is not None
    answer = (await program.stdout.readline()).decode().strip()
    assert answer
    program.send_signal(signal.SIGKILL)
    await program.wait()
    # A submission with the same key waits until the server has noticed, and makes its own job.
    handle = await caller.submit(task, 1, idempotency_key="k")
    await caller.commit()
    assert handle.id != answer
    assert [job.id for job in await store.find(JobQuery())] == [to_number(handle.id)]
    await caller.start()
    assert await caller.fetch("SELECT * FROM rota_tag") == []
    assert await caller.fetch("SELECT * FROM purchase") == []


@pytest.mark.parametrize("way", [ASYNCPG, ASYNC_PSYCOPG], ids=lambda way: way.name)
async def test_a_submission_that_is_given_up_leaves_nothing_and_the_transaction_goes_on(
    way: Way, place: str, caller: Caller, task: Ship, store: Store
) -> None:
    async with way.connect(place) as other:
        await other.start()
        await other.submit(task, 1, idempotency_key="k")
        await caller.buy(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await caller.submit(task, 1, idempotency_key="k")
        await caller.buy(2)
        await caller.commit()
        await other.rollback()
    assert (await store.census()).total() == 0
    await caller.start()
    assert await caller.fetch("SELECT number FROM purchase ORDER BY number") == [(1,), (2,)]


@pytest.mark.parametrize("way", [ASYNCMY], ids=lambda way: way.name)
async def test_a_submission_that_is_given_up_on_mariadb_leaves_nothing(
    way: Way, place: str, task: Ship, store: Store
) -> None:
    """The driver drops the connection in the middle of an answer, and the whole transaction with it."""
    async with way.connect(place) as first, way.connect(place) as second:
        await first.submit(task, 1, idempotency_key="k")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await second.submit(task, 1, idempotency_key="k")
        await first.rollback()
    assert (await store.census()).total() == 0


ABORTED = (errors.InFailedSqlTransaction, exceptions.InFailedSQLTransactionError)
CONFLICTS = (errors.SerializationFailure, exceptions.SerializationError)
POSTGRES = [ASYNCPG, PSYCOPG, ASYNC_PSYCOPG]


@pytest.mark.parametrize("way", POSTGRES, ids=lambda way: way.name)
async def test_an_aborted_transaction_of_postgresql_takes_no_job(caller: Caller, task: Ship, store: Store) -> None:
    await caller.buy(1)
    with pytest.raises((psycopg.Error, asyncpg.PostgresError)):
        await caller.execute("SELECT 1 / 0")
    with pytest.raises(ABORTED):
        await caller.submit(task, 1)
    await caller.rollback()
    assert (await store.census()).total() == 0


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("way", POSTGRES, ids=lambda way: way.name)
async def test_a_conflict_under_strict_isolation_is_the_driver_s_error_and_the_next_try_succeeds(
    caller: Caller, task: Ship, store: Store, level: str
) -> None:
    await caller.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    await caller.fetch("SELECT number FROM purchase")
    first = await task.using(idempotency_key="k").asubmit(1)
    with pytest.raises(CONFLICTS):
        await caller.submit(task, 1, idempotency_key="k")
    await caller.rollback()
    await caller.start()
    await caller.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    again = await caller.submit(task, 1, idempotency_key="k")
    await caller.submit(task, 2, tags=["t"])
    await caller.commit()
    assert again.id == first.id
    assert (await store.census()).total() == 2


@pytest.mark.parametrize("way", [SQLITE3], ids=lambda way: way.name)
async def test_a_transaction_of_sqlite_that_looked_before_others_wrote_is_refused_by_the_driver(
    caller: Caller, task: Ship, store: Store
) -> None:
    await caller.execute("BEGIN")
    await caller.fetch("SELECT number FROM purchase")
    await task.asubmit(1)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await caller.submit(task, 2)
    await caller.rollback()
    await caller.submit(task, 2)
    await caller.commit()
    assert (await store.census()).total() == 2


def own_way(connection: Any, key: str) -> None:  # noqa: ANN401 - of several drivers
    """Let a connection make rows as its owner likes them."""
    match key:
        case "sqlite3":
            connection.row_factory = lambda cursor, row: {"row": row, "cursor": cursor}
            connection.text_factory = bytes
        case "psycopg" | "psycopg-async":
            connection.row_factory = psycopg.rows.dict_row
            if key == "psycopg":
                connection.cursor_factory = psycopg.RawCursor


@pytest.mark.parametrize("way", [SQLITE3, PSYCOPG, ASYNC_PSYCOPG], ids=lambda way: way.name)
async def test_how_a_connection_makes_its_rows_is_its_owner_s_choice(
    way: Way, caller: Caller, app: Rota, task: Ship, store: Store
) -> None:
    before = {name: getattr(caller.tx, name, None) for name in ("row_factory", "text_factory", "cursor_factory")}
    own_way(caller.tx, way.name)
    changed = {name: getattr(caller.tx, name, None) for name in before}
    await caller.submit(task, 1, idempotency_key="k", tags=["t"])
    await caller.submit(task, 1, idempotency_key="k", tags=["t"])
    await caller.submit_many(app, [task.call(number) for number in range(3)])
    assert {name: getattr(caller.tx, name, None) for name in before} == changed
    await caller.commit()
    for name, value in before.items():
        if value is not None or name == "row_factory":
            setattr(caller.tx, name, value)
    assert (await store.census()).total() == 4
