"""The SQL of this store: one query, one file, loaded once.

A file may name `{job_columns}` or `{schedule_columns}`; nothing else is ever put into SQL but bound parameters.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

_PLACES: Final = ("job_columns", "schedule_columns")


@cache
def statement(name: str) -> str:
    """Give the statement of `sql/<name>.sql`."""
    text = _read(name)
    for place in _PLACES:
        if "{" + place + "}" in text:
            text = text.replace("{" + place + "}", _read(place))
    return text


def _read(name: str) -> str:
    lines = files("rota.stores.sqlite").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
