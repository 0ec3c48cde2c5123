"""Several processes on one file: long readers, processes that start, end or die, and the effect on the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from builders import new_job, new_jobs
from crash.acknowledgements import Promises
from crash.child_processes import WriterForker, listen
from crash.scratch import DATABASE
from crash.verification import verify
from crash.writer import Errand
from rota.core.submission import NewJob
from rota.stores.sqlite import SqliteStore

MEGABYTE = 1 << 20
#: As the store sets them: to this a log that has grown is cut, and at this it is written back.
LARGEST_IDLE_LOG = 64 * MEGABYTE
USUAL_LOG = 16 * MEGABYTE

_LONG_READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
while True:
    print(*connection.execute("SELECT count(*) FROM rota_job").fetchone(), flush=True)
    if not sys.stdin.readline().strip():
        break
connection.close()
"""

#: Holds the locks of a process that rebuilds the wal-index, after another one died while it wrote the index's head.
_REPAIRER = """
import fcntl, os, struct, sys
file = os.open(sys.argv[1] + "-shm", os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX, 3, 120)  # the locks for writing, for checkpoints and for recovery
os.pwrite(file, b"half a head", 0)
print("repairing", flush=True)
sys.stdin.readline()
"""


@contextmanager
def _neighbour(program: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program beside us that says a line, waits for one, and ends with our interest in it."""
    arguments = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _heavy_jobs(number: int) -> list[NewJob]:
    return new_jobs(number, payload='"' + "x" * 200_000 + '"')


async def test_the_log_of_a_busy_store_stays_small(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    store = await SqliteStore.open(path)
    largest = 0
    for _ in range(30):
        await store.insert(_heavy_jobs(10))
        largest = max(largest, path.with_name(f"{DATABASE}-wal").stat().st_size)
    await store.close()
    assert largest < 1.5 * USUAL_LOG


async def test_a_long_reader_lets_the_log_grow_and_when_it_is_gone_the_log_is_bounded_again(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    log = path.with_name(f"{DATABASE}-wal")
    store = await SqliteStore.open(path)
    await store.insert(new_jobs(7))
    with _neighbour(_LONG_READER, path) as reader:
        assert _hear(reader) == "7"
        for _ in range(40):
            await store.insert(_heavy_jobs(10))
        grown = log.stat().st_size
        assert grown > LARGEST_IDLE_LOG
        _tell(reader, "again")
        assert _hear(reader) == "7"
        _tell(reader, "")
    largest = 0
    for number in range(20):
        await store.insert(_heavy_jobs(10))
        if number > 1:  # one commit writes the log back, the next begins it anew
            largest = max(largest, log.stat().st_size)
    assert largest <= LARGEST_IDLE_LOG
    assert (await store.census()).total() == 607
    await store.close()
    assert not log.exists()


async def test_a_reader_waits_while_another_process_repairs_the_log_and_is_served(tmp_path: Path) -> None:
    """Readers never wait, with this one exception: `database is locked` is not an answer."""
    path = tmp_path / DATABASE
    store = await SqliteStore.open(path)
    await store.insert(new_jobs(7))
    with _neighbour(_REPAIRER, path) as repairer:
        assert _hear(repairer) == "repairing"
        readings = [asyncio.create_task(store.census()) for _ in range(4)]
        writing = asyncio.create_task(store.insert([new_job()]))
        watching = asyncio.create_task(store.watch(timedelta(milliseconds=50)))
        done, _ = await asyncio.wait([*readings, writing, watching], timeout=0.3)
        assert [task.exception() for task in done] == [None] * len(done)
        _tell(repairer, "enough")
    await watching
    await writing
    assert {(await reading).total() for reading in readings} <= {7, 8}
    assert (await store.census()).total() == 8
    assert await store.check() == []
    await store.close()


async def test_a_store_opens_while_another_process_repairs_the_log(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    first = await SqliteStore.open(path)
    await first.insert(new_jobs(7))
    with _neighbour(_REPAIRER, path) as repairer:
        assert _hear(repairer) == "repairing"
        _tell(repairer, "enough soon")
        second = await SqliteStore.open(path)
    assert (await second.census()).total() == 7
    await second.close()
    await first.close()


def test_twenty_processes_on_one_file_never_hear_that_it_is_locked(tmp_path: Path) -> None:
    """Half of them stay, the others come and go."""
    path, promises = tmp_path / DATABASE, Promises()
    with WriterForker() as forker:
        children = [
            forker.start(Errand(str(path), number, number=number, tasks=2, answers_per_visit=5 if number % 2 else None))
            for number in range(20)
        ]
        for _, line in listen(children, within=60):
            promises.take(line)
            if promises.acknowledged >= 800:
                break
        for child in children:
            child.dismiss()
        for _, line in listen(children, within=60):
            promises.take(line)
        endings = [child.bury() for child in children]
    assert [str(violation) for violation in verify(path, promises)] == []
    assert endings == [0] * 20
    assert promises.acknowledged >= 800
    assert max(promises.slowest.values()) < 10_000
