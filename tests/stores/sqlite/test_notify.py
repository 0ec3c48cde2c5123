"""Notifications of other processes' commits: by inotify without polling, and without inotify."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import claim, new_job
from rota.core.lifecycle import Event
from rota.core.submission import NewJob
from rota.ports.wakeup import ANY_CHANGE, EVERY_QUEUE, TIMETABLE
from rota.stores.rows import Row
from rota.stores.sqlite import SqliteStore, notify
from rota.stores.sqlite.driver import Parameters, StandardConnection
from rota.stores.sqlite.notify import Notifier

LONG = timedelta(seconds=20)


class Counting(StandardConnection):
    """Counts the reads of the change counter."""

    reads = 0

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        Counting.reads += "data_version" in sql
        return super().rows(sql, parameters)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    """Return two stores on one file, as two processes would have."""
    Counting.reads = 0
    one = await SqliteStore.open(tmp_path / "rota.db", connect=Counting)
    other = await SqliteStore.open(tmp_path / "rota.db")
    # Only a process that claims is notified of work.
    await one.claim(claim())
    await one.watch(timedelta(seconds=0.01))
    yield one, other
    await other.close()
    await one.close()


async def notifications_only(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait until a store has reported everything, and let it react to notifications only from then on."""
    while await store.watch(timedelta(seconds=2 * notify.CHECK_SECONDS)):
        pass
    monkeypatch.setattr(notify, "CHECK_SECONDS", 1e9)
    monkeypatch.setattr(notify, "LONGEST_UNCHECKED_SECONDS", 1e9)


async def test_an_idle_listener_does_not_read_the_counter(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, _ = pair
    before = Counting.reads
    assert not await one.watch(timedelta(seconds=0.5))
    assert Counting.reads - before <= 3


async def test_new_work_of_another_process_is_reported_at_once(
    pair: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it comes soon after the last: reports were 20 ms apart, and what was due in between waited."""
    one, other = pair
    await notifications_only(one, monkeypatch)
    delays = []
    for _ in range(20):
        watching = asyncio.ensure_future(one.watch(LONG))
        await asyncio.sleep(0)
        await other.insert([new_job()])
        committed_at = time.perf_counter()
        assert await watching == {EVERY_QUEUE}
        delays.append(time.perf_counter() - committed_at)
    # The median: one slow wake-up means nothing. And on a fast disk each waits for the longest pause.
    assert sorted(delays)[10] < notify.LONGEST_PAUSE_SECONDS + 0.007


@pytest.mark.parametrize(
    ("jobs", "places"),
    [
        ([new_job()], {EVERY_QUEUE}),
        ([new_job(run_at=datetime.now(UTC) + timedelta(hours=1))], {TIMETABLE}),
        ([new_job(), new_job(run_at=datetime.now(UTC) + timedelta(hours=1))], {EVERY_QUEUE, TIMETABLE}),
    ],
    ids=["work", "times", "both"],
)
async def test_a_notification_tells_work_from_times(
    pair: tuple[SqliteStore, SqliteStore], jobs: list[NewJob], places: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    await notifications_only(one, monkeypatch)
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert(jobs)
    heard = set(await watching)
    while heard < places:
        heard |= set(await one.watch(LONG))
    assert heard == places


async def test_a_process_that_never_claims_is_not_woken_for_new_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler woke up for each job and took the core of the worker."""
    one, other = [await SqliteStore.open(tmp_path / "rota.db") for _ in range(2)]
    await notifications_only(one, monkeypatch)
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert([new_job()])
    await other.insert([new_job(run_at=datetime.now(UTC) + timedelta(hours=1))])
    assert set(await watching) == {TIMETABLE}
    await other.close()
    await one.close()


@pytest.mark.parametrize("awake", [0.0, 1e9], ids=["told", "looking"])
async def test_a_commit_without_notification_is_reported_too(
    pair: tuple[SqliteStore, SqliteStore], awake: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished job, a caller's own connection, an older release."""
    one, other = pair
    monkeypatch.setattr(notify, "POLL_LOG_SECONDS", awake)
    await other.insert([new_job()])
    (held,) = await other.claim(claim())
    while await one.watch(timedelta(seconds=2 * notify.CHECK_SECONDS)):
        pass
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.settle([held.settled(Event.SUCCEED)])
    assert set(await watching) == ANY_CHANGE


async def test_a_commit_without_notification_is_reported_among_notified_ones(
    pair: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that waited for a job to finish was not woken while others submitted without a pause."""
    one, other = pair
    await other.insert([new_job()])
    (held,) = await other.claim(claim())
    longest = notify.LONGEST_UNCHECKED_SECONDS
    await notifications_only(one, monkeypatch)
    monkeypatch.setattr(notify, "LONGEST_UNCHECKED_SECONDS", longest)
    await other.settle([held.settled(Event.SUCCEED)])
    async with asyncio.timeout(10):
        while not (heard := await one.watch(timedelta(0))) or set(heard) != ANY_CHANGE:
            await other.insert([new_job()])


def test_a_failed_notification_is_not_repeated_at_the_next_commit(tmp_path: Path) -> None:
    """It may have nothing to report; and where there is no notify file, every commit would try."""
    connection = StandardConnection(":memory:")
    connection.has_made_work = connection.has_set_times = True
    Notifier(str(tmp_path / "nobody.db")).notify(connection)
    assert (connection.has_made_work, connection.has_set_times) == (False, False)
    connection.close()


async def test_a_commit_that_a_slow_disk_delays_is_reported_too(
    pair: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written while the watch was off and counted when it was on again, it was reported to nobody."""
    one, other = pair
    watcher = one._listener
    assert watcher is not None
    await other.insert([new_job()])
    while await one.watch(timedelta(seconds=2 * notify.CHECK_SECONDS)):
        pass
    monkeypatch.setattr(other._writer, "_notify", lambda _: None)
    before, counter = watcher._counter(), watcher._counter
    done_at = time.monotonic() + 3 * notify.CHECK_SECONDS
    monkeypatch.setattr(watcher, "_counter", lambda: counter() if time.monotonic() > done_at else before)
    # A report was just made, and the watch is off.
    watcher._reported_at = asyncio.get_running_loop().time()
    watcher._events.report_log(enabled=False)
    await other.insert([new_job()])
    async with asyncio.timeout(5):
        assert set(await one.watch(LONG)) == ANY_CHANGE


@pytest.mark.parametrize("missing", ["the notify file", "inotify"])
async def test_without_inotify_the_counter_is_polled(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "the notify file":
        (tmp_path / "rota.db-notify").mkdir()
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


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is on Linux only")
async def test_users_who_may_write_to_the_database_may_notify(tmp_path: Path) -> None:
    path, file = tmp_path / "rota.db", tmp_path / "rota.db-notify"
    await (await SqliteStore.open(path)).close()
    path.chmod(0o660)
    file.unlink()
    earlier = os.umask(0o077)
    try:
        await (await SqliteStore.open(path)).close()
    finally:
        os.umask(earlier)
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o660, path.stat().st_uid)


async def test_stores_opened_by_a_link_and_by_name_notify_each_other(tmp_path: Path) -> None:
    """The store behind the link was taken for one that had lost its log."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(tmp_path / "rota.db")
    one, other = await SqliteStore.open(tmp_path / "rota.db"), await SqliteStore.open(link)
    while await one.watch(timedelta(seconds=2 * notify.CHECK_SECONDS)):
        pass
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert([new_job()])
    assert EVERY_QUEUE in await watching
    await other.close()
    await one.close()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_frequent_notifications_are_reported_with_pauses_and_leak_no_descriptor(
    pair: tuple[SqliteStore, SqliteStore], tmp_path: Path
) -> None:
    one, _ = pair
    before = descriptors()
    is_over = asyncio.Event()

    async def touch() -> None:
        for _ in range(3000):
            (tmp_path / "rota.db-notify").read_bytes()
            await asyncio.sleep(0)
        is_over.set()

    touching, woken, begun = asyncio.create_task(touch()), 0, time.monotonic()
    while not is_over.is_set():
        woken += bool(await one.watch(timedelta(seconds=0.05)))
    await touching
    # Pauses grow while notifications follow quickly; on a busy machine they may not, and then reports are rare anyway.
    assert 2 <= woken <= 10 + (time.monotonic() - begun) / notify.BUSY_SECONDS
    assert descriptors() == before


def test_an_emptied_notify_file_is_filled_again(tmp_path: Path) -> None:
    path = str(tmp_path / "some.db")
    Path(path).touch()
    heard = notify.InotifyEvents(path)
    file = Path(notify.notify_file_of(path))
    file.write_bytes(b"")
    notifier, connection = Notifier(path), StandardConnection(":memory:")
    connection.has_made_work = True
    notifier.notify(connection)
    assert file.read_bytes()
    notifier.close()
    heard.close()
    connection.close()


def test_nothing_is_written_through_a_link_in_place_of_the_notify_file(tmp_path: Path) -> None:
    path = str(tmp_path / "some.db")
    other = tmp_path / "other"
    other.touch()
    Path(notify.notify_file_of(path)).symlink_to(other)
    notifier, connection = Notifier(path), StandardConnection(":memory:")
    connection.has_made_work = True
    notifier.notify(connection)
    assert not other.read_bytes()
    notifier.close()
    connection.close()
