"""The page about health has every code of a problem, and every reason why a job waits."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


PAGE = (ROOT / "docs" / "howto" / "health.md").read_text(encoding="utf-8")
PROBLEMS, _, REASONS = PAGE.partition("## Why does this job not start?")


def codes_made(name: str) -> set[str]:
    """Return the codes with which the code makes values of a class."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "rota").rglob("*.py"))
    return set(re.findall(rf"\b{name}\(\s*\"([a-z_]+)\"", code))


def codes_in_tables(text: str) -> set[str]:
    """Return the codes in the first column of the tables of a text."""
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", text, flags=re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([a-z_]+)`", row)}


def test_the_table_has_every_code() -> None:
    codes = codes_made("HealthProblem")
    assert len(codes) > 5
    assert codes_in_tables(PROBLEMS) == codes


def test_the_table_has_every_reason() -> None:
    assert codes_in_tables(REASONS) == codes_made("Cause")
