from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rota.core.submission import NewJob
from rota.core.value import value


@value
class Point:
    x: int
    y: int = 0


def test_values_are_equal_and_hash_by_their_fields() -> None:
    assert Point(1) == Point(1, 0)
    assert Point(1) != Point(2)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


def test_a_value_has_no_place_for_anything_but_its_fields() -> None:
    with pytest.raises(AttributeError):
        NewJob(1, "mail").color = "red"  # type: ignore[arg-type, attr-defined]


def test_the_type_checker_refuses_to_change_a_value(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from rota.core.identity import JobId\n"
        "from rota.core.submission import NewJob\n"
        "job = NewJob(JobId(1), 'mail')\n"
        "job.type = 'other'\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "read-only" in found.stdout
