"""The inotify watch on names: whatever may take a name away from a file is recorded, and then the names are checked."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import new_job, new_jobs
from rota.core.errors import StoreUnavailable
from rota.stores.sqlite import SqliteStore, file_identity
from rota.stores.sqlite.driver import FileLost
from rota.stores.sqlite.file_identity import COMMITS_BEFORE_WATCH, FileIdentity, NameProbe, NameWatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "above" / "folder" / "some.db"
    path.parent.mkdir(parents=True)
    path.touch()
    path.with_name("some.db-wal").touch()
    return path


@pytest.fixture
def watch(path: Path) -> Iterator[NameWatch]:
    watch = NameWatch.open(str(path), f"{path}-wal")
    assert watch is not None
    # The first check is always needed.
    assert watch.needs_check()
    watch.mark_checked()
    yield watch
    watch.close()


def replace(path: Path) -> None:
    path.with_name("new").touch()
    path.with_name("new").rename(path)


MISHAPS: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "moved": lambda path: path.rename(path.with_name("moved")),
    "replaced": replace,
    "its folder moved": lambda path: path.parent.rename(path.parent.with_name("moved")),
    "a folder above moved": lambda path: path.parents[1].rename(path.parents[1].with_name("moved")),
    "its folder deleted": lambda path: shutil.rmtree(path.parent),
}


@pytest.mark.parametrize("mishap", MISHAPS)
@pytest.mark.parametrize("name", ["some.db", "some.db-wal"])
def test_what_takes_a_name_away_is_recorded(path: Path, watch: NameWatch, mishap: str, name: str) -> None:
    assert not watch.needs_check()
    MISHAPS[mishap](path.with_name(name))
    assert watch.needs_check()


def test_what_takes_no_name_away_is_not_recorded(path: Path, watch: NameWatch) -> None:
    path.write_bytes(b"some")
    path.with_name("some.db-wal").write_bytes(b"more")
    path.with_name("another").touch()
    path.read_bytes()
    assert not watch.needs_check()


def test_a_recorded_event_is_checked_once(path: Path, watch: NameWatch) -> None:
    path.chmod(0o600)
    assert watch.needs_check()
    # The check was interrupted.
    assert watch.needs_check()
    watch.mark_checked()
    assert not watch.needs_check()


def test_the_names_are_checked_now_and_then_even_without_events(
    watch: NameWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may be mounted over a folder, which inotify does not report."""
    now = time.monotonic()
    monkeypatch.setattr(file_identity, "monotonic", lambda: now + file_identity.LONGEST_UNCHECKED_SECONDS)
    assert watch.needs_check()
    watch.mark_checked()
    assert not watch.needs_check()


def test_where_no_watch_is_possible_there_is_none(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path.parent)
    assert NameWatch.open(str(tmp_path / "link" / "some.db")) is None
    assert NameWatch.open("some.db") is None
    assert NameWatch.open(str(path), str(path.with_name("nobody"))) is None


def test_a_closed_watch_always_needs_a_check(watch: NameWatch) -> None:
    watch.close_after_fork()
    assert watch.needs_check()
    assert watch.needs_check()


@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_lost_file_is_noticed_after_many_commits_too(path: Path, mishap: str) -> None:
    identity = FileIdentity(str(path))
    for _ in range(2 * COMMITS_BEFORE_WATCH):
        identity.check_after_commit()
    assert identity._watch is not None
    MISHAPS[mishap](path)
    with pytest.raises(FileLost):
        identity.check_after_commit()
    identity.close()


def test_a_signal_during_a_check_does_not_hide_what_was_recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = FileIdentity(str(path))
    for _ in range(2 * COMMITS_BEFORE_WATCH):
        identity.check_after_commit()
    path.unlink()

    def interrupted(*_: object) -> bool:
        raise TimeoutError("by a signal")

    with monkeypatch.context() as patched:
        patched.setattr(NameProbe, "belongs_to", interrupted)
        with pytest.raises(TimeoutError):
            identity.check_after_commit()
    with pytest.raises(FileLost):
        identity.check_after_commit()
    identity.close()


async def test_a_busy_store_acknowledges_nothing_once_its_file_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_identity, "COMMITS_BEFORE_WATCH", 3)
    store = await SqliteStore.open(tmp_path / "some.db")
    for job in new_jobs(10):
        await store.insert([job])
    (tmp_path / "some.db-wal").rename(tmp_path / "moved")
    with pytest.raises(StoreUnavailable, match="deleted, moved or replaced"):
        await store.insert([new_job()])
    await store.close()


async def test_a_relative_path_still_works_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that changed its folder was refused everything by a store whose name was relative."""
    monkeypatch.chdir(tmp_path)
    store = await SqliteStore.open("some.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    await store.insert([new_job()])
    assert (await store.census()).total() == 1
    await store.close()
    assert not os.listdir()  # noqa: PTH208 - names will do
