"""What the benchmark starts ends with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.systems.processes import ProcessGroup, cpu_seconds, families, memory_of

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
#: Starts a child, which starts another in a session of its own, and prints both ids.
PARENT = [
    sys.executable,
    "-c",
    (
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
        "print(child.pid, flush=True); time.sleep(600)"
    ),
]
LIMIT_SECONDS = 60.0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until_ended(*pids: int) -> None:
    give_up_at = time.monotonic() + LIMIT_SECONDS
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < give_up_at, f"{left} live on"
        time.sleep(0.01)


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[ProcessGroup]:
    folder = tmp_path / "run"
    folder.mkdir()
    made = ProcessGroup(folder)
    yield made
    made.close()
    assert not folder.exists()


def test_ending_a_process_ends_what_it_has_started_even_in_another_session(
    process_group: ProcessGroup, tmp_path: Path
) -> None:
    parent = process_group.start(PARENT, os.environ, log=tmp_path / "log", pipes=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert families([parent]) == [parent.pid, child]
    process_group.end([parent], politely=False)
    until_ended(parent.pid, child)


def test_memory_and_time_are_those_of_the_process(process_group: ProcessGroup, tmp_path: Path) -> None:
    sleeper = process_group.start(SLEEPER, os.environ, log=tmp_path / "log")
    memory = memory_of([sleeper.pid])
    assert memory.processes == 1
    assert 0 < memory.proportional <= memory.resident
    assert cpu_seconds([os.getpid()]) > 0
    assert cpu_seconds([]) == 0


def test_a_harness_that_is_killed_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    harness = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import os, sys, time; from pathlib import Path; from bench.systems.processes import ProcessGroup;"
                "folder = Path(sys.argv[1]); group = ProcessGroup(folder);"
                "sleeper = group.start([sys.executable, '-c', 'import time; time.sleep(600)'], os.environ,"
                " log=folder / 'log');"
                "print(sleeper.pid, flush=True); time.sleep(600)"
            ),
            str(folder),
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert harness.stdout is not None
    with harness.stdout:
        sleeper = int(harness.stdout.readline())
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    until_ended(sleeper)
    give_up_at = time.monotonic() + LIMIT_SECONDS
    while folder.exists():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
