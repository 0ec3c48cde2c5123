"""Faults between the store and the server, and the errors that callers get: as few as possible."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from builders import claim, ids_of, key, means, new_job, new_jobs
from rota.core.cluster import MemberHeartbeat
from rota.core.decision import decide
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.queue import Lane
from rota.core.time import to_micros
from rota.ports.store import Receipt
from rota.runtime.membership import ANSWER_SECONDS
from rota.stores.mysql import MysqlStore, driver, insert, pool
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.errors import ConnectionLost, RetryTransaction
from rota.stores.mysql.insert import MIN_SHARED_JOBS
from rota.stores.mysql.lanes import MIN_RANGE
from rota.stores.mysql.location import location_of
from rota.stores.mysql.pool import Pool
from rota.stores.mysql.statements import statement
from servers.mariadb import MariadbServer, require_binary, shared_server
from servers.proxies import Proxy


@pytest.fixture
async def other(url: str, store: MysqlStore) -> AsyncIterator[MysqlConnection]:
    """Another connection to the same database, once it has its tables."""
    del store
    connection = await connect(location_of(url), "other", autocommit=False)
    yield connection
    await connection.rollback()
    await connection.close()


def end_all_connections(url: str) -> None:
    server, database = shared_server(), location_of(url).database
    found = server.execute(f"SELECT id FROM information_schema.processlist WHERE db = '{database}'")  # noqa: S608
    for number in found.split():
        try:
            server.execute(f"KILL {number}")
        except subprocess.CalledProcessError as error:
            # A connection that ended by itself meanwhile needs no ending.
            if "Unknown thread id" not in error.stderr:
                raise


async def test_connections_that_the_server_has_ended_are_made_again_unnoticed(url: str, store: MysqlStore) -> None:
    for _ in range(3):
        await store.insert([new_job()])
        await store.census()
        end_all_connections(url)
    assert (await store.census()).total() == 3


async def test_a_transaction_that_is_lost_before_its_commit_is_run_again(url: str) -> None:
    pool = Pool(location_of(url), 1, autocommit=False)
    runs = 0

    async def verb(connection: MysqlConnection) -> int:
        nonlocal runs
        runs += 1
        await connection.rows("SELECT 1")
        if runs == 1:
            end_all_connections(url)
        await connection.rows("SELECT 1")
        return runs

    assert await pool.run(verb) == 2
    await pool.close()


async def test_a_transaction_whose_commit_may_have_happened_is_not_run_again(url: str) -> None:
    """Run again, it could happen twice; only the caller knows whether that matters."""
    pool = Pool(location_of(url), 1, autocommit=False)
    runs = 0

    async def verb(connection: MysqlConnection) -> None:
        nonlocal runs
        runs += 1

        async def lose() -> None:
            raise ConnectionLost("cut off while the commit was under way")

        connection.commit = lose  # type: ignore[method-assign]

    with pytest.raises(StoreUnavailable, match="outcome unknown"):
        await pool.run(verb)
    assert runs == 1
    await pool.close()


async def test_a_transaction_that_yields_is_run_again_until_it_holds(url: str) -> None:
    pool = Pool(location_of(url), 1, autocommit=False)
    runs = 0

    async def verb(connection: MysqlConnection) -> int:
        nonlocal runs
        del connection
        runs += 1
        if runs < 5:
            raise RetryTransaction("deadlock")
        return runs

    assert await pool.run(verb) == 5
    await pool.close()


async def test_a_deadlock_is_not_seen_by_the_caller(store: MysqlStore, other: MysqlConnection) -> None:
    """Two transactions that want each other's rows: the server ends one, and it is ours as often as not."""
    first, second = new_jobs(2)
    await store.insert([first, second])
    held = {job.id: job for job in await store.claim(claim())}
    for _ in range(5):
        await other.rows("SELECT id FROM rota_lease WHERE id = %(id)s FOR UPDATE", {"id": second.id})
        asking = asyncio.ensure_future(
            store.ask_cancel([(job.id, job.fence) for job in (held[first.id], held[second.id])])
        )
        # Until the store has the first and waits for the second.
        while (await other.rows("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"))[0][1] == "0":  # noqa: ASYNC110 - only the server knows
            await asyncio.sleep(0.005)
        with suppress(RetryTransaction):
            await other.rows("SELECT id FROM rota_lease WHERE id = %(id)s FOR UPDATE", {"id": first.id})
        await other.rollback()
        assert await asking == [first.id, second.id]


async def test_a_claim_passes_by_what_others_have_locked(store: MysqlStore, other: MysqlConnection) -> None:
    jobs = new_jobs(6)
    await store.insert(jobs)
    await other.rows("SELECT id FROM rota_ready WHERE id IN %(ids)s FOR UPDATE", {"ids": tuple(ids_of(jobs[:3]))})
    got = await asyncio.wait_for(store.claim(claim()), 4)
    assert ids_of(got) == ids_of(jobs[3:])


async def test_a_claim_with_gaps_in_its_range_takes_no_jobs_of_others(
    store: MysqlStore, other: MysqlConnection
) -> None:
    """A range is deleted as a whole only if all its jobs were locked."""
    jobs = new_jobs(2 * MIN_RANGE)
    await store.insert(jobs)
    await other.rows("SELECT id FROM rota_ready WHERE id IN %(ids)s FOR UPDATE", {"ids": tuple(ids_of(jobs[1::3]))})
    got = await asyncio.wait_for(store.claim(claim()), 4)
    assert ids_of(got) == [job.id for number, job in enumerate(jobs) if number % 3 != 1]
    await other.rollback()
    assert ids_of(await store.claim(claim())) == ids_of(jobs[1::3])
    assert await store.check() == []


async def test_a_job_inserted_into_the_range_of_a_claim_is_not_lost(
    store: MysqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is within the deleted range, and would be deleted too without the list of ids."""
    early, late = new_job(priority=5), new_jobs(MIN_RANGE, priority=5)
    await store.insert([early])
    await store.insert(late)
    beside = await MysqlStore.open(url)
    between = new_job(priority=5, id=early.id + 1)
    look_at = MysqlConnection.prepared_rows
    comes = True

    async def prepared_rows(self: MysqlConnection, sql: str, parameters: Any) -> Any:  # noqa: ANN401
        nonlocal comes
        found = await look_at(self, sql, parameters)
        if sql == statement("read_claimed_range") and comes:
            comes = False
            # A turn between the two, as that of a job which was sent back.
            moment = (await store.get([early.id]))[0].created_at
            await beside.insert([between], now=moment)
        return found

    monkeypatch.setattr(MysqlConnection, "prepared_rows", prepared_rows)
    got = await store.claim(claim())
    monkeypatch.undo()
    assert not comes
    assert ids_of(got) == ids_of([early, *late])
    assert ids_of(await store.claim(claim())) == [between.id]
    assert await store.check() == []
    await beside.close()


@pytest.mark.parametrize("is_dispatched", [False, True])
async def test_a_claim_does_not_wait_for_an_uncommitted_job_between_its_jobs(
    store: MysqlStore, other: MysqlConnection, *, is_dispatched: bool
) -> None:
    """All claims of a lane waited for a caller with an open transaction, and failed after 20 s."""
    early, between, late = new_jobs(MIN_RANGE), new_job(), new_jobs(MIN_RANGE)
    await store.insert(early)
    await insert.insert(other, [between], None, to_micros(await store.time()))
    await store.insert(late)
    async with asyncio.timeout(driver.LOCK_WAIT_SECONDS / 2):
        if is_dispatched:
            got = [one.job_id for one in await store.dispatch({Lane("default", "mail"): 100})]
        else:
            got = ids_of(await store.claim(claim()))
    assert got == ids_of([*early, *late])
    ((patience,),) = await store._writers.run(MysqlConnection.rows, "SELECT @@innodb_lock_wait_timeout")
    assert patience == driver.LOCK_WAIT_SECONDS
    await other.commit()
    assert ids_of(await store.claim(claim())) == [between.id]
    assert await store.check() == []


async def test_a_key_that_is_taken_between_the_look_and_the_write_is_answered(
    store: MysqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen a second time before the write, it was taken for one that has been kept long enough, and taken over."""
    first, second = new_job(idempotency=key("k")), new_job(idempotency=key("k"))
    beside = await MysqlStore.open(url)
    rows_of = MysqlConnection.rows
    comes = True

    async def rows(self: MysqlConnection, sql: str, parameters: Any = None) -> Any:  # noqa: ANN401
        nonlocal comes
        found = await rows_of(self, sql, parameters)
        if "FROM rota_idempotency" in sql and comes:
            comes = False
            await beside.insert([first])
        return found

    monkeypatch.setattr(MysqlConnection, "rows", rows)
    (answer,) = await store.insert([second])
    assert not comes
    assert (answer.job_id, answer.receipt) == (first.id, Receipt.REPLAYED)
    await beside.close()


async def test_many_settlers_beside_each_other_do_not_hinder_each_other(store: MysqlStore, url: str) -> None:
    """Small tables were scanned, and every scan waited for the others' rows: a deadlock for each second batch."""
    stores = [await MysqlStore.open(url) for _ in range(3)]
    await store.insert(new_jobs(120))

    async def work(each: MysqlStore) -> int:
        done = 0
        while held := await each.claim(claim(limit=3)):
            done += len(await each.settle([decide(job, Succeeded(), means()) for job in held]))
        return done

    before = int(shared_server().execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").split()[1])
    done = await asyncio.gather(*(work(each) for each in (store, *stores)))
    after = int(shared_server().execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").split()[1])
    assert sum(done) == 120
    assert after - before <= 2
    for each in stores:
        await each.close()


async def test_a_row_that_is_locked_for_long_is_said_to_be_unavailable(
    store: MysqlStore, other: MysqlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.stores.mysql.pool.RETRY_SECONDS", 0.1)
    monkeypatch.setattr("rota.stores.mysql.driver._SESSION", ("SET SESSION innodb_lock_wait_timeout = 1",))
    await store.insert([new_job()])
    (held,) = await store.claim(claim())
    await other.rows("SELECT id FROM rota_lease FOR UPDATE")
    with pytest.raises(StoreUnavailable, match="locks of other transactions"):
        await store.ask_cancel([(held.id, held.fence)])
    await other.rollback()
    assert await store.ask_cancel([(held.id, held.fence)]) == [held.id]


async def test_what_the_database_cannot_keep_is_refused_and_names_the_column(store: MysqlStore) -> None:
    with pytest.raises(InvalidRequest, match="'type'"):
        await store.insert([new_job("x" * 300)])
    (answer,) = await store.insert([new_job()])
    assert answer.receipt is Receipt.CREATED


async def test_a_server_that_is_away_is_unavailable_and_used_again_when_it_is_back() -> None:
    server = MariadbServer(require_binary())
    try:
        server.execute("CREATE DATABASE rota")
        store = await MysqlStore.open(server.url("rota"))
        job = new_job()
        await store.insert([job])
        server.stop()
        for call in (store.insert([new_job()]), store.claim(claim()), store.census()):
            with pytest.raises(StoreUnavailable):
                await call
        assert await store.check() != []
        server.start()
        (held,) = await store.claim(claim())
        assert (held.id, held.state) == (job.id, State.RUNNING)
        await store.close()
    finally:
        server.remove()


async def test_a_server_that_falls_silent_is_given_up(url: str, store: MysqlStore) -> None:
    del store
    connections = [await connect(location_of(url), "test", autocommit=True) for _ in range(3)]
    for connection in connections:
        connection._response_seconds = 0.1
    asked, deferred, many = connections
    with pytest.raises(ConnectionLost, match="no response"):
        await asked.rows("SELECT sleep(30)")
    deferred.defer("DO sleep(30)", {})
    with pytest.raises(ConnectionLost, match="no response"):
        await deferred.rows("SELECT 1")
    with pytest.raises(ConnectionLost, match="no response"):
        await many.many("INSERT INTO rota_queue_lock (queue) VALUES (concat(%s, sleep(30)))", [("a",), ("b",)])
    for connection in connections:
        with pytest.raises(ConnectionLost):
            await connection.rows("SELECT 1")
        connection.abandon()


async def test_one_answer_that_never_comes_is_waited_for_and_not_one_on_each_connection(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that checks in was silent for twice as long, and taken for gone."""
    assert pool.SUSPICIOUS_SECONDS < ANSWER_SECONDS
    monkeypatch.setattr(pool, "SUSPICIOUS_SECONDS", 0.2)
    heartbeat = MemberHeartbeat((), "upkeep")
    with Proxy(shared_server().port) as proxy:
        store = await MysqlStore.open(proxy.through(url))
        await asyncio.gather(*(store.check_in(heartbeat) for _ in range(3)))
        assert len(store._readers._idle) > 1
        proxy.lose_all()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await store.check_in(heartbeat)
        async with asyncio.timeout(10):
            await store.check_in(heartbeat)
        await store.close()


async def test_a_statement_that_waits_for_a_table_lock_gives_up_before_all_others_wait_behind_it(url: str) -> None:
    holding, changing = [await connect(location_of(url), "test", autocommit=True) for _ in range(2)]
    await holding.run("CREATE TABLE held_table (id BIGINT)")
    await holding.run("START TRANSACTION")
    await holding.rows("SELECT * FROM held_table")
    await changing.run("SET SESSION lock_wait_timeout = least(@@lock_wait_timeout, 1)")
    assert await holding.rows("SELECT @@lock_wait_timeout") == ((driver.LOCK_WAIT_SECONDS,),)
    with pytest.raises(RetryTransaction):
        await changing.run("ALTER TABLE held_table ADD COLUMN other BIGINT")
    await holding.run("DROP TABLE held_table")
    for connection in (holding, changing):
        await connection.close()


async def test_a_server_that_accepts_and_does_not_greet_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConnectionLost, match="no response"):
            await connect(location_of(f"mysql://root@127.0.0.1:{port}/rota"), "test", autocommit=True)


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StoreUnavailable, match=r"mysql://ada@127\.0\.0\.1:1/rota") as refusal:
        await MysqlStore.open("mysql://ada:s3cret@127.0.0.1:1/rota")
    assert "s3cret" not in str(refusal.value)


async def test_a_database_that_is_not_there_is_named() -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        await MysqlStore.open(shared_server().url("nowhere"))


async def test_a_closed_store_takes_nothing_more(url: str) -> None:
    store = await MysqlStore.open(url)
    await store.close()
    for call in (store.insert([new_job()]), store.claim(claim()), store.census()):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call


async def test_a_caller_that_goes_away_leaves_neither_locks_nor_a_confused_connection(store: MysqlStore) -> None:
    await store.insert(new_jobs(50))
    for _ in range(10):
        calls = [asyncio.ensure_future(store.claim(claim(limit=2))) for _ in range(6)]
        await asyncio.sleep(0.002)
        for call in calls[::2]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert await store.check() == []
    while await store.claim(claim(limit=10)):
        pass
    assert (await store.census()).total(State.RUNNING) == 50


async def test_the_clock_is_the_servers_whatever_its_time_zone(url: str, store: MysqlStore) -> None:
    del url
    server = shared_server()
    server.execute("SET GLOBAL time_zone = '+05:30'")
    try:
        job = new_job()
        await store.insert([job])
        (stored,) = await store.get([job.id])
        answer = server.execute("SELECT UNIX_TIMESTAMP(NOW(6))")
        assert abs(stored.created_at.timestamp() - float(answer)) < 5
    finally:
        server.execute("SET GLOBAL time_zone = 'SYSTEM'")


async def test_a_session_is_strict_whatever_the_server_is_set_to(url: str) -> None:
    server = shared_server()
    before = server.execute("SELECT @@GLOBAL.sql_mode").strip()
    server.execute("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
    try:
        store = await MysqlStore.open(url)
        job = new_job(queue="q'\\", payload='"\\\\ \' "')
        await store.insert([job])
        (held,) = await store.claim(claim(queues=(job.queue,)))
        assert (held.queue, held.payload) == (job.queue, job.payload)
        await store.close()
        # Of another kind, and the first that is said on a connection: the driver does not yet know how to quote.
        store = await MysqlStore.open(url)
        many = new_jobs(MIN_SHARED_JOBS, queue=job.queue, payload=job.payload)
        await store.insert(many)
        assert {(one.queue, one.payload) for one in await store.get(ids_of(many))} == {(job.queue, job.payload)}
        await store.close()
    finally:
        server.execute(f"SET GLOBAL sql_mode = '{before}'")


async def test_others_hear_of_work_and_not_of_its_end(store: MysqlStore, url: str) -> None:
    """A notification for every heartbeat and settlement would keep all idle workers busy."""
    listener = await MysqlStore.open(url)
    await store.insert([new_job()])
    changes = [await listener._watch.read()]
    (held,) = await store.claim(claim())
    changes.append(await listener._watch.read())
    await store.settle([decide(held, Succeeded(), means())])
    changes.append(await listener._watch.read())
    assert changes[0] == changes[1] == changes[2]
    await store.insert([new_job()])
    assert await listener._watch.read() != changes[2]
    await listener.close()
