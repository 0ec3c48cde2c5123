"""Notifications: those of other processes are received, our own are ignored, and a lost connection is noticed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import cast

import asyncpg
import pytest

from builders import claim, new_job, new_jobs
from rota.core.queue import Queue
from rota.core.submission import NewJob
from rota.ports.store import Receipt
from rota.ports.wakeup import ANY_CHANGE, EVERY_QUEUE, TIMETABLE, Topic, Wake, single_job_of, without_number
from rota.stores.postgres import PostgresStore, notify
from rota.stores.postgres.database import Database
from rota.stores.postgres.notify import CHANNEL, WORK_CHANNEL
from stores.postgres.listeners import SHORT, all_listening, announce_one, until_notified

SOON = timedelta(seconds=20)


@pytest.fixture
async def heard(stranger: asyncpg.Connection) -> list[str]:
    """All notifications that another connection receives."""
    notices: list[str] = []
    for channel in (CHANNEL, WORK_CHANNEL):
        await stranger.add_listener(channel, lambda *words: notices.append(str(words[-1])))
    return notices


async def _say_nothing(*_: object) -> None:
    pass


async def cut_off(stranger: asyncpg.Connection) -> None:
    """End the connections of all listeners."""
    await stranger.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query ILIKE 'LISTEN%' AND datname = current_database()"
    )


async def test_our_own_jobs_wake_only_other_processes(store: PostgresStore, other: PostgresStore) -> None:
    await all_listening(store, other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await store.insert([new_job()])
    assert await watching
    assert not await store.watch(SHORT)


async def test_a_process_that_never_claimed_is_woken_only_by_times(store: PostgresStore, other: PostgresStore) -> None:
    """A scheduler, or a process that waits for the end of a job, would compete with the worker that begins one."""
    async with asyncio.timeout(60):
        while await other.watch(SHORT) or not other._listener.is_listening:
            pass
    count = other._listener._count
    await store.insert([new_job()])
    await store.insert(new_jobs(2))
    store._notifier._sent_at = float("-inf")
    await store.insert([new_job(queue="later", run_at=datetime.now(UTC) + timedelta(hours=1))])
    assert TIMETABLE in await other.watch(SOON)
    assert other._listener._count == count + 1


async def test_a_process_that_begins_to_claim_is_woken_once_and_hears_of_jobs_from_then_on(
    store: PostgresStore, other: PostgresStore
) -> None:
    async with asyncio.timeout(60):
        while await other.watch(SHORT) or not other._listener.is_listening:
            pass
    assert not await other.claim(claim())
    assert await other.watch(SOON) == ANY_CHANGE
    await store.insert([new_job(queue="a")])
    assert without_number(await other.watch(SOON)) == {"a"}


async def test_a_callback_is_called_once_for_each_notification(store: PostgresStore, other: PostgresStore) -> None:
    await all_listening(store, other)
    heard: asyncio.Queue[Wake] = asyncio.Queue()
    watching = asyncio.ensure_future(other.watch(SOON, heard.put_nowait))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        for queue in ("a", "b"):
            store._notifier._sent_at = float("-inf")
            await store.insert([new_job(queue=queue)])
            assert without_number(await heard.get()) == {queue}
    assert not watching.done()
    watching.cancel()
    await asyncio.wait([watching])
    assert not await other.watch(SHORT)
    assert heard.empty()


async def test_notifications_between_watches_are_returned_by_the_next_watch(
    store: PostgresStore, other: PostgresStore
) -> None:
    await all_listening(store, other)
    heard: list[Wake] = []
    assert not await other.watch(SHORT, heard.append)
    count = other._listener._count
    await store.insert([new_job(queue="a")])
    async with asyncio.timeout(20):
        while other._listener._count == count:
            other._listener._change.clear()
            await other._listener._change.wait()
    assert without_number(await other.watch(SOON, heard.append)) == {"a"}
    assert not heard


async def test_a_watch_with_callback_returns_when_the_listener_is_disconnected(
    store: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """It was told of the lost connection, and then nothing until its time had passed; without a listener it polls."""
    await all_listening(store)
    heard: list[Wake] = []
    watching = asyncio.ensure_future(store.watch(timedelta(hours=1), heard.append))
    await asyncio.sleep(0)
    await cut_off(stranger)
    async with asyncio.timeout(20):
        assert not await watching
        assert await store.watch(SOON, heard.append) == ANY_CHANGE
    assert heard == [ANY_CHANGE]


async def test_many_writes_share_few_notifications(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str]
) -> None:
    await asyncio.gather(*(store.insert([job]) for job in new_jobs(200, priority=7)))
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert 1 <= len(heard) <= 20
    assert {tuple(place) for text in heard for place in json.loads(text)[1:]} == {("default", "mail", 7)}


async def test_a_single_job_attaches_its_notification_and_the_next_one_is_notified_of_too(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "PAUSE_SECONDS", 3600.0)
    await store.insert([new_job(priority=3)])
    assert store._notifier._sender is None, "nothing is sent beside it"
    await store.insert([new_job(priority=4)])
    assert store._notifier._sender is not None
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert [json.loads(text)[1:] for text in heard] == [[["default", "mail", 3]], [["default", "mail", 4]]]


async def test_a_single_job_attaches_what_is_pending(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "PAUSE_SECONDS", 3600.0)
    await store.insert([new_job(priority=3)])
    await store.insert(new_jobs(2, priority=4))
    assert store._notifier._sender is not None, "the crowd's notice waits for somebody"
    store._notifier._sent_at = float("-inf")
    await store.insert([new_job(priority=5)])
    await stranger.fetchval("SELECT 1")
    answer = [json.loads(text)[1:] for text in heard]
    assert answer == [[["default", "mail", 3]], [["default", "mail", 4], ["default", "mail", 5]]]


async def test_what_a_failed_commit_had_attached_is_sent_without_it(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "PAUSE_SECONDS", 3600.0)
    job = new_job(priority=3)
    await store.insert([job])
    await store.insert(new_jobs(2, priority=4))
    store._notifier._sent_at = float("-inf")
    # Its id is taken, so nothing is written, and nothing is told by that.
    (answer,) = await store.insert([replace(job, payload="{}")])
    assert answer.receipt is not Receipt.CREATED
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert any(["default", "mail", 4] in json.loads(text) for text in heard)


async def test_repeated_failed_commits_hold_up_no_notification(
    store: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """In a queue with a bound a lone job is not stored at the first go."""
    await store.put_queue(Queue("full", max_depth=100_000))
    heard: list[float] = []
    loop = asyncio.get_running_loop()
    await stranger.add_listener(WORK_CHANNEL, lambda *_: heard.append(loop.time()))
    async with asyncio.timeout(60):
        while len(heard) < 30:
            await store.insert([new_job(queue="full")])
    pauses = sorted(later - earlier for earlier, later in pairwise(heard))
    assert pauses[len(pauses) // 2] < 0.2


async def test_jobs_are_notified_of_while_another_commit_waits(
    store: PostgresStore, stranger: asyncpg.Connection, dsn: str
) -> None:
    heard: list[str] = []
    notified = asyncio.Event()

    def hear(*words: object) -> None:
        heard.append(str(words[-1]))
        if ["default", "mail", 4] in json.loads(heard[-1]):
            notified.set()

    await stranger.add_listener(WORK_CHANNEL, hear)
    blocked = new_job(priority=3)
    holder = await asyncpg.connect(dsn)
    try:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("LOCK TABLE rota_queue IN ACCESS EXCLUSIVE MODE")
        store._notifier._pending.add(("default", "mail", 4))
        waiting = asyncio.create_task(store.insert([blocked]))
        await asyncio.sleep(0)
        assert store._notifier._attached_at is not None, "it took along what others have stored"
        store._notifier.notify_soon([("default", "mail", 5)])
        async with asyncio.timeout(30):
            await notified.wait()
        assert not waiting.done()
        await transaction.rollback()
        await waiting
    finally:
        await holder.close()


async def test_a_taken_id_is_reported_also_without_a_notification(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "PAUSE_SECONDS", 3600.0)
    job = new_job()
    await store.insert([job])
    assert store._notifier.attach(()) is None
    for other in (job, replace(job, payload='"other"')):
        (answer,) = await store.insert([other])
        assert answer.receipt is Receipt.ID_TAKEN
    (again,) = await store.insert([new_job()])
    assert again.receipt is Receipt.CREATED


async def test_a_notification_names_the_queues(store: PostgresStore, other: PostgresStore) -> None:
    await all_listening(store, other)
    later = datetime.now(UTC) + timedelta(milliseconds=50)
    expected: list[tuple[list[NewJob], set[Topic]]] = [
        ([new_job(queue="a")], {"a"}),
        ([new_job(queue="b"), new_job(queue="c", run_at=later)], {"b", "c", TIMETABLE}),
        ([new_job(queue="d", run_at=later)], {"d", TIMETABLE}),
    ]
    for jobs, places in expected:
        watching = asyncio.ensure_future(other.watch(SOON))
        await store.insert(jobs)
        assert without_number(await watching) == places


async def test_a_single_job_is_announced_with_a_number_that_is_the_same_for_all(
    store: PostgresStore, other: PostgresStore, dsn: str
) -> None:
    third = await PostgresStore.open(dsn)
    await all_listening(store, other, third)
    numbers = []
    for _ in range(3):
        store._notifier._sent_at = float("-inf")
        watching = [asyncio.ensure_future(one.watch(SOON)) for one in (other, third)]
        await asyncio.sleep(0)
        await store.insert([new_job()])
        heard, again = [single_job_of(await one) for one in watching]
        assert heard is not None
        assert heard == again
        numbers.append(heard)
    await third.close()
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


@pytest.mark.parametrize("count", [1, 2])
async def test_several_jobs_are_notified_of_without_a_number(
    store: PostgresStore, other: PostgresStore, count: int
) -> None:
    """Also a single submission that attaches notifications of other writes."""
    await all_listening(store, other)
    store._notifier._pending.add(("default", "mail", 4))
    watching = asyncio.ensure_future(other.watch(SOON))
    await asyncio.sleep(0)
    await store.insert(new_jobs(count))
    answer = await watching
    assert answer == without_number(answer) == {"default"}


async def test_several_announced_jobs_are_not_taken_for_one(store: PostgresStore, other: PostgresStore) -> None:
    await all_listening(store, other)
    for _ in range(2):
        await announce_one(store, other, new_job())
    answer = await other.watch(SOON)
    assert "default" in answer
    assert single_job_of(answer) is None


async def test_a_pending_notification_of_all_queues_survives_one_of_a_single_queue(
    store: PostgresStore, other: PostgresStore
) -> None:
    """A retry, a schedule or a resumed queue shares its notification with submissions of the same moment."""
    await all_listening(store, other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await asyncio.sleep(0)
    store._notifier.notify_soon([("a", "mail", 5)])
    store._notifier.notify_soon()
    assert set(await watching) == {"a", EVERY_QUEUE, TIMETABLE}


async def test_promotion_attaches_its_notification_and_wakes_no_scheduler(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._notifier, "notify_soon", lambda _places=(): None)
    # Late enough for a busy machine: a job that is due when it is stored is not promoted.
    await store.insert(new_jobs(3, run_at=datetime.now(UTC) + timedelta(seconds=1)))
    await all_listening(other)
    store._notifier._sent_at = float("-inf")
    watching = asyncio.ensure_future(other.watch(SOON))
    while not await store.promote(10):
        await asyncio.sleep(0.01)
        store._notifier._sent_at = float("-inf")
    assert await watching == {EVERY_QUEUE}
    assert not await other.watch(SHORT)


async def test_a_notification_of_very_many_lanes_names_none(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str]
) -> None:
    await store.insert([new_job(f"type-{number}" * 10) for number in range(500)])
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert [len(json.loads(text)) for text in heard] == [1]


@pytest.mark.parametrize(
    "text", ["", "rota", "[]", "{}", "7", "[7]", '[null, ["q", "t", 1]]', '["a", 1]', '["a", ["q"]]']
)
async def test_an_unknown_notification_wakes_all(store: PostgresStore, stranger: asyncpg.Connection, text: str) -> None:
    await all_listening(store)
    await stranger.execute("SELECT pg_notify('rota', $1)", text)
    assert await store.watch(SOON)
    assert not await store.watch(SHORT)


async def test_a_forged_notification_of_any_priority_stops_no_claim(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection
) -> None:
    await all_listening(store)
    await other.insert([new_job(type="mail")])
    assert await store.claim(claim(types=("mail",)))
    assert store._low_water._lanes
    count = store._listener._count
    await stranger.execute("SELECT pg_notify('rota', $1)", json.dumps(["t", ["default", "mail", 10**30]]))
    await until_notified(store, count)
    assert not await store.claim(claim(types=("mail",)))


async def test_a_scheduler_is_woken_by_an_earlier_release_too(
    store: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """It tells the queue of a job that has a time as it tells any other's, and its mark is a number."""
    await all_listening(store)
    await stranger.execute("SELECT pg_notify('rota', $1)", json.dumps(["0123456789abcdef", ["a", "mail", 5]]))
    assert set(await store.watch(SOON)) == {"a", EVERY_QUEUE, TIMETABLE}


async def test_a_disconnected_listener_reconnects(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "RETRY_SECONDS", 0.01)
    # The lost connection may be noticed before we watch: without a listener, watch polls.
    monkeypatch.setattr(notify, "POLL_SECONDS", 0.05)
    await all_listening(store)
    await cut_off(stranger)
    assert await store.watch(SOON)
    await all_listening(store)
    # From here on only hearing helps.
    monkeypatch.setattr(notify, "POLL_SECONDS", 60.0)
    watching = asyncio.ensure_future(store.watch(SOON))
    await other.insert([new_job()])
    assert await watching


async def test_a_listener_that_fails_unexpectedly_listens_again(
    store: PostgresStore,
    stranger: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await all_listening(store)
    listen, calls = notify.Listener._listen, 0

    async def fail_once(self: notify.Listener, connection: asyncpg.Connection) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("nobody expected this")
        await listen(self, connection)

    monkeypatch.setattr(notify.Listener, "_listen", fail_once)
    monkeypatch.setattr(notify, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(notify, "POLL_SECONDS", 0.05)
    await cut_off(stranger)
    async with asyncio.timeout(20):
        while calls < 2:
            await store.watch(SHORT)
    await all_listening(store)
    assert "nobody expected this" in caplog.text


async def test_a_listener_that_is_disconnected_during_a_probe_notices_at_once(
    store: PostgresStore, stranger: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut ended the wait for its own voice, was taken for it, and was forgotten until the next time."""
    await all_listening(store)

    async def cut(*_: object) -> None:
        await cut_off(stranger)

    monkeypatch.setattr(notify, "notify", cut)
    store._listener._attention.set()
    async with asyncio.timeout(10):
        while store._listener.is_listening:
            store._listener._change.clear()
            await store._listener._change.wait()


async def test_a_listener_that_receives_nothing_is_detected_by_its_probe(
    dsn: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own notices do not come: then it looks for changes itself."""
    del dsn
    monkeypatch.setattr(notify, "notify", _say_nothing)
    monkeypatch.setattr(notify, "ECHO_SECONDS", 0.05)
    monkeypatch.setattr(notify, "POLL_SECONDS", 0.01)
    await store.watch(SHORT)
    assert not store._listener.is_listening
    assert await store.watch(SOON)


@pytest.mark.parametrize(
    ("interval", "least", "most"), [(0.01, 100, 100), (0.005, 150, 200), (0.0001, 50, 150)], ids=["100", "200", "10000"]
)
def test_notifications_are_held_back_only_at_a_high_rate(
    monkeypatch: pytest.MonkeyPatch, interval: float, least: int, most: int
) -> None:
    """At a hundred jobs a second each was held back for up to 15 ms. With many commits, one is of many jobs."""
    now = [1.0]
    monkeypatch.setattr(notify, "monotonic", lambda: now[0])
    notifier = notify.Notifier(cast("Database", None), "mark")
    monkeypatch.setattr(notifier, "notify_soon", lambda _places=(): None)
    place = notify.somewhere("q")
    sent = 0
    for _ in range(round(1 / interval)):
        now[0] += interval
        notification = notifier.attach([place], is_one=True)
        notifier.committed(notification, [place], has_changed=True)
        sent += notification is not None
    assert least <= sent <= most
