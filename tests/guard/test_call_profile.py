"""The call profile of the hot paths: it runs, and the paths do not spread over more modules than they do today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "call_profile.py"


def profiled(*names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *names]
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=120)


@pytest.mark.parametrize(("name", "most"), [("sqlite", 160), ("http", 235)])
def test_a_job_enters_few_modules(name: str, most: int) -> None:
    run = profiled(name)
    figures = re.match(rf"{name}: (\d+) module entries, depth (\d+), ", run.stdout)
    assert figures is not None, run.stderr
    assert 50 < int(figures[1]) <= most
    assert int(figures[2]) <= 15


def test_an_unknown_path_is_refused_with_the_known_ones() -> None:
    run = profiled("redis")
    assert run.returncode == 2
    assert "unknown path redis; take some of: sqlite, http, postgres" in run.stderr
