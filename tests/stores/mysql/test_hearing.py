"""Hearing: who waits is woken, nobody else ever is, and whoever cannot be woken looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from building import new_job, new_jobs
from rota.core.errors import StoreUnavailable
from rota.stores.mysql import MysqlStore, hearing, lookout
from rota.stores.mysql.driver import Connection, connect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.statements import statement
from servers.mariadb import HASTY, MariadbServer, require_binary, shared_server

SOON = timedelta(seconds=60)
SHORT = timedelta(milliseconds=50)
EVERYBODY = (0, hearing.MOST_SEATS)
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
async def stranger(url: str, store: MysqlStore) -> AsyncIterator[Connection]:
    del store
    connection = await connect(location_of(url), "stranger", autocommit=True)
    yield connection
    connection.abandon()


@pytest.fixture
def _nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only those be told who are woken."""
    monkeypatch.setattr(lookout, "SHORTEST_CALM_SECONDS", 3600.0)
    monkeypatch.setattr(lookout, "LONGEST_CALM_SECONDS", 3600.0)
    monkeypatch.setattr(hearing, "LOOK_SECONDS", 30.0)


async def all_ears(*stores: MysqlStore) -> None:
    """Wait until stores can be woken and have been told all there was."""
    async with asyncio.timeout(60):
        for store in stores:
            while await store.watch(SHORT) or not store._lookout.ear.is_hearing:
                pass


async def connection_of(stranger: Connection, store: MysqlStore) -> int:
    ear = store._lookout.ear
    ((number,),) = await stranger.rows("SELECT IS_USED_LOCK(%(seat)s)", {"seat": f"{ear.room}{ear.seat}"})
    return int(number)


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Wait for what only the server, or somebody's state, can tell."""
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)


async def is_deaf(store: MysqlStore) -> bool:
    return not store._lookout.ear.is_hearing


async def waits(stranger: Connection, number: int) -> object:
    """Say whether an ear has gone to wait."""
    sql = "SELECT 1 FROM information_schema.processlist WHERE id = %(id)s AND state = 'User lock'"
    return await stranger.rows(sql, {"id": number})


@pytest.mark.usefixtures("_nobody_looks")
async def test_our_own_work_wakes_only_others(store: MysqlStore, other: MysqlStore) -> None:
    await all_ears(store, other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await store.insert([new_job()])
    assert await watching
    assert not await store.watch(SHORT)


async def test_whoever_wakes_the_others_is_not_woken(store: MysqlStore, other: MysqlStore) -> None:
    await all_ears(store)
    await all_ears(other)
    ear = store._lookout.ear
    assert await store._readers.run(hearing.wake, ear.room, EVERYBODY, ear.seat) == 1
    assert await store._readers.run(hearing.wake, ear.room, (ear.seat, ear.seat), ear.seat) == 0


@pytest.mark.usefixtures("_nobody_looks")
async def test_nobody_misses_anything_however_closely_it_follows(
    store: MysqlStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rung while an ear is between two waits must be seen by it before it waits again."""
    monkeypatch.setattr(hearing, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(hearing, "LONGEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(lookout, "SHORTEST_GLANCE_SECONDS", 0.0)
    listeners = [await open_store() for _ in range(3)]
    await all_ears(*listeners)
    for _ in range(50):
        watching = [asyncio.ensure_future(listener.watch(SOON)) for listener in listeners]
        await store.insert([new_job()])
        assert all(await asyncio.gather(*watching))


@pytest.mark.usefixtures("_nobody_looks")
async def test_what_was_heard_while_nobody_watched_is_told_to_the_next_who_does(
    store: MysqlStore, other: MysqlStore
) -> None:
    await all_ears(other)
    await store.insert([new_job()])

    async def has_heard() -> bool:
        return other._lookout.changes != other._lookout._told

    await until(has_heard)
    assert await other.watch(SHORT)


async def test_many_writes_share_few_wakes(
    store: MysqlStore, other: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_ears(other)
    monkeypatch.setattr(hearing, "PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(hearing, "LONGEST_PAUSE_SECONDS", 3600.0)
    wakes: list[int] = []

    async def counted(*arguments: Any) -> int:  # noqa: ANN401 - as the original
        wakes.append(await original(*arguments))
        return wakes[-1]

    original = hearing.wake
    monkeypatch.setattr(hearing, "wake", counted)
    for _ in range(20):
        await store.insert([new_job()])
    assert len(wakes) <= 1
    await store.close()
    assert wakes == [1, 1], "the first goes at once, and who leaves wakes for the rest"


async def test_whoever_wakes_nobody_does_not_try_all_the_time(
    store: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "NOBODY_SECONDS", 3600.0)
    await store.insert([new_job()])

    async def has_tried() -> bool:
        return store._bell._next_at > float("-inf")

    await until(has_tried)
    await store.insert([new_job()])
    assert store._bell._next_at > asyncio.get_running_loop().time() + 1800


async def test_no_statement_but_an_ears_is_ever_ended(
    url: str, store: MysqlStore, open_store: OpenStore, stranger: Connection
) -> None:
    """Others of the same user sleep, wait for locks and work in the same database, while ears come and go."""
    ear = store._lookout.ear
    bystanders = [await connect(location_of(url), "bystander", autocommit=True) for _ in range(3)]
    await stranger.rows("SELECT GET_LOCK('somebody else''s', 0)")
    statements = ("SELECT SLEEP(0.01)", "SELECT GET_LOCK('somebody else''s', 0.01)", "SELECT COUNT(*) FROM job")
    is_over = False

    async def stand_by(connection: Connection, sql: str) -> int:
        done = 0
        while not is_over:
            await connection.rows(sql)
            done += 1
        return done

    async def nobody_sits() -> bool:
        woken: int = await store._readers.run(hearing.wake, ear.room, EVERYBODY, hearing.NOWHERE)
        return woken == 0

    standing = [asyncio.ensure_future(stand_by(*each)) for each in zip(bystanders, statements, strict=True)]
    woken = 0
    for _ in range(5):
        listener = await open_store()
        await all_ears(listener)
        for _ in range(50):
            woken += await store._readers.run(hearing.wake, ear.room, EVERYBODY, hearing.NOWHERE)
        await listener.close()
        # The server may take a moment to see an ear off.
        await until(nobody_sits)
    is_over = True
    assert all(done > 0 for done in await asyncio.gather(*standing))
    assert woken >= 5
    for connection in bystanders:
        await connection.close()


async def test_an_ear_that_waits_keeps_nothing_open(store: MysqlStore, stranger: Connection) -> None:
    """A transaction would stop the purge, a table in use would stop migrations."""
    await store.insert([new_job()])
    await all_ears(store)
    number = await connection_of(stranger, store)
    await until(lambda: waits(stranger, number))
    open_ones = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %(id)s"
    assert not await stranger.rows(open_ones, {"id": number})
    await stranger.run("SET SESSION lock_wait_timeout = 1")
    await stranger.run("ALTER TABLE bell COMMENT = 'changed'")
    await stranger.run("ALTER TABLE bell COMMENT = ''")


@pytest.mark.usefixtures("_nobody_looks")
async def test_an_ear_that_was_cut_off_hears_again(
    store: MysqlStore, other: MysqlStore, stranger: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "DEAF_SECONDS", 0.01)
    await all_ears(store)
    ear = store._lookout.ear
    ear._deaf_seconds = 0.01
    await stranger.run(f"KILL {await connection_of(stranger, store)}")
    await until(lambda: is_deaf(store))
    await all_ears(store)
    watching = asyncio.ensure_future(store.watch(SOON))
    await other.insert([new_job()])
    assert await watching


@pytest.mark.usefixtures("_nobody_looks")
async def test_an_ear_whose_bed_is_no_longer_kept_makes_it_anew(
    store: MysqlStore, other: MysqlStore, stranger: Connection
) -> None:
    """Whoever kept it was cut off: then there is nothing to wait for, and no waiting."""
    await all_ears(store)
    ear = store._lookout.ear
    ear._deaf_seconds = 0.01
    ((keeper,),) = await stranger.rows("SELECT IS_USED_LOCK(%(bed)s)", {"bed": ear.bed})
    await stranger.run(f"KILL {keeper}")
    await until(lambda: is_deaf(store))
    await all_ears(store)
    watching = asyncio.ensure_future(store.watch(SOON))
    await other.insert([new_job()])
    assert await watching


async def test_all_hear_again_after_the_server_was_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MariadbServer(require_binary(), HASTY)
    try:
        server.execute("CREATE DATABASE rota")
        store, other = [await MysqlStore.open(server.url("rota")) for _ in range(2)]
        await all_ears(store, other)
        server.kill()
        server.start()
        async with asyncio.timeout(60):
            while not (store._lookout.ear.is_hearing and other._lookout.ear.is_hearing):
                try:
                    await asyncio.gather(store.watch(SHORT), other.watch(SHORT))
                except StoreUnavailable:
                    await asyncio.sleep(0.01)
        await all_ears(store, other)
        monkeypatch.setattr(lookout, "SHORTEST_CALM_SECONDS", 3600.0)
        monkeypatch.setattr(lookout, "LONGEST_CALM_SECONDS", 3600.0)
        watching = asyncio.ensure_future(other.watch(SOON))
        await store.insert([new_job()])
        assert await watching
        for one in (store, other):
            await one.close()
    finally:
        server.remove()


@pytest.mark.usefixtures("_nobody_looks")
async def test_an_ear_moves_to_a_lower_seat_so_that_whoever_wakes_finds_it(
    store: MysqlStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners = [await open_store() for _ in range(hearing.GAP + 2)]
    for listener in listeners:
        await all_ears(listener)
    last = listeners[-1]
    assert [listener._lookout.ear.seat for listener in listeners] == list(range(len(listeners)))
    monkeypatch.setattr(hearing, "MOVE_SECONDS", 0.0)
    for listener in listeners[:-1]:
        await listener.close()
    # It was not woken: too many seats before it are empty. When it next wakes it sits elsewhere.
    everybody = (last._lookout.ear.seat,) * 2
    async with asyncio.timeout(60):
        while last._lookout.ear.seat:
            await store._readers.run(hearing.wake, last._lookout.ear.room, everybody, hearing.NOWHERE)
            last._lookout.ear._moves_at = float("-inf")
    watching = asyncio.ensure_future(last.watch(SOON))
    await store.insert([new_job()])
    assert await watching


async def test_an_ear_that_goes_says_so_and_leaves_nothing_behind(
    open_store: OpenStore, stranger: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would write a warning into its log for each connection that is just gone."""
    listener = await open_store()
    await all_ears(listener)
    number = await connection_of(stranger, listener)
    await until(lambda: waits(stranger, number))
    abandoned: list[Connection] = []
    monkeypatch.setattr(Connection, "abandon", abandoned.append)
    # However slow the machine is.
    monkeypatch.setattr(hearing, "GOODBYE_SECONDS", 60.0)
    await listener.close()
    assert not abandoned
    assert listener._lookout.ear.seat == hearing.NOWHERE
    monkeypatch.undo()

    async def is_gone() -> bool:
        found = await stranger.rows("SELECT 1 FROM information_schema.processlist WHERE id = %(id)s", {"id": number})
        return not found

    await until(is_gone)


async def test_who_cannot_be_woken_looks_as_often_as_ever(
    store: MysqlStore, other: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a proxy that leads elsewhere: nobody is found on the seats."""
    tried = asyncio.Event()

    async def in_vain(*_arguments: object) -> int:
        tried.set()
        return 0

    monkeypatch.setattr(hearing, "wake", in_vain)
    monkeypatch.setattr(hearing, "ECHO_SECONDS", 0.05)
    assert not await store.watch(SHORT)
    async with asyncio.timeout(60):
        await tried.wait()
    await other.insert([new_job()])
    assert await store.watch(SOON)
    assert not store._lookout.ear.is_hearing
    assert store._lookout._pause(float("inf")) == lookout.LONGEST_GLANCE_SECONDS


async def test_other_users_are_not_woken_and_look_often_once_something_came_so(
    url: str, store: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither may end the other's statements, nor is either disturbed by the attempt."""
    server, place = shared_server(), location_of(url)
    server.execute(
        "CREATE OR REPLACE USER ada IDENTIFIED BY 'a'",
        "CREATE OR REPLACE USER bob IDENTIFIED BY 'b'",
        f"GRANT ALL ON {place.database}.* TO ada, bob",
    )
    monkeypatch.setattr(lookout, "LATE_SECONDS", 0.0)
    del store
    ada, bob = [
        await MysqlStore.open(f"mysql://{who}@{place.host}:{place.port}/{place.database}") for who in ("ada:a", "bob:b")
    ]
    await all_ears(ada, bob)
    assert bob._lookout._pause(float("inf")) == lookout.LONGEST_CALM_SECONDS
    await ada.insert([new_job()])
    assert await bob.watch(SOON)
    async with asyncio.timeout(60):
        while bob._lookout._pause(asyncio.get_running_loop().time()) > lookout.LONGEST_GLANCE_SECONDS:
            await bob.watch(SHORT)
    assert bob._lookout._mistrusts_until > asyncio.get_running_loop().time()
    assert bob._lookout.ear.is_hearing
    for one in (ada, bob):
        await one.close()
    server.execute("DROP USER ada, bob")


async def test_an_ear_finds_by_itself_what_nobody_woke_it_for(
    store: MysqlStore, stranger: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a caller's own transaction rings. Only the ear looks, in the server, and we mistrust for a while."""
    monkeypatch.setattr(lookout, "SHORTEST_CALM_SECONDS", 3600.0)
    monkeypatch.setattr(lookout, "LONGEST_CALM_SECONDS", 3600.0)
    monkeypatch.setattr(lookout, "LATE_SECONDS", 0.0)
    await all_ears(store)
    number = await connection_of(stranger, store)
    await until(lambda: waits(stranger, number))
    glances: list[str] = []
    monkeypatch.setattr(store._lookout, "glance", glances.append)
    watching = asyncio.ensure_future(store.watch(SOON))
    await stranger.run("INSERT INTO bell (origin, number, at) VALUES ('caller', 1, 1)")
    assert await watching
    assert not glances
    loop = asyncio.get_running_loop()
    assert store._lookout._pause(loop.time() + 0.1) <= lookout.LONGEST_GLANCE_SECONDS
    assert store._lookout._mistrusts_until > loop.time()


async def test_an_ear_goes_on_waiting_while_nothing_comes(store: MysqlStore, stranger: Connection) -> None:
    """It looks many times within one statement: an idle process asks the server for little."""
    await all_ears(store)
    number = await connection_of(stranger, store)
    await until(lambda: waits(stranger, number))
    counting = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'"
    ((before,),) = await stranger.rows(counting)
    await asyncio.sleep(2.5 * hearing.LOOK_SECONDS)
    ((after,),) = await stranger.rows(counting)
    assert int(after) - int(before) <= 2, "we ask, and perhaps the ear once more"


async def test_whoever_is_woken_soon_after_it_looked_does_not_mistrust(store: MysqlStore) -> None:
    await all_ears(store)
    now = asyncio.get_running_loop().time()
    watcher = store._lookout
    watcher._found_at = now
    watcher._hear(watcher._bells, hearing.WOKEN)
    assert watcher._pause(now + 2 * lookout.LATE_SECONDS) > lookout.LONGEST_GLANCE_SECONDS
    watcher._found_at = now
    watcher._hear(watcher._bells, hearing.IN_VAIN)
    assert watcher._pause(now + 2 * lookout.LATE_SECONDS) <= lookout.LONGEST_GLANCE_SECONDS


async def test_mysql_has_no_such_statements_and_is_left_alone(
    store: MysqlStore, stranger: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.is_mariadb = False
    assert await hearing.wake(stranger, "a room", EVERYBODY, hearing.NOWHERE) == 0

    async def connected(*_arguments: object, **_options: object) -> Connection:
        return stranger

    monkeypatch.setattr(hearing, "connect", connected)
    assert not await store.watch(SHORT)
    ear = store._lookout.ear
    assert ear._listening is not None
    async with asyncio.timeout(60):
        await ear._listening
    assert not ear.is_hearing


async def test_a_seat_is_taken_once(url: str, stranger: Connection) -> None:
    more = [await connect(location_of(url), "more", autocommit=True) for _ in range(2)]
    seats: list[object] = []
    for connection in (stranger, *more):
        seats += await connection.rows(statement("sit"), {"room": "a room ", "seat": hearing.MOST_SEATS})
    assert seats == [(0,), (1,), (2,)]
    await stranger.close()
    lower = {"room": "a room ", "seat": 2}

    async def has_moved() -> bool:
        return await more[1].rows(statement("sit"), lower) == ((0,),)

    await until(has_moved)
    ((holder, left),) = await more[0].rows("SELECT IS_USED_LOCK('a room 0'), IS_USED_LOCK('a room 2')")
    assert (holder is not None, left) == (True, None)
    for connection in more:
        await connection.close()


async def test_many_jobs_at_once_are_heard_of(store: MysqlStore, other: MysqlStore) -> None:
    await all_ears(other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await store.insert(new_jobs(500))
    assert await watching
