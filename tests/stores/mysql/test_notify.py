"""Notifications: waiting listeners are woken, no other statement is killed, and others poll."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from builders import new_job, new_jobs
from rota.core.errors import StoreUnavailable
from rota.stores.mysql import MysqlStore, notify
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.statements import statement
from servers.mariadb import HASTY, MariadbServer, require_binary, shared_server

SOON = timedelta(seconds=60)
SHORT = timedelta(milliseconds=50)
EVERYBODY = (0, notify.MAX_SLOTS)
OpenStore = Callable[[], Awaitable[MysqlStore]]


@pytest.fixture
async def open_store(url: str) -> AsyncIterator[OpenStore]:
    async with AsyncExitStack() as stack:

        async def open_one() -> MysqlStore:
            store = await MysqlStore.open(url)
            stack.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def other(open_store: OpenStore) -> MysqlStore:
    return await open_store()


@pytest.fixture
async def stranger(url: str, store: MysqlStore) -> AsyncIterator[MysqlConnection]:
    del store
    connection = await connect(location_of(url), "stranger", autocommit=True)
    yield connection
    connection.abandon()


@pytest.fixture
def _nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn polling off, so that only wakes are noticed."""
    monkeypatch.setattr(notify, "MIN_SLOW_POLL_SECONDS", 3600.0)
    monkeypatch.setattr(notify, "MAX_SLOW_POLL_SECONDS", 3600.0)
    monkeypatch.setattr(notify, "CHECK_SECONDS", 30.0)


async def all_listening(*stores: MysqlStore) -> None:
    """Wait until stores can be woken and have received all earlier notifications."""
    async with asyncio.timeout(60):
        for store in stores:
            while await store.watch(SHORT) or not store._watch.listener.can_be_woken:
                pass


async def connection_of(stranger: MysqlConnection, store: MysqlStore) -> int:
    listener = store._watch.listener
    ((number,),) = await stranger.rows("SELECT IS_USED_LOCK(%(lock)s)", {"lock": f"{listener.prefix}{listener.slot}"})
    return int(number)


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)


async def is_deaf(store: MysqlStore) -> bool:
    return not store._watch.listener.can_be_woken


async def waits(stranger: MysqlConnection, number: int) -> object:
    """Whether a listener waits."""
    sql = "SELECT 1 FROM information_schema.processlist WHERE id = %(id)s AND state = 'User lock'"
    return await stranger.rows(sql, {"id": number})


@pytest.mark.usefixtures("_nobody_looks")
async def test_our_own_work_wakes_only_others(store: MysqlStore, other: MysqlStore) -> None:
    await all_listening(store, other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await store.insert([new_job()])
    assert await watching
    assert not await store.watch(SHORT)


async def test_a_waker_does_not_wake_itself(store: MysqlStore, other: MysqlStore) -> None:
    await all_listening(store)
    await all_listening(other)
    listener = store._watch.listener
    assert await store._readers.run(notify.wake_listeners, listener.prefix, EVERYBODY, listener.slot) == 1
    assert (
        await store._readers.run(notify.wake_listeners, listener.prefix, (listener.slot, listener.slot), listener.slot)
        == 0
    )


@pytest.mark.usefixtures("_nobody_looks")
async def test_no_notification_is_missed_however_closely_it_follows(
    store: MysqlStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notification between two waits must be seen before the next wait."""
    monkeypatch.setattr(notify, "WAKE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(notify, "MAX_WAKE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(notify, "MIN_POLL_SECONDS", 0.0)
    listeners = [await open_store() for _ in range(3)]
    await all_listening(*listeners)
    for _ in range(50):
        watching = [asyncio.ensure_future(listener.watch(SOON)) for listener in listeners]
        await store.insert([new_job()])
        assert all(await asyncio.gather(*watching))


@pytest.mark.usefixtures("_nobody_looks")
async def test_a_notification_without_a_watcher_is_told_to_the_next_one(store: MysqlStore, other: MysqlStore) -> None:
    await all_listening(other)
    await store.insert([new_job()])

    async def has_heard() -> bool:
        return other._watch.changes != other._watch._reported

    await until(has_heard)
    assert await other.watch(SHORT)


async def test_many_writes_share_few_wakes(
    store: MysqlStore, other: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_listening(other)
    monkeypatch.setattr(notify, "WAKE_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(notify, "MAX_WAKE_PAUSE_SECONDS", 3600.0)
    wakes: list[int] = []

    async def counted(*arguments: Any) -> int:  # noqa: ANN401 - as the original
        wakes.append(await original(*arguments))
        return wakes[-1]

    original = notify.wake_listeners
    monkeypatch.setattr(notify, "wake_listeners", counted)
    for _ in range(20):
        await store.insert([new_job()])
    assert len(wakes) <= 1
    await store.close()
    assert wakes == [1, 1], "the first goes at once, and who leaves wakes for the rest"


async def test_without_listeners_wakes_are_rare(store: MysqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "NO_LISTENER_SECONDS", 3600.0)
    await store.insert([new_job()])

    async def has_tried() -> bool:
        return store._notifier._next_at > float("-inf")

    await until(has_tried)
    await store.insert([new_job()])
    assert store._notifier._next_at > asyncio.get_running_loop().time() + 1800


async def test_only_waits_of_listeners_are_killed(
    url: str, store: MysqlStore, open_store: OpenStore, stranger: MysqlConnection
) -> None:
    """Others of the same user sleep, wait for locks and work in the same database, while listeners come and go."""
    listener = store._watch.listener
    bystanders = [await connect(location_of(url), "bystander", autocommit=True) for _ in range(3)]
    await stranger.rows("SELECT GET_LOCK('somebody else''s', 0)")
    statements = ("SELECT SLEEP(0.01)", "SELECT GET_LOCK('somebody else''s', 0.01)", "SELECT COUNT(*) FROM rota_job")
    is_over = False

    async def stand_by(connection: MysqlConnection, sql: str) -> int:
        done = 0
        while not is_over:
            await connection.rows(sql)
            done += 1
        return done

    async def no_slot_is_held() -> bool:
        woken: int = await store._readers.run(notify.wake_listeners, listener.prefix, EVERYBODY, notify.NO_SLOT)
        return woken == 0

    placement = [asyncio.ensure_future(stand_by(*each)) for each in zip(bystanders, statements, strict=True)]
    woken = 0
    for _ in range(5):
        opened = await open_store()
        await all_listening(opened)
        for _ in range(50):
            woken += await store._readers.run(notify.wake_listeners, listener.prefix, EVERYBODY, notify.NO_SLOT)
        await opened.close()
        # The server may take a moment to release the lock.
        await until(no_slot_is_held)
    is_over = True
    assert all(done > 0 for done in await asyncio.gather(*placement))
    assert woken >= 5
    for connection in bystanders:
        await connection.close()


async def test_a_waiting_listener_keeps_nothing_open(store: MysqlStore, stranger: MysqlConnection) -> None:
    """A transaction would stop the purge, a table in use would stop migrations."""
    await store.insert([new_job()])
    await all_listening(store)
    number = await connection_of(stranger, store)
    await until(lambda: waits(stranger, number))
    open_ones = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %(id)s"
    assert not await stranger.rows(open_ones, {"id": number})
    await stranger.run("SET SESSION lock_wait_timeout = 1")
    await stranger.run("ALTER TABLE rota_notification COMMENT = 'changed'")
    await stranger.run("ALTER TABLE rota_notification COMMENT = ''")


@pytest.mark.usefixtures("_nobody_looks")
async def test_a_listener_that_was_cut_off_listens_again(
    store: MysqlStore, other: MysqlStore, stranger: MysqlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "RECONNECT_SECONDS", 0.01)
    await all_listening(store)
    listener = store._watch.listener
    listener._reconnect_seconds = 0.01
    await stranger.run(f"KILL {await connection_of(stranger, store)}")
    await until(lambda: is_deaf(store))
    await all_listening(store)
    watching = asyncio.ensure_future(store.watch(SOON))
    await other.insert([new_job()])
    assert await watching


async def test_a_listener_that_fails_unexpectedly_listens_again(
    store: MysqlStore, stranger: MysqlConnection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await all_listening(store)
    listen, calls = notify.Listener._listen, 0

    async def fail_once(self: notify.Listener, connection: MysqlConnection) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("nobody expected this")
        await listen(self, connection)

    monkeypatch.setattr(notify.Listener, "_listen", fail_once)
    await stranger.run(f"KILL {await connection_of(stranger, store)}")

    async def is_begun_again() -> bool:
        return calls >= 2

    await until(is_begun_again)
    await all_listening(store)
    assert "nobody expected this" in caplog.text


@pytest.mark.usefixtures("_nobody_looks")
async def test_a_listener_whose_lock_became_free_starts_again(
    store: MysqlStore, other: MysqlStore, stranger: MysqlConnection
) -> None:
    """The connection that held the lock was cut off: then the listener gets it at once and cannot wait."""
    await all_listening(store)
    listener = store._watch.listener
    listener._reconnect_seconds = 0.01
    ((keeper,),) = await stranger.rows("SELECT IS_USED_LOCK(%(lock)s)", {"lock": listener.wait_lock})
    await stranger.run(f"KILL {keeper}")
    await until(lambda: is_deaf(store))
    await all_listening(store)
    watching = asyncio.ensure_future(store.watch(SOON))
    await other.insert([new_job()])
    assert await watching


async def test_all_listen_again_after_the_server_was_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MariadbServer(require_binary(), HASTY)
    try:
        server.execute("CREATE DATABASE rota")
        store, other = [await MysqlStore.open(server.url("rota")) for _ in range(2)]
        await all_listening(store, other)
        server.kill()
        server.start()
        async with asyncio.timeout(60):
            while not (store._watch.listener.can_be_woken and other._watch.listener.can_be_woken):
                try:
                    await asyncio.gather(store.watch(SHORT), other.watch(SHORT))
                except StoreUnavailable:
                    await asyncio.sleep(0.01)
        await all_listening(store, other)
        monkeypatch.setattr(notify, "MIN_SLOW_POLL_SECONDS", 3600.0)
        monkeypatch.setattr(notify, "MAX_SLOW_POLL_SECONDS", 3600.0)
        watching = asyncio.ensure_future(other.watch(SOON))
        await store.insert([new_job()])
        assert await watching
        for one in (store, other):
            await one.close()
    finally:
        server.remove()


@pytest.mark.usefixtures("_nobody_looks")
async def test_a_listener_moves_to_a_lower_slot_so_that_wakers_find_it(
    store: MysqlStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners = [await open_store() for _ in range(notify.MAX_EMPTY_SLOTS + 2)]
    for listener in listeners:
        await all_listening(listener)
    last = listeners[-1]
    assert [listener._watch.listener.slot for listener in listeners] == list(range(len(listeners)))
    monkeypatch.setattr(notify, "SLOT_CHECK_SECONDS", 0.0)
    for listener in listeners[:-1]:
        await listener.close()
    # It was not woken: too many slots before it are empty. At its next wake it moves.
    everybody = (last._watch.listener.slot,) * 2
    async with asyncio.timeout(60):
        while last._watch.listener.slot:
            await store._readers.run(notify.wake_listeners, last._watch.listener.prefix, everybody, notify.NO_SLOT)
            last._watch.listener._next_slot_check = float("-inf")
    watching = asyncio.ensure_future(last.watch(SOON))
    await store.insert([new_job()])
    assert await watching


async def test_a_listener_closes_its_connection_properly(
    open_store: OpenStore, stranger: MysqlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would write a warning into its log for each connection that is just gone."""
    listener = await open_store()
    await all_listening(listener)
    number = await connection_of(stranger, listener)
    await until(lambda: waits(stranger, number))
    abandoned: list[MysqlConnection] = []
    monkeypatch.setattr(MysqlConnection, "abandon", abandoned.append)
    # However slow the machine is.
    monkeypatch.setattr(notify, "CLOSE_SECONDS", 60.0)
    await listener.close()
    assert not abandoned
    assert listener._watch.listener.slot == notify.NO_SLOT
    monkeypatch.undo()

    async def is_gone() -> bool:
        found = await stranger.rows("SELECT 1 FROM information_schema.processlist WHERE id = %(id)s", {"id": number})
        return not found

    await until(is_gone)


async def test_a_process_that_cannot_be_woken_polls_often(
    store: MysqlStore, other: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a proxy to another server: no slot is held there."""
    tried = asyncio.Event()

    async def in_vain(*_arguments: object) -> int:
        tried.set()
        return 0

    monkeypatch.setattr(notify, "wake_listeners", in_vain)
    monkeypatch.setattr(notify, "WAKE_TEST_SECONDS", 0.05)
    assert not await store.watch(SHORT)
    async with asyncio.timeout(60):
        await tried.wait()
    await other.insert([new_job()])
    assert await store.watch(SOON)
    assert not store._watch.listener.can_be_woken
    assert store._watch._poll_pause(float("inf")) == notify.MAX_POLL_SECONDS


async def test_other_users_are_not_woken_and_poll_often_after_the_first_notification(
    url: str, store: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither may end the other's statements, nor is either disturbed by the attempt."""
    server, place = shared_server(), location_of(url)
    server.execute(
        "CREATE OR REPLACE USER ada IDENTIFIED BY 'a'",
        "CREATE OR REPLACE USER bob IDENTIFIED BY 'b'",
        f"GRANT ALL ON {place.database}.* TO ada, bob",
    )
    monkeypatch.setattr(notify, "WAKE_DELAY_SECONDS", 0.0)
    del store
    ada, bob = [
        await MysqlStore.open(f"mysql://{who}@{place.host}:{place.port}/{place.database}") for who in ("ada:a", "bob:b")
    ]
    await all_listening(ada, bob)
    assert bob._watch._poll_pause(float("inf")) == notify.MAX_SLOW_POLL_SECONDS
    await ada.insert([new_job()])
    assert await bob.watch(SOON)
    async with asyncio.timeout(60):
        while bob._watch._poll_pause(asyncio.get_running_loop().time()) > notify.MAX_POLL_SECONDS:
            await bob.watch(SHORT)
    assert bob._watch._polls_often_until > asyncio.get_running_loop().time()
    assert bob._watch.listener.can_be_woken
    for one in (ada, bob):
        await one.close()
    server.execute("DROP USER ada, bob")


async def test_a_listener_finds_a_notification_without_a_wake(
    store: MysqlStore, stranger: MysqlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a caller's transaction. Only the listener reads the table, and polling is frequent for a while."""
    monkeypatch.setattr(notify, "MIN_SLOW_POLL_SECONDS", 3600.0)
    monkeypatch.setattr(notify, "MAX_SLOW_POLL_SECONDS", 3600.0)
    monkeypatch.setattr(notify, "WAKE_DELAY_SECONDS", 0.0)
    await all_listening(store)
    number = await connection_of(stranger, store)
    await until(lambda: waits(stranger, number))
    reads: list[str] = []
    monkeypatch.setattr(store._watch, "read", reads.append)
    watching = asyncio.ensure_future(store.watch(SOON))
    await stranger.run("INSERT INTO rota_notification (origin, number, at) VALUES ('caller', 1, 1)")
    assert await watching
    assert not reads
    loop = asyncio.get_running_loop()
    assert store._watch._poll_pause(loop.time() + 0.1) <= notify.MAX_POLL_SECONDS
    assert store._watch._polls_often_until > loop.time()


async def test_an_idle_listener_sends_hardly_any_query(store: MysqlStore, stranger: MysqlConnection) -> None:
    """It looks many times within one statement: an idle process asks the server for little."""
    await all_listening(store)
    number = await connection_of(stranger, store)
    await until(lambda: waits(stranger, number))
    counting = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'"
    ((before,),) = await stranger.rows(counting)
    await asyncio.sleep(2.5 * notify.CHECK_SECONDS)
    ((after,),) = await stranger.rows(counting)
    assert int(after) - int(before) <= 2, "our own query, and perhaps one of the listener"


async def test_a_wake_soon_after_the_notification_is_trusted(store: MysqlStore) -> None:
    await all_listening(store)
    now = asyncio.get_running_loop().time()
    watcher = store._watch
    watcher._found_at = now
    watcher._on_wait_end(watcher._seen, notify.WOKEN)
    assert watcher._poll_pause(now + 2 * notify.WAKE_DELAY_SECONDS) > notify.MAX_POLL_SECONDS
    watcher._found_at = now
    watcher._on_wait_end(watcher._seen, notify.TIMED_OUT)
    assert watcher._poll_pause(now + 2 * notify.WAKE_DELAY_SECONDS) <= notify.MAX_POLL_SECONDS


async def test_mysql_has_no_such_statements_and_is_left_alone(
    store: MysqlStore, stranger: MysqlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.is_mariadb = False
    assert await notify.wake_listeners(stranger, "prefix", EVERYBODY, notify.NO_SLOT) == 0

    async def connected(*_arguments: object, **_options: object) -> MysqlConnection:
        return stranger

    monkeypatch.setattr(notify, "connect", connected)
    assert not await store.watch(SHORT)
    listener = store._watch.listener
    assert listener._listening is not None
    async with asyncio.timeout(60):
        await listener._listening
    assert not listener.can_be_woken


async def test_a_slot_is_taken_once(url: str, stranger: MysqlConnection) -> None:
    more = [await connect(location_of(url), "more", autocommit=True) for _ in range(2)]
    slots: list[object] = []
    for connection in (stranger, *more):
        slots += await connection.rows(statement("take_listener_slot"), {"prefix": "prefix ", "slot": notify.MAX_SLOTS})
    assert slots == [(0,), (1,), (2,)]
    await stranger.close()
    lower = {"prefix": "prefix ", "slot": 2}

    async def has_moved() -> bool:
        return await more[1].rows(statement("take_listener_slot"), lower) == ((0,),)

    await until(has_moved)
    ((holder, left),) = await more[0].rows("SELECT IS_USED_LOCK('prefix 0'), IS_USED_LOCK('prefix 2')")
    assert (holder is not None, left) == (True, None)
    for connection in more:
        await connection.close()


async def test_a_notification_of_many_jobs_arrives(store: MysqlStore, other: MysqlStore) -> None:
    await all_listening(other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await store.insert(new_jobs(500))
    assert await watching
