"""Full and failing disks: every call succeeds or fails, and every acknowledgement is true.

Each sweep lets the first, the second, the third... write (sync, read) of a small life of a store fail, until there is
none left to fail. A full disk is a nuisance: what cannot be written is refused, what is there can be read, and once
there is space all goes on by itself. Any other error leaves the disk in doubt: the store refuses to write any more,
says so, and a restart finds all that was acknowledged.

A sweep takes long, so by default it lets only every third call fail, beginning elsewhere for each kind of fault;
`make crash` leaves none out.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import apsw
import pytest

from builders import new_job, new_jobs
from crash.acknowledgements import Promises
from crash.child_processes import WriterForker, listen
from crash.failing_disk import (
    OF_EVERYTHING,
    Call,
    Connections,
    DiskFault,
    Life,
    live_through,
    open_through,
    troubled_vfs,
)
from crash.power_cut import OFTEN_CHECKPOINTED, SPILLING, examine
from crash.pragma_override import Settings
from crash.recorder import Player, RecordingVfs, Tape
from crash.scratch import DATABASE, lay_down, memory_folder, pick_up
from crash.verification import verify
from crash.writer import Errand
from rota.core.errors import StoreUnavailable
from rota.core.submission import NewJob
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import StandardConnection

FULL = apsw.SQLITE_FULL
FAILED_WRITE = apsw.SQLITE_IOERR_WRITE
FAILED_SYNC = apsw.SQLITE_IOERR_FSYNC
FAILED_READ = apsw.SQLITE_IOERR_READ
#: Every which call fails in turn.
EVERY = int(os.environ.get("ROTA_CRASH_EVERY", "5"))


@pytest.fixture
async def image() -> Mapping[str, bytes]:
    """A database that has been made and closed."""
    with memory_folder() as folder:
        store = await SqliteStore.open(folder / DATABASE)
        await store.close()
        return pick_up(folder / DATABASE)


async def _sweep(
    live: Callable[[DiskFault], Awaitable[list[str]]], make: Callable[[int], DiskFault]
) -> tuple[int, list[str]]:
    """Let one call fail after the other, as many as there are; give about how many were noticed and all complaints."""
    complaints: list[str] = []
    n, noticed = 1 + (make(1).code + make(1).lasts) % EVERY, 0
    while True:
        fault = make(n)
        complaints += [f"{fault.call} {n}: {complaint}" for complaint in await live(fault)]
        noticed += bool(fault.noticed)
        if not fault.failed:
            return noticed * EVERY, complaints
        n += EVERY


@pytest.mark.parametrize(
    ("call", "code", "lasts"),
    [
        pytest.param(Call.WRITE, FULL, False, id="full-for-a-moment"),
        pytest.param(Call.WRITE, FULL, True, id="full"),
        pytest.param(Call.WRITE, FAILED_WRITE, False, id="failed-write"),
        pytest.param(Call.SYNC, FAILED_SYNC, False, id="failed-sync"),
        pytest.param(Call.SYNC, FAILED_SYNC, True, id="no-sync-any-more"),
    ],
)
async def test_whichever_write_or_sync_fails_no_answer_is_a_lie(
    image: Mapping[str, bytes], call: Call, code: int, *, lasts: bool
) -> None:
    noticed, complaints = await _sweep(
        lambda fault: live_through(fault, image, OFTEN_CHECKPOINTED), lambda n: DiskFault(call, n, code, lasts)
    )
    assert complaints == []
    assert noticed > 15


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "lasting"])
async def test_whichever_read_fails_no_answer_is_a_lie(image: Mapping[str, bytes], *, lasts: bool) -> None:
    """With a cache of eight pages, so that there is something to read."""
    noticed, complaints = await _sweep(
        lambda fault: live_through(fault, image, SPILLING), lambda n: DiskFault(Call.READ, n, FAILED_READ, lasts)
    )
    assert complaints == []
    assert noticed > 50


@pytest.mark.parametrize(
    ("call", "code"),
    [
        pytest.param(Call.WRITE, FULL, id="full"),
        pytest.param(Call.WRITE, FAILED_WRITE, id="failed-write"),
        pytest.param(Call.SYNC, FAILED_SYNC, id="failed-sync"),
        pytest.param(Call.READ, FAILED_READ, id="failed-read"),
        pytest.param(Call.OPEN, apsw.SQLITE_IOERR, id="failed-open"),
    ],
)
async def test_whatever_fails_while_a_new_database_is_made_it_can_be_made_afterwards(call: Call, code: int) -> None:
    noticed, complaints = await _sweep(
        lambda fault: open_through(fault, OFTEN_CHECKPOINTED), lambda n: DiskFault(call, n, code, lasts=True)
    )
    assert complaints == []
    assert noticed > 5


async def test_a_power_cut_after_a_failed_sync_loses_nothing_that_was_acknowledged(image: Mapping[str, bytes]) -> None:
    """After a failed sync the kernel may have dropped what it could not write, and called it clean."""
    rng, n = random.Random(1), 0
    while True:
        n += 1
        fault, tape = DiskFault(Call.SYNC, n, FAILED_SYNC), Tape(before=dict(image))
        recording = RecordingVfs(tape)
        with memory_folder() as folder, troubled_vfs(fault, recording.name) as vfs:
            lay_down(image, folder)
            life = Life(fault, folder / DATABASE, Connections(vfs, OFTEN_CHECKPOINTED))
            store = await life.open()
            if store is not None:
                await life.work(store, 1, OF_EVERYTHING)
                player = Player(tape)
                player.play(len(tape.events))
                left = player.folder.surviving(rng)
                await store.close()
                assert [f"sync {n}: {violation}" for violation in await examine(left, life.promises, rng)] == []
        recording.unregister()
        if not fault.failed:
            break
    assert n > 15


async def test_a_store_with_the_standard_driver_goes_on_when_there_is_space_again(tmp_path: Path) -> None:
    """The page limit of SQLite stands for a full disk: it is met within a statement instead of at its end."""
    connections: list[StandardConnection] = []

    def connect(path: str) -> StandardConnection:
        connection = StandardConnection(path)
        connections.append(connection)
        return connection

    store = await SqliteStore.open(tmp_path / DATABASE, connect=connect)
    ((pages,),) = connections[-1].rows("PRAGMA page_count")

    def limit(largest: int) -> None:
        for connection in connections[1:]:  # the first one has been closed again
            connection.rows(f"PRAGMA max_page_count = {largest}")

    limit(pages + 20)
    kept: list[NewJob] = []

    async def insert_until_refused() -> None:
        for job in new_jobs(1000, payload='"' + "x" * 3000 + '"'):
            await store.insert([job])
            kept.append(job)

    with pytest.raises(StoreUnavailable, match="full"):
        await insert_until_refused()
    assert 5 < len(kept) < 100
    for batch in (
        new_jobs(30, payload='"' + "x" * 3000 + '"'),
        new_jobs(50, payload='"' + "x" * 3000 + '"', tags=("a",)),
    ):
        with pytest.raises(StoreUnavailable, match="full"):
            await store.insert(batch)
    assert len(await store.get([job.id for job in kept])) == len(kept)
    limit(pages + 2000)
    last = new_job()
    await store.insert([last])
    assert (await store.census()).total() == len(kept) + 1
    assert await store.check() == []
    await store.close()


@pytest.mark.parametrize("settings", [{}, OFTEN_CHECKPOINTED], ids=["in-the-log", "in-a-checkpoint-first"])
async def test_a_failed_write_under_the_standard_driver_stops_the_store_and_loses_nothing(
    tmp_path: Path, settings: Settings
) -> None:
    """The kernel itself refuses: no file of that process may grow beyond a size.

    With a large log it is the log that cannot grow. With frequent checkpoints the database meets the limit first;
    SQLite keeps silent about that, keeps the pages in the log, and goes on until the log cannot grow either.
    """
    path, promises, errors = tmp_path / DATABASE, Promises(), []
    with WriterForker() as forker:
        child = forker.start(Errand(str(path), seed=1, largest_file=600_000, settings=settings))
        for _, line in listen([child], within=60):
            if line[0] == "error":
                errors.append(line[1])
            else:
                promises.take(line)
        assert child.bury() == 1
    assert promises.acknowledged > 10
    (error,) = errors
    assert "StoreUnavailable" in error
    assert "disk I/O error" in error
    assert "sqlite3." not in error
    # It is the log that could not grow: far beyond the size at which it would have been written back.
    assert path.with_name(f"{DATABASE}-wal").stat().st_size > 550_000
    assert [str(violation) for violation in verify(path, promises)] == []
    store = await SqliteStore.open(path)
    await store.insert([new_job()])
    await store.close()


async def test_reads_go_on_after_writing_has_stopped_for_good(image: Mapping[str, bytes]) -> None:
    fault = DiskFault(Call.SYNC, None, FAILED_SYNC, lasts=True)
    with memory_folder() as folder, troubled_vfs(fault) as vfs:
        lay_down(image, folder)
        store = await SqliteStore.open(folder / DATABASE, connect=Connections(vfs, {}))
        job = new_job()
        await store.insert([job])
        fault.at = fault.seen[Call.SYNC] + 1
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="disk I/O error"):
                await store.insert([new_job()])
        fault.heal()
        with pytest.raises(StoreUnavailable, match=r"stopped after an error of the database.*restart"):
            await store.insert([new_job()])
        assert [one.id for one in await store.get([job.id])] == [job.id]
        assert (await store.census()).total() == 1
        assert await store.check() == []
        await store.close()
        connection = sqlite3.connect(folder / DATABASE)
        assert connection.execute("SELECT id FROM rota_job").fetchall() == [(job.id,)]
        connection.close()
