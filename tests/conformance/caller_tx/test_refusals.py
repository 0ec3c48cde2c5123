"""What cannot be a part of the caller's transaction is refused, by name and with the remedy, and nothing is done."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from builders import BASE
from conformance.caller_tx.callers import (
    ASYNC_PSYCOPG,
    ASYNCMY,
    ASYNCPG,
    DRIVERS,
    PSYCOPG,
    PYMYSQL,
    SQLITE3,
    Caller,
    Way,
)
from rota import Rota, RotaError, Task
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State
from rota.core.limit import Limit, OnFull
from rota.ports.store import Store
from servers.databases import fresh_database
from servers.postgres import new_database, shared_server

Ship = Task[[int], int]


@pytest.fixture(params=DRIVERS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


def shipping(app: Rota) -> Ship:
    @app.task
    def ship(number: int) -> int:
        return number

    return ship


async def submit(task: Ship, tx: object, *, is_async: bool) -> None:
    chosen = task.using(tx=tx)
    await chosen.asubmit(1) if is_async else chosen.submit(1)


async def test_the_wrong_verb_is_refused_and_the_right_one_is_named(caller: Caller, task: Ship, app: Rota) -> None:
    chosen = task.using(tx=caller.tx)
    if caller.is_async:
        with pytest.raises(InvalidRequest, match="is async; use asubmit or asubmit_many"):
            chosen.submit(1)
        with pytest.raises(InvalidRequest, match="use asubmit or asubmit_many"):
            app.submit_many([task.call(1)], tx=caller.tx)
    else:
        with pytest.raises(InvalidRequest, match="would block the event loop; use submit or submit_many"):
            await chosen.asubmit(1)
        with pytest.raises(InvalidRequest, match="use submit or submit_many"):
            await app.asubmit_many([task.call(1)], tx=caller.tx)


async def test_a_key_whose_limit_would_stay_locked_is_refused(caller: Caller, task: Ship, store: Store) -> None:
    await store.put_limits([Limit("key:a", 1, on_full=OnFull.DROP)])
    with pytest.raises(InvalidRequest, match=r"'a' has on_full=drop, .* submit it outside of one"):
        await submit(task.using(concurrency_key="a"), caller.tx, is_async=caller.is_async)
    await submit(task.using(concurrency_key="b"), caller.tx, is_async=caller.is_async)


async def test_over_http_nobody_can_be_a_part_of_it(caller: Caller) -> None:
    task = shipping(Rota("http://127.0.0.1:9"))
    with pytest.raises(InvalidRequest, match=r"over HTTP .* give Rota the URL of the store itself"):
        await submit(task, caller.tx, is_async=caller.is_async)


async def test_a_connection_to_another_kind_of_store_is_refused(way: Way, caller: Caller, tmp_path: Path) -> None:
    url = "postgresql://127.0.0.1:9/none" if way is SQLITE3 else str(tmp_path / "other.db")
    kind = "PostgreSQL" if way is SQLITE3 else "SQLite"
    with pytest.raises(InvalidRequest, match=f"cannot reach the store, which is on {kind}; connect"):
        await submit(shipping(Rota(url)), caller.tx, is_async=caller.is_async)


@pytest.fixture
async def foreign(way: Way, tmp_path: Path) -> AsyncIterator[str]:
    """Return a database in which Rota has never been."""
    match way.store.name:
        case "postgres":
            async with new_database(shared_server()) as place:
                yield place
        case "mariadb":
            async with fresh_database() as place:
                yield place
        case _:
            yield str(tmp_path / "foreign.db")


async def test_a_database_without_our_tables_is_refused_and_the_transaction_goes_on(way: Way, foreign: str) -> None:
    async with way.connect(foreign) as caller:
        await caller.start()
        await caller.execute("CREATE TABLE purchase (number bigint)")
        await caller.commit()
        await caller.start()
        await caller.buy(1)
        with pytest.raises(InvalidRequest, match=r"Rota's tables.*rota db migrate"):
            await submit(shipping(Rota(foreign)), caller.tx, is_async=caller.is_async)
        await caller.commit()
        await caller.start()
        assert await caller.fetch("SELECT number FROM purchase") == [(1,)]
        await caller.rollback()


async def test_a_database_with_somebody_else_s_table_of_migrations_is_refused(way: Way, foreign: str) -> None:
    async with way.connect(foreign) as caller:
        for columns in ("version bigint", "number bigint, name varchar(99)"):
            await caller.start()
            await caller.execute("DROP TABLE IF EXISTS rota_migration")
            await caller.execute(f"CREATE TABLE rota_migration ({columns})")
            await caller.commit()
            await caller.start()
            with pytest.raises(InvalidRequest, match="Rota's tables"):
                await submit(shipping(Rota(foreign)), caller.tx, is_async=caller.is_async)
            await caller.rollback()


@pytest.mark.parametrize("way", [ASYNCPG, PSYCOPG], ids=lambda way: way.name)
async def test_tables_of_the_same_names_in_another_schema_are_not_taken_for_ours(
    caller: Caller, task: Ship, store: Store
) -> None:
    await caller.execute("CREATE SCHEMA shop")
    await caller.execute("CREATE TABLE shop.rota_queue (name text)")
    await caller.execute("SET LOCAL search_path = shop, public")
    with pytest.raises(InvalidRequest, match="search_path"):
        await caller.submit(task, 1)
    await caller.rollback()
    assert (await store.census()).total() == 0


@pytest.mark.parametrize("way", [PYMYSQL, ASYNCMY], ids=lambda way: way.name)
async def test_another_database_of_the_same_form_is_refused_by_its_name(
    way: Way, place: str, store: Store, task: Ship
) -> None:
    async for elsewhere in way.store.place(Path()):
        await (await way.store.open(elsewhere, lambda: BASE)).close()
        async with way.connect(elsewhere) as caller:
            names = elsewhere.rpartition("/")[2], place.rpartition("/")[2]
            with pytest.raises(
                InvalidRequest, match=f"uses the database '{names[0]}' and the store is in '{names[1]}'"
            ):
                await submit(task, caller.tx, is_async=caller.is_async)
    assert (await store.census()).total() == 0


@pytest.mark.parametrize("way", [PYMYSQL, ASYNCMY], ids=lambda way: way.name)
async def test_a_session_in_which_values_are_cut_to_fit_is_refused(caller: Caller, task: Ship, store: Store) -> None:
    for mode, is_strict in (("ANSI_QUOTES", False), ("STRICT_ALL_TABLES", True), ("TRADITIONAL", True)):
        await caller.execute(f"SET SESSION sql_mode = '{mode}'")
        if is_strict:
            await caller.submit(task, 1)
        else:
            with pytest.raises(InvalidRequest, match=r"sql_mode is not strict.*add STRICT_TRANS_TABLES"):
                await caller.submit(task, 1)
    await caller.commit()
    assert (await store.census()).total() == 2


@pytest.mark.parametrize("way", [SQLITE3], ids=lambda way: way.name)
async def test_another_file_is_refused_by_its_name(task: Ship, store: Store, tmp_path: Path) -> None:
    for place, name in ((tmp_path / "other.db", "other.db"), (":memory:", "a database in memory")):
        connection = sqlite3.connect(place)
        with pytest.raises(InvalidRequest, match=f"the connection is to .*{name} and the store is .*rota.db"):
            task.using(tx=connection).submit(1)
        assert not connection.in_transaction
        connection.close()
    assert (await store.census()).total() == 0


@pytest.mark.parametrize("way", [SQLITE3], ids=lambda way: way.name)
async def test_the_same_file_by_another_name_is_the_same_file(
    task: Ship, store: Store, place: str, tmp_path: Path
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(place)
    connection = sqlite3.connect(f"file:{link}?mode=rw", uri=True)
    task.using(tx=connection).submit(1)
    connection.commit()
    connection.close()
    assert (await store.census()).total() == 1


def test_a_store_in_memory_is_refused() -> None:
    app = Rota(":memory:")
    connection = sqlite3.connect(":memory:")
    with pytest.raises(InvalidRequest, match="a store in memory has no connection but its own; use a file"):
        shipping(app).using(tx=connection).submit(1)
    connection.close()


@pytest.fixture
async def committing(way: Way, place: str, store: Store) -> AsyncIterator[Caller]:
    """Return a connection that commits every statement by itself."""
    del store
    async with way.connect(place) as caller:
        match way:
            case _ if way is SQLITE3:
                caller.tx.isolation_level = None
            case _ if way is PSYCOPG:
                caller.tx.autocommit = True
            case _ if way is ASYNC_PSYCOPG:
                await caller.tx.set_autocommit(True)
            case _ if way is PYMYSQL:
                caller.tx.autocommit(True)  # noqa: FBT003 - PyMySQL's
            case _ if way is ASYNCMY:
                await caller.tx.autocommit(True)  # noqa: FBT003 - asyncmy's
        yield caller


async def test_without_a_transaction_there_is_nothing_to_be_a_part_of(
    committing: Caller, task: Ship, store: Store
) -> None:
    with pytest.raises(InvalidRequest, match=r"commits each statement by itself.*(open one|BEGIN|begin)"):
        await committing.submit(task, 1)
    assert (await store.census()).total() == 0


async def test_a_transaction_that_was_begun_by_hand_is_one(committing: Caller, task: Ship, store: Store) -> None:
    await committing.execute("BEGIN")
    await committing.submit(task, 1)
    await committing.execute("ROLLBACK")
    await committing.execute("BEGIN")
    await committing.submit(task, 2)
    await committing.execute("COMMIT")
    assert (await store.census()).total() == 1


@pytest.fixture
def file_app(tmp_path: Path) -> Iterator[Rota]:
    app = Rota(str(tmp_path / "rota.db"))
    app.portal.call(app.link())
    yield app
    app.close()


@pytest.mark.parametrize("thing", ["rota.db", 5, object(), [], {"a": 1}], ids=lambda thing: type(thing).__name__)
def test_what_is_no_connection_is_refused_with_all_that_are(file_app: Rota, thing: object) -> None:
    with pytest.raises(InvalidRequest, match=r"tx: builtins\.\w+ is not a known connection; pass one of: sqlite3"):
        shipping(file_app).using(tx=thing).submit(1)


async def _count(app: Rota) -> int:
    return (await (await app.control()).census()).total()


def test_calls_of_different_transactions_are_refused(file_app: Rota, tmp_path: Path) -> None:
    task = shipping(file_app)
    first, second = (sqlite3.connect(tmp_path / "rota.db") for _ in range(2))
    mine, yours, plain = task.using(tx=first).call(1), task.using(tx=second).call(2), task.call(3)
    for calls, tx in (([mine, yours], None), ([mine], second), ([mine, plain], None), ([plain, yours], first)):
        with pytest.raises(InvalidRequest, match="not all for the same transaction"):
            file_app.submit_many(calls, tx=tx)
    assert len(file_app.submit_many([mine, plain], tx=first)) == 2
    assert len(file_app.submit_many([mine])) == 1
    assert file_app.submit_many([], tx=first) == []
    first.commit()
    assert file_app.portal.call(_count(file_app)) == 3
    first.close()
    second.close()


def test_a_transaction_is_given_to_a_submission_and_to_nothing_else(file_app: Rota) -> None:
    task = shipping(file_app)
    connection = sqlite3.connect(":memory:")
    with pytest.raises(InvalidRequest, match="task 'late': tx: it belongs to one submission"):

        @file_app.task(tx=connection)
        def late() -> None: ...

    with pytest.raises(InvalidRequest, match="on_success: a follow-up takes no tx"):
        task.using(on_success=task.using(tx=connection).call(2)).submit(1)
    connection.close()


async def test_a_session_that_stands_on_an_async_driver_is_refused_by_the_blocking_verb() -> None:
    async with new_database(shared_server()) as place:
        engine = create_async_engine(place.replace("postgresql://", "postgresql+asyncpg://"))
        task = shipping(Rota(place))
        async with AsyncSession(engine) as session:

            def inside(blocking: Session) -> None:
                task.using(tx=blocking).submit(1)

            with pytest.raises(InvalidRequest, match=r"uses \(asyncpg connection\) is async; .* use asubmit"):
                await session.run_sync(inside)
        await engine.dispose()


def test_no_driver_is_imported_by_us(file_app: Rota) -> None:
    """Recognising a connection by its class leaves it to its owner to have imported the driver."""
    for lookalike in ("asyncpg", "psycopg", "pymysql", "asyncmy", "sqlalchemy"):
        stranger: Any = type("Connection", (), {"__module__": "nowhere." + lookalike})()
        with pytest.raises(InvalidRequest, match="is not a known connection"):
            shipping(Rota(file_app.url)).using(tx=stranger).submit(1)


def test_a_submission_within_a_transaction_opens_nothing(file_app: Rota, tmp_path: Path) -> None:
    """A program that only submits so has no thread, no loop and no connection of Rota's."""
    app = Rota(file_app.url)
    connection = sqlite3.connect(tmp_path / "rota.db")
    handle = shipping(app).using(tx=connection).submit(1)
    assert app.gateway._portal is None
    with pytest.raises(RotaError, match="its transaction has not committed"):
        _ = handle.state
    connection.commit()
    assert handle.state is State.PENDING
    connection.close()
    app.close()


def test_a_closed_connection_raises_its_driver_s_own_error(file_app: Rota, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "rota.db")
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError):
        shipping(file_app).using(tx=connection).submit(1)


def test_a_session_of_sqlalchemy_that_commits_by_itself_is_refused(file_app: Rota, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'rota.db'}", isolation_level="AUTOCOMMIT")
    with Session(engine) as session, pytest.raises(InvalidRequest, match="commits each statement by itself"):
        shipping(file_app).using(tx=session).submit(1)
    engine.dispose()
