"""Hearing: what others do is heard, our own voice is not taken for theirs, and deafness is noticed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import cast

import asyncpg
import pytest

from building import claim, new_job, new_jobs
from rota.core.lane import Queue
from rota.ports.places import ANYWHERE, EVERY_QUEUE, TIMETABLE, number_of, without_number
from rota.ports.store import Receipt
from rota.stores.postgres import PostgresStore, hearing
from rota.stores.postgres.database import Database
from rota.stores.postgres.hearing import CHANNEL, WORK_CHANNEL
from stores.postgres.ears import SHORT, all_ears, tell_of_one, until_heard

SOON = timedelta(seconds=20)


@pytest.fixture
async def heard(stranger: asyncpg.Connection) -> list[str]:
    """All notices that somebody else hears."""
    notices: list[str] = []
    for channel in (CHANNEL, WORK_CHANNEL):
        await stranger.add_listener(channel, lambda *words: notices.append(str(words[-1])))
    return notices


async def _say_nothing(*_: object) -> None:
    pass


async def cut_off(stranger: asyncpg.Connection) -> None:
    """End the connections of all who listen."""
    await stranger.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query ILIKE 'LISTEN%' AND datname = current_database()"
    )


async def test_our_own_work_wakes_only_others(store: PostgresStore, other: PostgresStore) -> None:
    await all_ears(store, other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await store.insert([new_job()])
    assert await watching
    assert not await store.watch(SHORT)


async def test_who_never_asked_for_work_is_woken_only_by_times(store: PostgresStore, other: PostgresStore) -> None:
    """A scheduler, and whoever waits for the end of a job, would be in the way of who begins one."""
    async with asyncio.timeout(60):
        while await other.watch(SHORT) or not other._ear._is_hearing:
            pass
    count = other._ear._count
    await store.insert([new_job()])
    await store.insert(new_jobs(2))
    store._bell._sent_at = float("-inf")
    await store.insert([new_job(queue="later", run_at=datetime.now(UTC) + timedelta(hours=1))])
    assert TIMETABLE in await other.watch(SOON)
    assert other._ear._count == count + 1


async def test_who_asks_for_work_after_all_is_told_that_some_may_have_come_and_hears_of_it_from_then_on(
    store: PostgresStore, other: PostgresStore
) -> None:
    async with asyncio.timeout(60):
        while await other.watch(SHORT) or not other._ear._is_hearing:
            pass
    assert not await other.claim(claim())
    assert await other.watch(SOON) == ANYWHERE
    await store.insert([new_job(queue="a")])
    assert without_number(await other.watch(SOON)) == {"a"}


async def test_who_heeds_is_told_of_each_notice_and_of_none_twice(store: PostgresStore, other: PostgresStore) -> None:
    await all_ears(store, other)
    heard: asyncio.Queue[Collection[str]] = asyncio.Queue()
    watching = asyncio.ensure_future(other.watch(SOON, heard.put_nowait))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        for queue in ("a", "b"):
            store._bell._sent_at = float("-inf")
            await store.insert([new_job(queue=queue)])
            assert without_number(await heard.get()) == {queue}
    assert not watching.done()
    watching.cancel()
    await asyncio.wait([watching])
    assert not await other.watch(SHORT)
    assert heard.empty()


async def test_what_is_heard_while_nobody_heeds_is_told_at_the_next_watch(
    store: PostgresStore, other: PostgresStore
) -> None:
    await all_ears(store, other)
    heard: list[Collection[str]] = []
    assert not await other.watch(SHORT, heard.append)
    count = other._ear._count
    await store.insert([new_job(queue="a")])
    async with asyncio.timeout(20):
        while other._ear._count == count:
            other._ear._change.clear()
            await other._ear._change.wait()
    assert without_number(await other.watch(SOON, heard.append)) == {"a"}
    assert not heard


async def test_who_heeds_is_no_longer_kept_waiting_when_nothing_can_be_heard(
    store: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """It was told of the cut, and then nothing until its time had passed; who does not hear has to look."""
    await all_ears(store)
    heard: list[Collection[str]] = []
    watching = asyncio.ensure_future(store.watch(timedelta(hours=1), heard.append))
    await asyncio.sleep(0)
    await cut_off(stranger)
    async with asyncio.timeout(20):
        assert not await watching
        assert await store.watch(SOON, heard.append) == ANYWHERE
    assert heard == [ANYWHERE]


async def test_many_writes_share_few_notices(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str]
) -> None:
    await asyncio.gather(*(store.insert([job]) for job in new_jobs(200, priority=7)))
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert 1 <= len(heard) <= 20
    assert {tuple(place) for text in heard for place in json.loads(text)[1:]} == {("default", "mail", 7)}


async def test_a_lone_job_takes_its_notice_along_and_the_next_one_is_told_of_too(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "PAUSE_SECONDS", 3600.0)
    await store.insert([new_job(priority=3)])
    assert store._bell._sending is None, "nothing is sent beside it"
    await store.insert([new_job(priority=4)])
    assert store._bell._sending is not None
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert [json.loads(text)[1:] for text in heard] == [[["default", "mail", 3]], [["default", "mail", 4]]]


async def test_a_lone_job_takes_along_what_others_wanted_told(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "PAUSE_SECONDS", 3600.0)
    await store.insert([new_job(priority=3)])
    await store.insert(new_jobs(2, priority=4))
    assert store._bell._sending is not None, "the crowd's notice waits for somebody"
    store._bell._sent_at = float("-inf")
    await store.insert([new_job(priority=5)])
    await stranger.fetchval("SELECT 1")
    told = [json.loads(text)[1:] for text in heard]
    assert told == [[["default", "mail", 3]], [["default", "mail", 4], ["default", "mail", 5]]]


async def test_what_a_lone_job_could_not_tell_is_told_without_it(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "PAUSE_SECONDS", 3600.0)
    job = new_job(priority=3)
    await store.insert([job])
    await store.insert(new_jobs(2, priority=4))
    store._bell._sent_at = float("-inf")
    # Its id is taken, so nothing is written, and nothing is told by that.
    (answer,) = await store.insert([replace(job, payload="{}")])
    assert answer.receipt is not Receipt.CREATED
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert any(["default", "mail", 4] in json.loads(text) for text in heard)


async def test_who_never_stores_what_it_takes_along_keeps_nobody_from_being_heard(
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


async def test_what_is_stored_is_told_of_while_another_commit_waits(
    store: PostgresStore, stranger: asyncpg.Connection, dsn: str
) -> None:
    heard: list[str] = []
    told = asyncio.Event()

    def hear(*words: object) -> None:
        heard.append(str(words[-1]))
        if ["default", "mail", 4] in json.loads(heard[-1]):
            told.set()

    await stranger.add_listener(WORK_CHANNEL, hear)
    blocked = new_job(priority=3)
    holder = await asyncpg.connect(dsn)
    try:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("LOCK TABLE queue IN ACCESS EXCLUSIVE MODE")
        store._bell._places.add(("default", "mail", 4))
        waiting = asyncio.create_task(store.insert([blocked]))
        await asyncio.sleep(0)
        assert store._bell._riding_since is not None, "it took along what others have stored"
        store._bell.ring([("default", "mail", 5)])
        async with asyncio.timeout(30):
            await told.wait()
        assert not waiting.done()
        await transaction.rollback()
        await waiting
    finally:
        await holder.close()


async def test_an_id_that_is_taken_is_told_also_where_no_notice_is_due(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "PAUSE_SECONDS", 3600.0)
    job = new_job()
    await store.insert([job])
    assert store._bell.notice(()) is None
    for other in (job, replace(job, payload='"other"')):
        (answer,) = await store.insert([other])
        assert answer.receipt is Receipt.ID_TAKEN
    (again,) = await store.insert([new_job()])
    assert again.receipt is Receipt.CREATED


async def test_a_notice_tells_where_to_look(store: PostgresStore, other: PostgresStore) -> None:
    await all_ears(store, other)
    later = datetime.now(UTC) + timedelta(milliseconds=50)
    for jobs, places in (
        ([new_job(queue="a")], {"a"}),
        ([new_job(queue="b"), new_job(queue="c", run_at=later)], {"b", "c", TIMETABLE}),
        ([new_job(queue="d", run_at=later)], {"d", TIMETABLE}),
    ):
        watching = asyncio.ensure_future(other.watch(SOON))
        await store.insert(jobs)
        assert without_number(await watching) == places


async def test_a_lone_job_is_told_of_with_a_number_that_all_hear_alike(
    store: PostgresStore, other: PostgresStore, dsn: str
) -> None:
    third = await PostgresStore.open(dsn)
    await all_ears(store, other, third)
    numbers = []
    for _ in range(3):
        store._bell._sent_at = float("-inf")
        watching = [asyncio.ensure_future(one.watch(SOON)) for one in (other, third)]
        await asyncio.sleep(0)
        await store.insert([new_job()])
        heard, again = [number_of(await one) for one in watching]
        assert heard is not None
        assert heard == again
        numbers.append(heard)
    await third.close()
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


@pytest.mark.parametrize("count", [1, 2])
async def test_what_may_be_more_than_one_job_is_told_of_without_a_number(
    store: PostgresStore, other: PostgresStore, count: int
) -> None:
    """Also a lone one that takes along what others wanted told."""
    await all_ears(store, other)
    store._bell._places.add(("default", "mail", 4))
    watching = asyncio.ensure_future(other.watch(SOON))
    await asyncio.sleep(0)
    await store.insert(new_jobs(count))
    told = await watching
    assert told == without_number(told) == {"default"}


async def test_who_hears_several_lone_jobs_at_once_knows_that_there_is_more_than_one(
    store: PostgresStore, other: PostgresStore
) -> None:
    await all_ears(store, other)
    for _ in range(2):
        await tell_of_one(store, other, new_job())
    told = await other.watch(SOON)
    assert "default" in told
    assert number_of(told) is None


async def test_what_may_be_anywhere_is_told_also_by_a_notice_that_tells_of_a_queue(
    store: PostgresStore, other: PostgresStore
) -> None:
    """A retry, a schedule or a resumed queue shares its notice with submissions of the same moment."""
    await all_ears(store, other)
    watching = asyncio.ensure_future(other.watch(SOON))
    await asyncio.sleep(0)
    store._bell.ring([("a", "mail", 5)])
    store._bell.ring()
    assert set(await watching) == {"a", EVERY_QUEUE, TIMETABLE}


async def test_promoting_takes_its_notice_along_and_wakes_nobody_who_keeps_the_time(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._bell, "ring", lambda _places=(): None)
    # Late enough for a busy machine: what is due when it is stored is promoted by nobody.
    await store.insert(new_jobs(3, run_at=datetime.now(UTC) + timedelta(seconds=1)))
    await all_ears(other)
    store._bell._sent_at = float("-inf")
    watching = asyncio.ensure_future(other.watch(SOON))
    while not await store.promote(10):
        await asyncio.sleep(0.01)
        store._bell._sent_at = float("-inf")
    assert await watching == {EVERY_QUEUE}
    assert not await other.watch(SHORT)


async def test_a_notice_about_very_many_lanes_tells_only_that_something_changed(
    store: PostgresStore, stranger: asyncpg.Connection, heard: list[str]
) -> None:
    await store.insert([new_job(f"type-{number}" * 10) for number in range(500)])
    await store.close()
    await stranger.fetchval("SELECT 1")
    assert [len(json.loads(text)) for text in heard] == [1]


@pytest.mark.parametrize(
    "text", ["", "rota", "[]", "{}", "7", "[7]", '[null, ["q", "t", 1]]', '["a", 1]', '["a", ["q"]]']
)
async def test_a_notice_in_other_words_is_heard_too(
    store: PostgresStore, stranger: asyncpg.Connection, text: str
) -> None:
    await all_ears(store)
    await stranger.execute("SELECT pg_notify('rota', $1)", text)
    assert await store.watch(SOON)
    assert not await store.watch(SHORT)


async def test_a_forged_notice_of_any_priority_stops_no_claim(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection
) -> None:
    await all_ears(store)
    await other.insert([new_job(type="mail")])
    assert await store.claim(claim(types=("mail",)))
    assert store._floors._lanes
    count = store._ear._count
    await stranger.execute("SELECT pg_notify('rota', $1)", json.dumps(["t", ["default", "mail", 10**30]]))
    await until_heard(store, count)
    assert not await store.claim(claim(types=("mail",)))


async def test_who_keeps_the_time_hears_an_earlier_release_too(
    store: PostgresStore, stranger: asyncpg.Connection
) -> None:
    """It tells the queue of a job that has a time as it tells any other's, and its mark is a number."""
    await all_ears(store)
    await stranger.execute("SELECT pg_notify('rota', $1)", json.dumps(["0123456789abcdef", ["a", "mail", 5]]))
    assert set(await store.watch(SOON)) == {"a", EVERY_QUEUE, TIMETABLE}


async def test_a_listener_that_was_cut_off_listens_again(
    store: PostgresStore, other: PostgresStore, stranger: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "DEAF_SECONDS", 0.01)
    # The cut may be noticed before we watch: who does not hear looks.
    monkeypatch.setattr(hearing, "POLL_SECONDS", 0.05)
    await all_ears(store)
    await cut_off(stranger)
    assert await store.watch(SOON)
    await all_ears(store)
    # From here on only hearing helps.
    monkeypatch.setattr(hearing, "POLL_SECONDS", 60.0)
    watching = asyncio.ensure_future(store.watch(SOON))
    await other.insert([new_job()])
    assert await watching


async def test_a_listener_that_is_cut_off_as_it_makes_sure_that_it_hears_knows_at_once(
    store: PostgresStore, stranger: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut ended the wait for its own voice, was taken for it, and was forgotten until the next time."""
    await all_ears(store)

    async def cut(*_: object) -> None:
        await cut_off(stranger)

    monkeypatch.setattr(hearing, "notify", cut)
    store._ear._stirred.set()
    async with asyncio.timeout(10):
        while store._ear._is_hearing:
            store._ear._change.clear()
            await store._ear._change.wait()


async def test_a_listener_that_hears_nothing_is_found_out(
    dsn: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own notices do not come: then it looks for changes itself."""
    del dsn
    monkeypatch.setattr(hearing, "notify", _say_nothing)
    monkeypatch.setattr(hearing, "ECHO_SECONDS", 0.05)
    monkeypatch.setattr(hearing, "POLL_SECONDS", 0.01)
    await store.watch(SHORT)
    assert not store._ear._is_hearing
    assert await store.watch(SOON)


@pytest.mark.parametrize(
    ("interval", "least", "most"), [(0.01, 100, 100), (0.005, 150, 200), (0.0001, 50, 150)], ids=["100", "200", "10000"]
)
def test_a_notice_is_held_back_only_where_they_come_as_fast_as_they_may(
    monkeypatch: pytest.MonkeyPatch, interval: float, least: int, most: int
) -> None:
    """At a hundred jobs a second each was held back for up to 15 ms. With many who commit, one tells of many jobs."""
    now = [1.0]
    monkeypatch.setattr(hearing, "monotonic", lambda: now[0])
    bell = hearing.Bell(cast("Database", None), "mark")
    monkeypatch.setattr(bell, "ring", lambda _places=(): None)
    place = hearing.somewhere("q")
    sent = 0
    for _ in range(round(1 / interval)):
        now[0] += interval
        notice = bell.notice([place], is_one=True)
        bell.follow(notice, [place], has_changed=True)
        sent += notice is not None
    assert least <= sent <= most
