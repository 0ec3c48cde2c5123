"""The log is preallocated ahead of commits, seldom and in time, and nothing depends on it."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest

from builders import new_job
from rota.core.errors import StoreUnavailable
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import StandardConnection
from rota.stores.sqlite.file_identity import file_id_in
from rota.stores.sqlite.notify import Notifier
from rota.stores.sqlite.wal_growth import (
    COMMITS_BETWEEN_CHECKS,
    FREE_BYTES,
    MINIMUM_BYTES,
    TARGET_BYTES,
    WalPreallocator,
)

#: Enough to make the log longer a few times.
COMMITS = 400


async def _fill(store: SqliteStore, log: Path, commits: int) -> list[int]:
    """Commit jobs one by one, and say how long the log was after each."""
    lengths = []
    for _ in range(commits):
        await store.insert([new_job()])
        lengths.append(_length(log))
    return lengths


def _length(log: Path) -> int:
    return log.stat().st_size


def _end(log: Path) -> bytes:
    return log.read_bytes()[-4_120:]


async def test_nearly_no_commit_makes_the_log_longer(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    store = await SqliteStore.open(path)
    lengths = await _fill(store, tmp_path / "some.db-wal", COMMITS)
    await store.close()
    growths = sum(after > before for before, after in pairwise(lengths))
    assert growths < COMMITS / 5


async def test_a_log_with_zeros_at_its_end_is_read_like_any_other(tmp_path: Path) -> None:
    """As after the death of the process in its midst: the files as they lie there, with nobody to close them."""
    path, copy = tmp_path / "some.db", tmp_path / "copy.db"
    store = await SqliteStore.open(path)
    await _fill(store, tmp_path / "some.db-wal", COMMITS)
    for part in ("", "-wal"):
        shutil.copy(f"{path}{part}", f"{copy}{part}")
    assert _end(tmp_path / "copy.db-wal") == bytes(4_120)
    again = await SqliteStore.open(copy)
    assert (await again.census()).total() == COMMITS
    assert await again.check() == []
    await again.insert([new_job()])
    await again.close()
    await store.close()


async def test_a_short_log_is_left_as_it_is(tmp_path: Path) -> None:
    """Most programs submit a job or two, to a database that is there."""
    await (await SqliteStore.open(tmp_path / "some.db")).close()
    store = await SqliteStore.open(tmp_path / "some.db")
    lengths = await _fill(store, tmp_path / "some.db-wal", 3)
    await store.close()
    assert lengths[-1] < MINIMUM_BYTES


async def test_what_one_process_has_added_the_others_do_not_add_to(tmp_path: Path) -> None:
    """Each took the zeros of the others for commits, and after a few of those the log had its full 16 MB."""
    stores = [await SqliteStore.open(tmp_path / "some.db") for _ in range(3)]
    log = tmp_path / "some.db-wal"
    for _ in range(COMMITS_BETWEEN_CHECKS * 5):
        for store in stores:
            await _fill(store, log, 1)
    used = len(log.read_bytes().rstrip(b"\0"))
    assert used < _length(log) < 3 * used
    for store in stores:
        await store.close()


class Written:
    """A log of some length with a connection, and a preallocator."""

    def __init__(self, folder: Path, pages: int = 30, page_size: int = 4_096) -> None:
        self._page_size = page_size
        self.path = str(folder / "bare.db")
        self.log = folder / "bare.db-wal"
        self.connection = StandardConnection(self.path)
        self.connection.rows(f"PRAGMA page_size = {page_size}")
        self.connection.rows("PRAGMA journal_mode = WAL")
        self.connection.rows("PRAGMA wal_autocheckpoint = 0")
        self.connection.run("CREATE TABLE page (text TEXT)")
        self.write(pages)
        self.preallocator = self.another()

    def another(self) -> WalPreallocator:
        """Make a preallocator, as every process has one."""
        return WalPreallocator(os.fsencode(self.log), file_id_in(self.log.stat()))

    def write(self, pages: int) -> None:
        self.connection.run("INSERT INTO page VALUES (zeroblob(?))", (self._page_size * pages,))

    def look(self) -> int:
        """Have it look once, and say how long the log is then."""
        for _ in range(COMMITS_BETWEEN_CHECKS):
            self.preallocator.after_commit(self.connection)
        return self.length()

    def length(self) -> int:
        return _length(self.log)


def test_it_is_made_longer_when_the_end_is_near_and_not_before(tmp_path: Path) -> None:
    written = Written(tmp_path, pages=100)
    before = written.length()
    assert written.look() == 2 * before
    assert written.look() == 2 * before
    written.write(25)
    assert written.look() == 2 * before
    written.write(20)
    assert written.length() == 2 * before, "no commit has made it longer"
    assert written.look() == 4 * before
    other = sqlite3.connect(written.path, isolation_level=None)
    assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    other.close()
    written.connection.close()


def test_what_one_process_has_made_longer_others_leave_as_it_is(tmp_path: Path) -> None:
    """Each had gone by what it had made itself, and by turns they filled the log with zeros at once."""
    written = Written(tmp_path, pages=200)
    before = written.length()
    assert written.look() == 2 * before
    written.preallocator = written.another()
    assert written.look() == 2 * before
    written.connection.close()


@pytest.mark.parametrize("page", [512, 1_024, 65_536])
def test_pages_may_have_any_size(tmp_path: Path, page: int) -> None:
    written = Written(tmp_path, pages=200, page_size=page)
    # So much that there is room then.
    while written.length() < 2 * FREE_BYTES:
        written.look()
        written.write(10)
    longer = written.look()
    assert written.look() == longer
    written.write(1)
    assert written.look() == longer
    written.connection.close()


def test_it_is_made_no_longer_than_it_gets(tmp_path: Path) -> None:
    written = Written(tmp_path)
    while written.length() < TARGET_BYTES - 500_000:
        written.write(100)
        written.look()
    written.write(20)
    written.look()
    assert written.look() == TARGET_BYTES
    written.write(1_000)
    longer = written.length()
    assert longer > TARGET_BYTES
    assert written.look() == longer
    written.connection.close()


def test_a_log_that_was_cut_off_is_made_longer_anew(tmp_path: Path) -> None:
    """Tools for backups do that to it, now and then."""
    written = Written(tmp_path)
    while written.look() < TARGET_BYTES / 2:
        written.write(100)
    other = StandardConnection(written.path)
    assert other.rows("PRAGMA wal_checkpoint(TRUNCATE)") == [(0, 0, 0)]
    other.close()
    assert written.look() == 0
    written.write(30)
    before = written.length()
    assert written.look() == 2 * before
    written.connection.close()


def test_a_log_that_is_cut_off_before_the_lock_is_had_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Written(tmp_path)
    other = StandardConnection(written.path)
    begin = written.connection.run

    def late(sql: str) -> int:
        other.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return begin(sql)

    monkeypatch.setattr(written.connection, "run", late)
    assert written.look() == 0
    monkeypatch.undo()
    written.write(5)
    before = written.length()
    assert written.look() == before < MINIMUM_BYTES
    other.close()
    written.connection.close()


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "ROLLBACK"])
def test_a_timeout_by_a_signal_is_not_taken_for_an_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """It is an OSError too. Passed over in silence, it left the lock with us, and what came next was not committed."""
    written = Written(tmp_path)
    run = written.connection.run

    def late(sql: str) -> int:
        if sql == statement:
            monkeypatch.undo()
            if sql != "ROLLBACK":
                run(sql)
            raise TimeoutError("by a signal")
        return run(sql)

    monkeypatch.setattr(written.connection, "run", late)
    with pytest.raises(TimeoutError):
        written.look()
    written.connection.run("ROLLBACK")
    written.connection.close()


def test_while_another_process_writes_it_is_left_alone(tmp_path: Path) -> None:
    written = Written(tmp_path)
    other = StandardConnection(written.path)
    other.run("BEGIN IMMEDIATE")
    before = written.length()
    assert written.look() == before
    other.run("COMMIT")
    assert written.look() == 2 * before
    other.close()
    written.connection.close()


def test_a_log_that_was_put_in_its_place_is_left_alone(tmp_path: Path) -> None:
    """A process that writes to that one has a lock on another file."""
    written = Written(tmp_path)
    before = written.length()
    written.log.rename(tmp_path / "moved")
    written.log.write_bytes(b"x" * 100_000)
    assert written.look() == 100_000
    assert _length(tmp_path / "moved") == before
    written.connection.run("BEGIN IMMEDIATE")
    written.connection.run("ROLLBACK")
    written.connection.close()


async def test_where_the_log_is_lost_before_the_store_is_open_the_store_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error of the system's, which nobody who opens a store is prepared for."""

    def lose(path: str) -> Notifier:
        (tmp_path / "some.db-wal").unlink()
        return Notifier(path)

    monkeypatch.setattr("rota.stores.sqlite.store.Notifier", lose)
    with pytest.raises(StoreUnavailable):
        await SqliteStore.open(tmp_path / "some.db")


def test_where_there_is_no_room_commits_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(tmp_path)
    before = written.length()
    tries = []

    def full(_: int, zeros: bytes, __: int) -> int:
        tries.append(len(zeros))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    assert written.look() == before
    assert tries == [before]
    written.write(1)
    assert written.length() > before
    written.connection.close()
