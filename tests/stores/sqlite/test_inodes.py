"""Which file has a name is told without its times, and the same by whichever way it is asked."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.stores.sqlite import inodes
from rota.stores.sqlite.driver import LostFile
from rota.stores.sqlite.files import FileWitness
from rota.stores.sqlite.inodes import Named, inode_in, inode_of, length_of


def _refused(*_: object) -> int:
    return -1


@pytest.fixture(params=["asked alone", "refused", "not there"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on this system, in a container that does not let it through, and on a system without."""
    if request.param != "asked alone":
        monkeypatch.setattr(inodes, "_statx", _refused if request.param == "refused" else None)


@pytest.mark.usefixtures("_way")
def test_a_file_is_told_from_others_by_whichever_way(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"four")
    other.write_bytes(b"")
    assert inode_of(os.fsencode(one)) == inode_in(one.stat())
    assert inode_of(os.fsencode(one)) != inode_of(os.fsencode(other))
    assert (length_of(os.fsencode(one)), length_of(os.fsencode(other))) == (4, 0)
    assert inode_of(b"/dev/null") != inode_of(os.fsencode(one))
    named = Named(os.fsencode(one))
    assert named.has(inode_in(one.stat()))
    assert not named.has(inode_in(other.stat()))


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("ask", [inode_of, length_of, lambda name: Named(name).has((0, 0, 0))])
def test_a_name_that_nobody_has_is_an_error(tmp_path: Path, ask: Callable[[bytes], Any]) -> None:
    with pytest.raises(FileNotFoundError):
        ask(os.fsencode(tmp_path / "nobody"))


@pytest.mark.parametrize(
    ("error", "told"), [(TimeoutError("by a signal"), TimeoutError), (OSError(errno.EACCES, "refused"), LostFile)]
)
def test_a_timeout_by_a_signal_does_not_make_a_file_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, told: type[Exception]
) -> None:
    """It is an OSError too, and the store refused everything from then on."""
    path = tmp_path / "some.db"
    path.touch()
    path.with_name("some.db-wal").touch()
    witness = FileWitness(str(path))

    def interrupted(*_: object) -> bool:
        raise error

    monkeypatch.setattr(Named, "has", interrupted)
    with pytest.raises(told):
        witness()


@pytest.mark.skipif(inodes._statx is None, reason="there is no statx on this system")
def test_the_witness_does_not_ask_when_the_log_was_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks makes the next commit a third longer, on Linux since 6.13."""
    path = tmp_path / "some.db"
    path.touch()
    path.with_name("some.db-wal").touch()

    def asked_for_all(*_: object, **__: object) -> os.stat_result:
        raise AssertionError("asked for the times too")

    monkeypatch.setattr(os, "stat", asked_for_all)
    witness = FileWitness(str(path))
    witness()
