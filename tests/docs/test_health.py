"""The page about health has every code of a problem."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_has_every_code() -> None:
    page = (ROOT / "docs" / "howto" / "health.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "rota").rglob("*.py"))
    codes = re.findall(r"\bHealthProblem\(\s*\"(\w+)\"", code)
    assert len(codes) > 5
    assert set(re.findall(r"^\| `([a-z_]+)` \|", page, flags=re.MULTILINE)) == set(codes)
