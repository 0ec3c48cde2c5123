"""Named SQL statements of a store, loaded once from its `sql/*.sql` files.

A file holds the statements of one family of verbs. Each begins with a line `-- name: claim_lane`, followed by a comment
that says what it does and which index serves it. A statement may contain fragments that several share, written as
`{job_columns}`; nothing else is ever put into SQL but bound parameters, and on PostgreSQL the range of ids to which a
statement is restricted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final

_ONE_ROW: Final = re.compile(r"VALUES (\([?, ]+\))")
_NAME: Final = re.compile(r"^-- name: *(\w+)\s*$")
_FRAGMENT: Final = re.compile(r"\{(\w+)\}")


def statements_of(package: str) -> Callable[[str], str]:
    """Return a function that gives the statement of a name, from the SQL files of a store's package.

    A store that needs no lock where others do has an empty statement of that name.
    """

    @cache
    def texts() -> dict[str, str]:
        by_name: dict[str, str] = {}
        for name, text in _read(package):
            if name in by_name:
                raise ValueError(f"{package}: two SQL statements are named {name!r}")
            by_name[name] = text
        return by_name

    @cache
    def statement(name: str) -> str:
        return _FRAGMENT.sub(lambda part: statement(part[1]) if part[1] in texts() else part[0], texts()[name])

    return statement


@cache
def for_rows(statement: str, count: int) -> str:
    """Return a statement with one row of VALUES as a statement with `count` rows of placeholders."""
    return _ONE_ROW.sub(lambda match: "VALUES " + ", ".join([match[1]] * count), statement)


def _read(package: str) -> Iterator[tuple[str, str]]:
    folder = files(package).joinpath("sql")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".sql"):
            yield from _split(file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))


def _split(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each statement of a file. A file without names is one statement, named as the file."""
    lines: list[str] = []
    is_named = False
    for line in text.splitlines():
        if match := _NAME.match(line):
            if is_named or any(lines):
                yield name, _joined(lines)
            name, lines, is_named = match[1], [], True
        elif not line.startswith("--"):
            lines.append(line)
    yield name, _joined(lines)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).strip().rstrip(";")
