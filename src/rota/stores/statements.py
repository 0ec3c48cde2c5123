"""The SQL of a store: one query, one file, loaded once.

A file may name others that are parts of several, as in `{job_columns}` or `{clock}`; nothing else is ever put into SQL
but bound parameters, and on PostgreSQL the ids between which a statement looks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final

_ONE_ROW: Final = re.compile(r"VALUES (\([?, ]+\))")
#: In this order: a part may name those behind it.
_PLACES: Final = (
    "urgent_lanes", "due_in_lanes", "lease_chosen", "stay", "claim_columns", "job_columns", "schedule_columns",
    "sets_more", "clock",
)  # fmt: skip


def statements_of(package: str) -> Callable[[str], str]:
    """Give what gives the statement of `sql/<name>.sql` in a store's package."""

    @cache
    def statement(name: str) -> str:
        text = _read(package, name)
        for place in _PLACES:
            if "{" + place + "}" in text:
                text = text.replace("{" + place + "}", _read(package, place))
        return text

    return statement


@cache
def for_rows(statement: str, count: int) -> str:
    """Give a statement that takes one row of VALUES the places for `count` of them."""
    return _ONE_ROW.sub(lambda found: "VALUES " + ", ".join([found[1]] * count), statement)


def _read(package: str, name: str) -> str:
    lines = files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
