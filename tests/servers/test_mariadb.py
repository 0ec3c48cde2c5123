"""The server that tests start: what happens where there is none, and that none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servers import mariadb
from servers.mariadb import MISSING, require_binary


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TEST_MARIADB", raising=False)
    monkeypatch.setattr(mariadb, "_PATH", "")


@pytest.mark.usefixtures("bare_machine")
def test_on_a_laptop_without_a_server_its_tests_are_skipped_and_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="mariadb-server"):
        require_binary()


@pytest.mark.usefixtures("bare_machine")
def test_in_ci_without_a_server_its_tests_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception) as failure:
        require_binary()
    assert str(failure.value) == MISSING


STARTER = """
import time
from servers.mariadb import shared_server
server = shared_server()
print(server.process.pid, server.folder, flush=True)
time.sleep(600)
"""


def test_a_server_ends_with_the_process_that_started_it_even_if_that_is_killed() -> None:
    require_binary()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    starter = subprocess.Popen([sys.executable, "-c", STARTER], env=environment, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, folder = starter.stdout.readline().split()
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    give_up_at = time.monotonic() + 20
    while _lives(int(pid)) or Path(folder).exists():
        assert time.monotonic() < give_up_at, "the server outlived its tests"
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        # A zombie that was not reaped yet is dead.
        return " Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
