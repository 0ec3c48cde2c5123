"""Hearing of other processes' work: by the kernel's bell, without polling, and without it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from building import claim, new_job
from rota.core.lifecycle import Event
from rota.core.submission import NewJob
from rota.ports.places import ANYWHERE, EVERY_QUEUE, TIMETABLE
from rota.stores.rows import Row
from rota.stores.sqlite import SqliteStore, bell, lookout
from rota.stores.sqlite.bell import Knocker
from rota.stores.sqlite.driver import Parameters, StandardConnection

LONG = timedelta(seconds=20)


class Counting(StandardConnection):
    """Counts the looks at the change counter."""

    looks = 0

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        Counting.looks += "data_version" in sql
        return super().rows(sql, parameters)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    """Give two stores on one file, as two processes would have."""
    Counting.looks = 0
    one = await SqliteStore.open(tmp_path / "rota.db", connect=Counting)
    other = await SqliteStore.open(tmp_path / "rota.db")
    # Only who asks for work is told of it.
    await one.claim(claim())
    await one.watch(timedelta(seconds=0.01))
    yield one, other
    await other.close()
    await one.close()


async def knocks_only(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait until a store has heard all there was, and let it hear nothing but knocks from then on."""
    while await store.watch(timedelta(seconds=2 * lookout.GLANCE_SECONDS)):
        pass
    monkeypatch.setattr(lookout, "GLANCE_SECONDS", 1e9)
    monkeypatch.setattr(lookout, "LONGEST_UNSEEN_SECONDS", 1e9)


async def test_nobody_looks_while_nothing_happens(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, _ = pair
    before = Counting.looks
    assert not await one.watch(timedelta(seconds=0.5))
    assert Counting.looks - before <= 3


async def test_another_process_s_work_is_heard_at_once(
    pair: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it comes soon after the last: reports were 20 ms apart, and what was due in between waited."""
    one, other = pair
    await knocks_only(one, monkeypatch)
    delays = []
    for _ in range(20):
        watching = asyncio.ensure_future(one.watch(LONG))
        await asyncio.sleep(0)
        await other.insert([new_job()])
        committed_at = time.perf_counter()
        assert await watching == {EVERY_QUEUE}
        delays.append(time.perf_counter() - committed_at)
    # The median: one slow wake-up says nothing. And on a fast disk each waits for the longest breath.
    assert sorted(delays)[10] < lookout.LONGEST_BREATH_SECONDS + 0.007


@pytest.mark.parametrize(
    ("jobs", "places"),
    [
        ([new_job()], {EVERY_QUEUE}),
        ([new_job(run_at=datetime.now(UTC) + timedelta(hours=1))], {TIMETABLE}),
        ([new_job(), new_job(run_at=datetime.now(UTC) + timedelta(hours=1))], {EVERY_QUEUE, TIMETABLE}),
    ],
    ids=["work", "times", "both"],
)
async def test_a_knock_tells_work_from_times(
    pair: tuple[SqliteStore, SqliteStore], jobs: list[NewJob], places: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    await knocks_only(one, monkeypatch)
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert(jobs)
    heard = set(await watching)
    while heard < places:
        heard |= set(await one.watch(LONG))
    assert heard == places


async def test_who_never_asks_for_work_is_not_told_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler woke up for each job, and took the core of the worker that should have."""
    one, other = [await SqliteStore.open(tmp_path / "rota.db") for _ in range(2)]
    await knocks_only(one, monkeypatch)
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert([new_job()])
    await other.insert([new_job(run_at=datetime.now(UTC) + timedelta(hours=1))])
    assert set(await watching) == {TIMETABLE}
    await other.close()
    await one.close()


@pytest.mark.parametrize("awake", [0.0, 1e9], ids=["told", "looking"])
async def test_a_commit_that_nobody_knocks_for_is_heard_too(
    pair: tuple[SqliteStore, SqliteStore], awake: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that has ended, a caller's own connection, an older release."""
    one, other = pair
    monkeypatch.setattr(bell, "AWAKE_SECONDS", awake)
    await other.insert([new_job()])
    (held,) = await other.claim(claim())
    while await one.watch(timedelta(seconds=2 * lookout.GLANCE_SECONDS)):
        pass
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.settle([held.settled(Event.SUCCEED)])
    assert set(await watching) == ANYWHERE


async def test_a_commit_that_nobody_knocks_for_is_heard_among_those_that_are_knocked_for(
    pair: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waited for a job's end heard nothing of it while others submitted without a pause."""
    one, other = pair
    await other.insert([new_job()])
    (held,) = await other.claim(claim())
    longest = lookout.LONGEST_UNSEEN_SECONDS
    await knocks_only(one, monkeypatch)
    monkeypatch.setattr(lookout, "LONGEST_UNSEEN_SECONDS", longest)
    await other.settle([held.settled(Event.SUCCEED)])
    async with asyncio.timeout(10):
        while not (heard := await one.watch(timedelta(0))) or set(heard) != ANYWHERE:
            await other.insert([new_job()])


def test_a_knock_that_failed_is_not_made_up_for_by_the_next_commit(tmp_path: Path) -> None:
    """That one may have nothing to tell; and where there is no door, every commit would try."""
    connection = StandardConnection(":memory:")
    connection.has_made_work = connection.has_set_times = True
    Knocker(str(tmp_path / "nobody.db")).knock(connection)
    assert (connection.has_made_work, connection.has_set_times) == (False, False)
    connection.close()


async def test_a_commit_that_a_slow_disk_keeps_until_after_the_rest_is_heard_too(
    pair: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written while the bell was off and counted when it was on again, it rang for nobody."""
    one, other = pair
    watcher = one._lookout
    assert watcher is not None
    await other.insert([new_job()])
    while await one.watch(timedelta(seconds=2 * lookout.GLANCE_SECONDS)):
        pass
    monkeypatch.setattr(other._writer, "_knock", lambda _: None)
    before, counter = watcher._counter(), watcher._counter
    done_at = time.monotonic() + 3 * lookout.GLANCE_SECONDS
    monkeypatch.setattr(watcher, "_counter", lambda: counter() if time.monotonic() > done_at else before)
    # A report was just made, and the bell is off.
    watcher._told_at = asyncio.get_running_loop().time()
    watcher._bell.hear_writes(wanted=False)
    await other.insert([new_job()])
    async with asyncio.timeout(5):
        assert set(await one.watch(LONG)) == ANYWHERE


@pytest.mark.parametrize("missing", ["the door", "inotify"])
async def test_without_a_bell_one_looks_now_and_then(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "the door":
        (tmp_path / "rota.db-bell").mkdir()
    else:
        monkeypatch.setattr(sys, "platform", "darwin")
    one, other = [await SqliteStore.open(tmp_path / "rota.db") for _ in range(2)]
    await one.watch(timedelta(seconds=0.01))
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert([new_job()])
    assert await watching
    await other.close()
    await one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="there is a bell on Linux only")
async def test_whoever_may_write_may_knock(tmp_path: Path) -> None:
    path, door = tmp_path / "rota.db", tmp_path / "rota.db-bell"
    await (await SqliteStore.open(path)).close()
    path.chmod(0o660)
    door.unlink()
    earlier = os.umask(0o077)
    try:
        await (await SqliteStore.open(path)).close()
    finally:
        os.umask(earlier)
    assert (door.stat().st_mode & 0o777, door.stat().st_uid) == (0o660, path.stat().st_uid)


async def test_a_file_may_be_opened_by_a_link_to_it_and_all_hear_each_other(tmp_path: Path) -> None:
    """It was taken for one that had lost its log."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(tmp_path / "rota.db")
    one, other = await SqliteStore.open(tmp_path / "rota.db"), await SqliteStore.open(link)
    while await one.watch(timedelta(seconds=2 * lookout.GLANCE_SECONDS)):
        pass
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert([new_job()])
    assert EVERY_QUEUE in await watching
    await other.close()
    await one.close()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_who_hears_one_knock_after_the_other_takes_a_breath_and_leaves_no_descriptor_behind(
    pair: tuple[SqliteStore, SqliteStore], tmp_path: Path
) -> None:
    one, _ = pair
    before = descriptors()
    is_over = asyncio.Event()

    async def knock() -> None:
        for _ in range(3000):
            (tmp_path / "rota.db-bell").read_bytes()
            await asyncio.sleep(0)
        is_over.set()

    knocking, woken, begun = asyncio.create_task(knock()), 0, time.monotonic()
    while not is_over.is_set():
        woken += bool(await one.watch(timedelta(seconds=0.05)))
    await knocking
    # Breaths grow while the next knock comes soon; on a busy machine it may not, and then reports are rare anyway.
    assert 2 <= woken <= 10 + (time.monotonic() - begun) / lookout.BUSY_SECONDS
    assert descriptors() == before


def test_a_door_that_was_emptied_is_knocked_at_again(tmp_path: Path) -> None:
    path = str(tmp_path / "some.db")
    Path(path).touch()
    heard = bell.Bell(path)
    door = Path(bell.door_of(path))
    door.write_bytes(b"")
    knocker, connection = Knocker(path), StandardConnection(":memory:")
    connection.has_made_work = True
    knocker.knock(connection)
    assert door.read_bytes()
    knocker.close()
    heard.close()
    connection.close()


def test_nothing_is_written_through_a_link_in_the_place_of_a_door(tmp_path: Path) -> None:
    path = str(tmp_path / "some.db")
    other = tmp_path / "other"
    other.touch()
    Path(bell.door_of(path)).symlink_to(other)
    knocker, connection = Knocker(path), StandardConnection(":memory:")
    connection.has_made_work = True
    knocker.knock(connection)
    assert not other.read_bytes()
    knocker.close()
    connection.close()
