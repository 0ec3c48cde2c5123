"""The pool: order of callers, deadlines of answers, and prepared statements."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from builders import SECOND, new_job
from rota.core.errors import StoreUnavailable
from rota.stores.postgres import PostgresStore, session
from rota.stores.postgres.connection import Connector
from rota.stores.postgres.pool import Pool
from rota.stores.postgres.session import PreparedQuery


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[Pool]:
    """A pool with one connection only."""
    pool = Pool(Connector(dsn), 1)
    yield pool
    await pool.close()


async def test_callers_are_served_in_order(pool: Pool) -> None:
    served: list[str] = []

    async def use(name: str) -> None:
        with pool.acquire_idle() or await pool.acquire() as lent:
            await lent.values("now")
            served.append(name)

    with await pool.acquire():
        waiting = [asyncio.create_task(use(name)) for name in "abc"]
        await asyncio.sleep(0)
    # The turn is promised: a caller that comes at this moment does not get it.
    assert pool.acquire_idle() is None
    await asyncio.gather(*waiting)
    assert "".join(served) == "abc"
    assert not pool.lent


async def test_a_cancelled_caller_is_passed_over(pool: Pool) -> None:
    async def use() -> None:
        with await pool.acquire() as lent:
            await lent.values("now")

    with await pool.acquire():
        gone, late, patient = (asyncio.create_task(use()) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
    # Its turn has come, and it does not know yet.
    late.cancel()
    await patient
    assert gone.cancelled()
    assert late.cancelled()
    with await pool.acquire() as lent:
        assert len(await lent.values("now")) == 1


async def test_a_failed_connection_releases_its_turn() -> None:
    pool = Pool(Connector("postgresql://127.0.0.1:1/none"), 1)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            await pool.acquire()


async def test_a_pool_that_was_closed_lends_nothing(pool: Pool) -> None:
    with await pool.acquire():
        waiting = asyncio.create_task(pool.acquire())
        await asyncio.sleep(0)
        await pool.close()
    for one in (waiting, pool.acquire()):
        with pytest.raises(StoreUnavailable, match="closed"):
            await one
    assert pool.acquire_idle() is None


async def test_an_overdue_statement_is_cancelled_here_and_on_the_server(
    store: PostgresStore, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert([new_job()])
    monkeypatch.setattr(session, "COMMAND_SECONDS", 0.2)
    other = await asyncpg.connect(dsn)
    async with other.transaction():
        await other.execute("LOCK TABLE rota_job IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await store.insert([new_job()])
        async with asyncio.timeout(10):
            while await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                pass
    monkeypatch.undo()
    await store.insert([new_job()])
    assert (await store.census()).total() == 2
    await other.close()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("who_is_first", ["we", "others"])
async def test_a_task_that_is_cancelled_by_others_too_is_cancelled(pool: Pool, dsn: str, who_is_first: str) -> None:
    """The others' word was once taken for one that was said before, and forgotten: a worker went on that was to end."""
    other = await asyncpg.connect(dsn)

    async def use() -> None:
        with await pool.acquire() as lent:
            await lent.execute("SELECT pg_advisory_xact_lock(1)")

    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock(1)")
        using = asyncio.create_task(use())
        async with asyncio.timeout(10):
            while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                pass
        (lent,) = pool.lent
        for call_off in (lent.cancel, using.cancel) if who_is_first == "we" else (using.cancel, lent.cancel):
            call_off()
        with pytest.raises(asyncio.CancelledError):
            await using
    await other.close()


async def test_an_answer_that_came_while_the_loop_was_blocked_is_read(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not less: behind the pause the next looks come a thirteenth of it apart, and a busy server may need some of that.
    monkeypatch.setattr(session, "COMMAND_SECONDS", 0.6)
    pool = Pool(Connector(dsn), 1)

    async def use() -> list[Any]:
        with await pool.acquire() as lent:
            await lent.execute("SELECT 1", seconds=60)
            asked = asyncio.ensure_future(stand_still())
            answer = await lent.fetch("SELECT 1")
            await asked
            return list(answer)

    async def stand_still() -> None:
        # As a handler does that does not know of loops. The question has been sent.
        time.sleep(1.0)  # noqa: ASYNC251 - on purpose

    assert await use() == [(1,)]
    await pool.close()


async def test_a_task_that_waits_for_something_else_is_not_cancelled(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "COMMAND_SECONDS", 0.05)
    with await pool.acquire() as lent:
        await lent.execute("SELECT 1", seconds=0.05)
        await asyncio.sleep(0.3)
        assert await lent.execute("SELECT 1", seconds=60) == "SELECT 1"


async def test_a_statement_may_be_given_longer(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "COMMAND_SECONDS", 0.1)
    with await pool.acquire() as lent:
        await lent.execute("SELECT pg_sleep(0.5)", seconds=60)
        with pytest.raises(TimeoutError, match="no answer in time"):
            await lent.execute("SELECT pg_sleep(60)")


async def test_statements_are_prepared_again_after_the_tables_changed(store: PostgresStore, dsn: str) -> None:
    other = await asyncpg.connect(dsn)
    for type_ in ("varchar", "text"):
        assert (await store.lead("upkeep", "a", SECOND)).holder == "a"
        await other.execute(f"ALTER TABLE rota_leader ALTER COLUMN holder TYPE {type_}")
    assert (await store.lead("upkeep", "a", SECOND)).holder == "a"
    await other.close()


async def test_the_public_method_is_used_if_the_driver_has_no_other(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TEMPORARY TABLE thing (id int)")
    statement = await connection.prepare("INSERT INTO thing SELECT generate_series(1, $1::int) RETURNING id")
    usual = PreparedQuery(connection, statement)

    def other_release(_state: Any, _arguments: Any) -> Any:  # noqa: ANN401 - the driver's
        """Take other arguments than we give."""

    changed, gone = PreparedQuery(connection, statement), PreparedQuery(connection, statement)
    changed._bind = other_release
    gone._bind = None
    for way in (usual, changed, changed, gone):
        rows, status, _ = await way.execute((2,))
        assert ([row[0] for row in rows], status) == ([1, 2], b"INSERT 0 2")
    await connection.close()


_ENDS_IN_THE_MIDST = """
import asyncio, sys
import asyncpg
from rota.stores.postgres import session
from rota.stores.postgres.connection import Connector
from rota.stores.postgres.database import Database

session.LEAVE_SECONDS = 30

async def wait(session):
    await session.execute("SELECT pg_sleep(600)")

async def main():
    global waiting
    database = Database(Connector(sys.argv[1]))
    waiting = asyncio.create_task(database.alone(wait))
    # To be told to stop, the server must have begun: a word that comes before is as good as none.
    other = await asyncpg.connect(sys.argv[1])
    while not await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
        pass
    await other.close()
    if sys.argv[2] == "closes":
        await database.close()

asyncio.run(main(), debug=False)
"""


@pytest.mark.parametrize("how", ["closes", "does not"])
async def test_a_program_that_ends_during_a_statement_prints_nothing(dsn: str, how: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", _ENDS_IN_THE_MIDST, dsn, how, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        _, said = await process.communicate()
    assert (said.decode(), process.returncode) == ("", 0)
    other = await asyncpg.connect(dsn)
    async with asyncio.timeout(10):
        while await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
            pass
    await other.close()
