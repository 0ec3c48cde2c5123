"""Loading Rota: what cannot be loaded says why."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _said(program: str) -> str:
    """Return the last line that a program says as it fails."""
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    return ended.stderr.splitlines()[-1]


def test_the_true_error_is_said_when_a_name_cannot_be_loaded() -> None:
    """It said that Rota has no such name."""
    said = _said("import os; del os.register_at_fork; from rota import Rota")
    assert said == "ImportError: cannot load 'Rota' from 'rota': module 'os' has no attribute 'register_at_fork'"


def test_a_name_that_does_not_exist_cannot_be_imported() -> None:
    assert _said("from rota import Retri").startswith("ImportError: cannot import name 'Retri' from 'rota'")


@pytest.mark.parametrize("program", ["from rota import Rota", "import rota.cli.main"])
def test_windows_is_refused_in_one_clear_line(program: str) -> None:
    said = _said(f"import sys; sys.platform = 'win32'; {program}")
    assert said.startswith("ImportError: Rota runs on Linux and macOS only")


def test_the_readme_and_the_classifiers_name_the_same_systems() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    systems = {one for one in project["classifiers"] if one.startswith("Operating System")}
    assert systems == {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"}
    assert "Linux and macOS" in (ROOT / "README.md").read_text(encoding="utf-8")
