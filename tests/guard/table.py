"""The table of expected figures, and its comparison with measured ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

Figures = Mapping[str, int]
FILE: Final = Path(__file__).parent / "expected.json"
#: Generous: small changes of ours, and of the drivers, shall pass. A loop over the jobs too many shall not.
MARGIN: Final = 0.25
#: The part of the table that holds for every version of Python.
STORES: Final = "stores"
RENEW: Final = "if this is meant, `make guard` writes the table anew: commit it, and say why in the commit"


def python_version() -> str:
    """Return the part of the table that holds for this Python: bytecode differs between minor versions."""
    return f"python {sys.version_info.major}.{sys.version_info.minor}"


def expected(part: str, file: Path = FILE) -> Figures | None:
    """Read a part of the table; None when there is none."""
    table: dict[str, dict[str, int]] = json.loads(file.read_text(encoding="utf-8"))
    return table.get(part)


def write(part: str, figures: Figures, file: Path = FILE) -> None:
    """Write a part of the table anew, and leave the others."""
    table = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    table[part] = dict(figures)
    file.write_text(json.dumps(dict(sorted(table.items())), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def complaints(table: Figures, seen: Figures) -> list[str]:
    """Return what has grown beyond the margin, or is not in the table; a line for each."""
    lines = []
    for name, count in seen.items():
        before = table.get(name)
        if before is None:
            lines.append(f"{name}: {count:,} seen, and the table has no figure for it")
        elif count > before * (1 + MARGIN):
            growth = f"+{count / before - 1:.0%}" if before else "from nothing"
            lines.append(f"{name} grew from {before:,} to {count:,} ({growth}; up to {MARGIN:.0%} pass)")
    return lines


def gone(table: Figures, seen: Figures, prefix: str) -> list[str]:
    """Name the figures of a prefix that are in the table and are not measured any more."""
    return [name for name in table if name.startswith(prefix) and name not in seen]
