"""The tripwire: whatever may take a name away from a file is noted, and then the names are looked at."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from building import new_job, new_jobs
from rota.core.errors import StoreUnavailable
from rota.stores.sqlite import SqliteStore, files, tripwire
from rota.stores.sqlite.driver import LostFile
from rota.stores.sqlite.files import COMMITS_TO_TRIPWIRE, FileWitness
from rota.stores.sqlite.inodes import Named
from rota.stores.sqlite.tripwire import Tripwire


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "above" / "folder" / "some.db"
    path.parent.mkdir(parents=True)
    path.touch()
    path.with_name("some.db-wal").touch()
    return path


@pytest.fixture
def wire(path: Path) -> Iterator[Tripwire]:
    wire = Tripwire.stretch(str(path), f"{path}-wal")
    assert wire is not None
    # The first look is always needed.
    assert wire.is_touched()
    wire.note_look()
    yield wire
    wire.close()


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
def test_what_takes_a_name_away_is_noted(path: Path, wire: Tripwire, mishap: str, name: str) -> None:
    assert not wire.is_touched()
    MISHAPS[mishap](path.with_name(name))
    assert wire.is_touched()


def test_what_takes_none_away_is_not(path: Path, wire: Tripwire) -> None:
    path.write_bytes(b"some")
    path.with_name("some.db-wal").write_bytes(b"more")
    path.with_name("another").touch()
    path.read_bytes()
    assert not wire.is_touched()


def test_what_was_noted_is_looked_at_once(path: Path, wire: Tripwire) -> None:
    path.chmod(0o600)
    assert wire.is_touched()
    # Whoever was to look was interrupted.
    assert wire.is_touched()
    wire.note_look()
    assert not wire.is_touched()


def test_the_names_are_looked_at_now_and_then_all_the_same(wire: Tripwire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file system may be mounted over a folder, of which nothing is told."""
    now = time.monotonic()
    monkeypatch.setattr(tripwire, "monotonic", lambda: now + tripwire.LONGEST_UNSEEN_SECONDS)
    assert wire.is_touched()
    wire.note_look()
    assert not wire.is_touched()


def test_where_none_can_be_stretched_there_is_none(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path.parent)
    assert Tripwire.stretch(str(tmp_path / "link" / "some.db")) is None
    assert Tripwire.stretch("some.db") is None
    assert Tripwire.stretch(str(path), str(path.with_name("nobody"))) is None


def test_one_that_was_let_go_of_has_the_names_looked_at(wire: Tripwire) -> None:
    wire.forsake()
    assert wire.is_touched()
    assert wire.is_touched()


@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_witness_of_many_commits_tells_what_one_of_few_does(path: Path, mishap: str) -> None:
    witness = FileWitness(str(path))
    for _ in range(2 * COMMITS_TO_TRIPWIRE):
        witness.after_commit()
    assert witness._tripwire is not None
    MISHAPS[mishap](path)
    with pytest.raises(LostFile):
        witness.after_commit()
    witness.close()


def test_a_signal_in_the_midst_of_a_look_does_not_hide_what_was_noted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = FileWitness(str(path))
    for _ in range(2 * COMMITS_TO_TRIPWIRE):
        witness.after_commit()
    path.unlink()

    def interrupted(*_: object) -> bool:
        raise TimeoutError("by a signal")

    with monkeypatch.context() as patched:
        patched.setattr(Named, "has", interrupted)
        with pytest.raises(TimeoutError):
            witness.after_commit()
    with pytest.raises(LostFile):
        witness.after_commit()
    witness.close()


async def test_a_busy_store_acknowledges_nothing_once_its_file_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "COMMITS_TO_TRIPWIRE", 3)
    store = await SqliteStore.open(tmp_path / "some.db")
    for job in new_jobs(10):
        await store.insert([job])
    (tmp_path / "some.db-wal").rename(tmp_path / "moved")
    with pytest.raises(StoreUnavailable, match="deleted, moved or replaced"):
        await store.insert([new_job()])
    await store.close()


async def test_a_store_is_where_it_was_opened_wherever_the_process_goes(
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
