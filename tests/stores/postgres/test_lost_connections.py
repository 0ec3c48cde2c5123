"""Lost connections, restarts and conflicts, and what callers see of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from builders import SECOND, claim, new_job, new_jobs
from rota.core.cluster import MemberHeartbeat
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.ports.store import Receipt
from rota.runtime.membership import ANSWER_SECONDS
from rota.stores.postgres import PostgresStore, session
from rota.stores.postgres import connection as connection_module
from rota.stores.postgres.connection import Connector
from rota.stores.postgres.database import Database
from rota.stores.postgres.session import Session
from servers.postgres import PostgresServer, require_binaries, shared_server
from servers.proxies import Proxy


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Another session in the same database."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    database = Database(Connector(dsn))
    yield database
    await database.close()


async def end_all_connections(other: asyncpg.Connection) -> None:
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


async def test_connections_ended_by_the_server_are_replaced_unnoticed(
    store: PostgresStore, other: asyncpg.Connection
) -> None:
    for _ in range(3):
        await store.insert([new_job()])
        await store.census()
        idle = [*store._database.writers._idle, *store._database.readers._idle]
        await end_all_connections(other)
        async with asyncio.timeout(10):
            while not all(session.connection.is_closed() for session in idle):
                await other.fetchval("SELECT 1")
    assert (await store.census()).total() == 3


async def test_a_transaction_that_is_lost_before_its_commit_is_run_again(
    database: Database, other: asyncpg.Connection
) -> None:
    runs = 0

    async def verb(session: Session) -> int:
        nonlocal runs
        runs += 1
        await session.values("now")
        if runs == 1:
            await end_all_connections(other)
        await session.values("now")
        return runs

    assert await database.write(verb) == 2


async def test_a_transaction_whose_commit_may_have_happened_is_not_run_again(
    database: Database, other: asyncpg.Connection
) -> None:
    """Run again, it could happen twice; only the caller knows whether that matters."""
    await other.execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';"
        " CREATE CONSTRAINT TRIGGER die AFTER INSERT ON rota_leader DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION die()"
    )
    runs = 0

    async def verb(session: Session) -> None:
        nonlocal runs
        runs += 1
        await session.put("insert_leadership", name="upkeep", holder="a", until=1)

    try:
        with pytest.raises(StoreUnavailable):
            await database.write(verb)
    finally:
        await other.execute("DROP TRIGGER die ON rota_leader; DROP FUNCTION die")
    assert runs == 1


async def test_a_statement_whose_answer_was_lost_is_not_run_again(database: Database) -> None:
    runs = 0

    async def verb(session: Session) -> None:
        nonlocal runs
        runs += 1
        await session.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreUnavailable):
        await database.alone(verb)
    assert runs == 1


async def test_two_transactions_in_a_deadlock_both_succeed(database: Database, store: PostgresStore) -> None:
    await asyncio.gather(*(store.lead(name, "a", SECOND) for name in ("left", "right")))
    both_hold_one = asyncio.Barrier(2)
    waits = 0

    async def verb(session: Session, first: str, second: str) -> str:
        nonlocal waits
        await session.run("resign_leadership", first, "a")
        waits += 1
        if waits <= 2:
            await both_hold_one.wait()
        await session.run("resign_leadership", second, "a")
        return first

    done = await asyncio.gather(database.write(verb, "left", "right"), database.write(verb, "right", "left"))
    assert list(done) == ["left", "right"]
    assert waits == 3


async def test_a_lost_server_raises_store_unavailable_and_is_used_again_when_it_is_back() -> None:
    server = PostgresServer(require_binaries(), {"fsync": "off"})
    try:
        store = await PostgresStore.open(server.dsn())
        await store.insert(new_jobs(3))
        server.kill()
        for call in (store.census, lambda: store.insert([new_job()]), lambda: store.claim(claim()), store.time):
            with pytest.raises(StoreUnavailable):
                await call()
        server.start()
        assert len(await store.claim(claim())) == 3
        await store.close()
    finally:
        server.remove()


async def test_a_server_without_free_connections_is_unavailable_until_there_is_one(
    dsn: str, other: asyncpg.Connection
) -> None:
    await other.execute("CREATE ROLE guest LOGIN CONNECTION LIMIT 1; GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
    hers = dsn.replace("rota@", "guest@")
    try:
        guest = await asyncpg.connect(hers)
        with pytest.raises(StoreUnavailable, match="too many connections"):
            await PostgresStore.open(hers)
        await guest.close()
        database = Database(Connector(hers))
        assert await database.read(_one) == 1
        await database.close()
    finally:
        await other.execute("DROP OWNED BY guest; DROP ROLE guest")


async def _one(session: Session) -> int:
    ((value,),) = await session.fetch("SELECT 1")
    return int(value)


async def test_of_several_hosts_the_one_that_takes_writes_is_used(dsn: str) -> None:
    standby = PostgresServer(require_binaries(), {"fsync": "off", "default_transaction_read_only": "on"})
    try:
        name = dsn.rpartition("/")[2]
        connection = await asyncpg.connect(standby.dsn(), server_settings={"default_transaction_read_only": "off"})
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()
        hosts = f"127.0.0.1:1,127.0.0.1:{standby.port},127.0.0.1:{shared_server().port}"
        store = await PostgresStore.open(f"postgresql://rota@{hosts}/{name}")
        (answer,) = await store.insert([new_job()])
        assert answer.receipt is Receipt.CREATED
        await store.close()
        with pytest.raises(StoreUnavailable):
            await PostgresStore.open(standby.dsn(name))
    finally:
        standby.remove()


async def test_a_half_open_connection_is_given_up(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "COMMAND_SECONDS", 0.3)
    monkeypatch.setattr(connection_module, "CONNECT_SECONDS", 0.3)
    with Proxy(shared_server().port) as proxy:
        store = await PostgresStore.open(proxy.through(dsn))
        await store.insert([new_job()])
        proxy.swallow()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await store.insert([new_job()])
        proxy.forward()
        await store.insert([new_job()])
        assert (await store.census()).total() == 2
        await store.close()


async def test_a_silent_server_costs_one_deadline_and_not_one_for_each_connection(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that checks in was silent for twice as long, and taken for gone."""
    assert session.COMMAND_SECONDS * session.SILENT_FROM < ANSWER_SECONDS
    monkeypatch.setattr(session, "COMMAND_SECONDS", 0.4)
    monkeypatch.setattr(session, "LEAVE_SECONDS", 0.1)
    heartbeat = MemberHeartbeat((), "upkeep")
    with Proxy(shared_server().port) as proxy:
        store = await PostgresStore.open(proxy.through(dsn))
        await asyncio.gather(*(store.check_in(heartbeat) for _ in range(3)))
        assert len(store._database.writers._idle) > 1
        proxy.lose_all()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await store.check_in(heartbeat)
        async with asyncio.timeout(10):
            await store.check_in(heartbeat)
        await store.close()


async def test_a_caller_with_its_own_timeout_sees_that_timeout(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our deadline passed while the connection was closed after theirs, and their task ended as if cancelled."""
    monkeypatch.setattr(session, "COMMAND_SECONDS", 0.3)
    monkeypatch.setattr(session, "LEAVE_SECONDS", 1.5)
    with Proxy(shared_server().port) as proxy:
        store = await PostgresStore.open(proxy.through(dsn))
        heartbeat = MemberHeartbeat((), "upkeep")
        await store.check_in(heartbeat)
        proxy.lose_all()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await store.check_in(heartbeat)
        await store.close()


async def test_a_server_that_vanishes_during_the_first_connection_is_given_up(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "CONNECT_SECONDS", 0.3)
    with Proxy(shared_server().port) as proxy:
        connector = Connector(proxy.through(dsn))
        fetchrow = asyncpg.Connection.fetchrow

        async def vanishing(connection: asyncpg.Connection, *arguments: str) -> object:
            proxy.swallow()
            return await fetchrow(connection, *arguments)

        monkeypatch.setattr(asyncpg.Connection, "fetchrow", vanishing)
        meeting = asyncio.ensure_future(connector())
        done, _ = await asyncio.wait([meeting], timeout=20)
        meeting.cancel()
        assert done
        assert isinstance(meeting.exception(), TimeoutError)


async def test_a_cancelled_caller_does_not_return_its_connection(
    store: PostgresStore, other: asyncpg.Connection
) -> None:
    await store.insert(new_jobs(3))
    async with other.transaction():
        await other.execute("LOCK TABLE rota_job IN ACCESS EXCLUSIVE MODE")
        calls = [asyncio.ensure_future(store.claim(claim(limit=1))) for _ in range(3)]
        async with asyncio.timeout(10):
            while await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < 1:
                pass
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert len(await store.claim(claim())) == 3


async def test_a_value_that_cannot_be_stored_is_an_invalid_request(store: PostgresStore) -> None:
    with pytest.raises(InvalidRequest, match="cannot store"):
        await store.insert([new_job(payload='"\ud800"')])
    with pytest.raises(InvalidRequest, match="cannot store"):
        await store.insert([new_job(payload='"\0"')])


async def test_a_wrong_address_is_store_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        await PostgresStore.open("postgresql://rota@127.0.0.1:1/nowhere")
    with pytest.raises(StoreUnavailable, match="nowhere"):
        await PostgresStore.open(shared_server().dsn("nowhere"))


async def test_the_server_clock_decides_about_leases(store: PostgresStore, other: asyncpg.Connection) -> None:
    before = await other.fetchval("SELECT clock_timestamp()")
    answer = await store.time()
    await store.insert([new_job()])
    (held,) = await store.claim(claim())
    after_it = await other.fetchval("SELECT clock_timestamp()")
    assert held.started_at is not None
    assert before <= answer <= held.created_at <= held.started_at <= after_it
