"""The identity of a file is read without its times, and is the same by statx and by stat."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.stores.sqlite import file_identity
from rota.stores.sqlite.driver import FileLost
from rota.stores.sqlite.file_identity import FileIdentity, NameProbe, file_id, file_id_in, file_size


def _refused(*_: object) -> int:
    return -1


@pytest.fixture(params=["statx", "refused", "missing"])
def _method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """statx as on this system, refused as in some containers, and missing."""
    if request.param != "statx":
        monkeypatch.setattr(file_identity, "_statx", _refused if request.param == "refused" else None)


@pytest.mark.usefixtures("_method")
def test_a_file_is_told_from_others_by_whichever_method(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"four")
    other.write_bytes(b"")
    assert file_id(os.fsencode(one)) == file_id_in(one.stat())
    assert file_id(os.fsencode(one)) != file_id(os.fsencode(other))
    assert (file_size(os.fsencode(one)), file_size(os.fsencode(other))) == (4, 0)
    assert file_id(b"/dev/null") != file_id(os.fsencode(one))
    named = NameProbe(os.fsencode(one))
    assert named.belongs_to(file_id_in(one.stat()))
    assert not named.belongs_to(file_id_in(other.stat()))


@pytest.mark.usefixtures("_method")
@pytest.mark.parametrize("ask", [file_id, file_size, lambda name: NameProbe(name).belongs_to((0, 0, 0))])
def test_a_missing_name_is_an_error(tmp_path: Path, ask: Callable[[bytes], Any]) -> None:
    with pytest.raises(FileNotFoundError):
        ask(os.fsencode(tmp_path / "nobody"))


@pytest.mark.parametrize(
    ("error", "told"), [(TimeoutError("by a signal"), TimeoutError), (OSError(errno.EACCES, "refused"), FileLost)]
)
def test_a_timeout_by_a_signal_does_not_make_a_file_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, told: type[Exception]
) -> None:
    """It is an OSError too, and the store refused everything from then on."""
    path = tmp_path / "some.db"
    path.touch()
    path.with_name("some.db-wal").touch()
    identity = FileIdentity(str(path))

    def interrupted(*_: object) -> bool:
        raise error

    monkeypatch.setattr(NameProbe, "belongs_to", interrupted)
    with pytest.raises(told):
        identity.check()


@pytest.mark.skipif(file_identity._statx is None, reason="there is no statx on this system")
def test_the_witness_does_not_ask_when_the_log_was_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them makes the next commit a third longer, on Linux since 6.13."""
    path = tmp_path / "some.db"
    path.touch()
    path.with_name("some.db-wal").touch()

    def stat_is_forbidden(*_: object, **__: object) -> os.stat_result:
        raise AssertionError("read the times too")

    monkeypatch.setattr(os, "stat", stat_is_forbidden)
    identity = FileIdentity(str(path))
    identity.check()
