"""Files that are deleted, replaced, not accessible or no database: refused with the path and the reason, never served.

The worst of them is a file that vanishes while it is in use: Unix lets the writer go on into a file that has no name
any more, and every answer it gives then is a lie.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import new_job, new_jobs
from crash.apsw_connection import ApswConnection
from crash.scratch import DATABASE
from rota.core.errors import StoreUnavailable
from rota.core.submission import NewJob
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import SqliteConnection, StandardConnection

Connect = Callable[[str], SqliteConnection]

#: The user to switch to when the tests run as root, which has all permissions.
NOBODY = 65534


@pytest.fixture(params=[StandardConnection, ApswConnection], ids=["standard", "apsw"])
def connect(request: pytest.FixtureRequest) -> Connect:
    driver: Connect = request.param
    return driver


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that another user can get to, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="rota-crash-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextlib.contextmanager
def as_a_plain_user() -> Iterator[None]:
    """Switch to an unprivileged user for a while, if the tests run as root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def _permit(path: Path, mode: int, *, folder: int) -> None:
    path.chmod(mode)
    path.parent.chmod(folder)


def _modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


async def _refused(path: Path, connect: Connect, reason: str) -> None:
    """Opening must be refused with a message that names the path and the reason, in words of our own."""
    with pytest.raises(StoreUnavailable, match=re.escape(str(path))) as caught:
        await SqliteStore.open(path, connect=connect)
    assert re.search(reason, str(caught.value))


async def _fill(path: Path, connect: Connect) -> list[NewJob]:
    store = await SqliteStore.open(path, connect=connect)
    jobs = new_jobs(20)
    await store.insert(jobs)
    await store.close()
    return jobs


async def test_a_path_in_a_missing_folder_is_refused(tmp_path: Path, connect: Connect) -> None:
    await _refused(tmp_path / "missing" / DATABASE, connect, "No such file or directory")
    assert not (tmp_path / "missing").exists()


async def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path, connect: Connect) -> None:
    (tmp_path / DATABASE).mkdir()
    await _refused(tmp_path / DATABASE, connect, "directory|unable to open")


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path, connect: Connect) -> None:
    path = tmp_path / DATABASE
    path.write_bytes(b"Dear diary,\n" * 1000)
    await _refused(path, connect, "not a database")
    assert path.read_bytes() == b"Dear diary,\n" * 1000


async def test_a_database_that_was_cut_short_is_refused_or_found_damaged(tmp_path: Path, connect: Connect) -> None:
    path = tmp_path / DATABASE
    await _fill(path, connect)
    os.truncate(path, path.stat().st_size // 2)
    await _refused(path, connect, "malformed")


async def test_a_database_with_a_torn_page_is_found_damaged(tmp_path: Path, connect: Connect) -> None:
    path = tmp_path / DATABASE
    await _fill(path, connect)
    connection = sqlite3.connect(path)
    ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'rota_job'").fetchall()
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 512)
    store = await SqliteStore.open(path, connect=connect)
    assert await store.check() != []
    with pytest.raises(StoreUnavailable, match="malformed"):
        await store.insert([new_job()])
    with pytest.raises(StoreUnavailable, match="stopped after an error of the database"):
        await store.insert([new_job()])
    await store.close()


async def test_a_file_that_we_may_not_write_to_is_refused(public_folder: Path, connect: Connect) -> None:
    path = public_folder / DATABASE
    await _fill(path, connect)
    _permit(path, 0o444, folder=0o777)
    with as_a_plain_user():
        await _refused(path, connect, "[Pp]ermission|read and written|readonly")


async def test_a_file_in_a_folder_that_we_may_not_write_to_is_refused(public_folder: Path, connect: Connect) -> None:
    """SQLite needs to make its log beside the file."""
    path = public_folder / DATABASE
    await _fill(path, connect)
    _permit(path, 0o666, folder=0o555)
    with as_a_plain_user():
        await _refused(path, connect, "[Pp]ermission|unable to open|readonly")


async def test_a_file_that_belongs_to_another_is_refused(public_folder: Path, connect: Connect) -> None:
    path = public_folder / DATABASE
    await _fill(path, connect)
    _permit(path, 0o000 if os.geteuid() else 0o600, folder=0o777)
    with as_a_plain_user():
        await _refused(path, connect, "[Pp]ermission|read and written|unable to open")


async def test_a_new_database_is_for_its_owner_only(tmp_path: Path, connect: Connect) -> None:
    store = await SqliteStore.open(tmp_path / DATABASE, connect=connect)
    await store.insert([new_job()])
    assert _modes(tmp_path) == {f"{DATABASE}{part}": 0o600 for part in ("", "-wal", "-shm", "-notify", "-claims")}
    await store.close()


def _delete(path: Path) -> None:
    path.unlink()


def _replace(path: Path) -> None:
    other = path.with_name("other.db")
    sqlite3.connect(other).close()
    other.touch()
    other.replace(path)


def _move_away(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def _delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def _replace_log(path: Path) -> None:
    _delete_log(path)
    path.with_name(f"{path.name}-wal").touch()


def _delete_all(folder: Path) -> None:
    for file in list(folder.iterdir()):
        file.unlink()


def _delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("harm", [_delete, _replace, _move_away, _delete_log, _replace_log, _delete_folder])
async def test_nothing_is_acknowledged_into_a_file_that_has_lost_its_name(
    tmp_path: Path, connect: Connect, harm: Callable[[Path], None]
) -> None:
    """A store went on for days after an operator had deleted its file, and its next start was empty."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / DATABASE
    store = await SqliteStore.open(path, connect=connect)
    await store.insert(new_jobs(20))
    harm(path)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=re.escape(str(path))) as caught:
            await store.insert([new_job()])
        assert re.search("deleted|replaced|gone|moved", str(caught.value))
    for _ in range(4):  # every reader
        with pytest.raises(StoreUnavailable, match=re.escape(str(path))):
            await store.census()
    await store.close()


@pytest.mark.parametrize("harm", [_delete, _replace, _move_away, _delete_log])
async def test_a_file_that_is_lost_before_anything_was_written_is_noticed_too(
    tmp_path: Path, connect: Connect, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / DATABASE
    store = await SqliteStore.open(path, connect=connect)
    harm(path)
    with pytest.raises(StoreUnavailable, match=re.escape(str(path))):
        await store.insert([new_job()])
    await store.close()


async def test_a_store_that_lost_its_file_leaves_the_new_one_alone(tmp_path: Path, connect: Connect) -> None:
    """A restarted process makes a new file in the place of a deleted one; the old one must not close into it."""
    path = tmp_path / DATABASE
    old = await SqliteStore.open(path, connect=connect)
    await old.insert(new_jobs(20))
    _delete_all(tmp_path)
    fresh = await SqliteStore.open(path, connect=connect)
    kept = new_jobs(30)
    await fresh.insert(kept)
    with pytest.raises(StoreUnavailable):
        await old.insert([new_job()])
    await old.close()
    last = new_job()
    await fresh.insert([last])
    assert (await fresh.census()).total() == 31
    await fresh.close()
    again = await SqliteStore.open(path, connect=connect)
    assert (await again.census()).total() == 31
    assert await again.check() == []
    await again.close()
