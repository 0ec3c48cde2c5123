"""Refusal of servers that speak the protocol of PostgreSQL or MySQL but do not keep what the store relies on.

A claim must skip rows that others have locked and see what was committed before it; a server that takes these
statements and does something else would let two workers have one job.
"""

from __future__ import annotations

import re
from typing import Final

from rota.core.errors import InvalidRequest

#: What the version text of a look-alike contains, in lower case, and why it is refused.
_LOOK_ALIKES: Final = (
    ("tidb", "TiDB", "it ignores SKIP LOCKED without an error"),
    ("cockroachdb", "CockroachDB", "it has neither NOTIFY nor advisory locks, and skips rows that are not locked"),
    ("-yb-", "YugabyteDB", "it has not been tested"),
    ("dsql", "Aurora DSQL", "it has neither SKIP LOCKED nor NOTIFY"),
)
_OLDEST: Final = {"PostgreSQL": (14,), "MariaDB": (10, 6), "MySQL": (8, 0, 1)}
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)*")


def refuse_unsuitable(server: str, text: str) -> None:
    """Refuse a server by its version text; `server` is PostgreSQL, MariaDB or MySQL."""
    for mark, name, reason in _LOOK_ALIKES:
        if mark in text.lower():
            raise InvalidRequest(f"store: the server is {name}, and {reason}; use {_known()}", field="store")
    # MariaDB may put the number of an old MySQL in front of its own.
    match = _NUMBERS.search(text.removeprefix("5.5.5-"))
    version = () if match is None else tuple(map(int, match[0].split(".")))
    if version and version < _OLDEST[server]:
        raise InvalidRequest(
            f"store: the server is {server} {match[0] if match else ''}, which is too old; use {_known()}",
            field="store",
        )


def _known() -> str:
    return ", ".join(f"{name} {'.'.join(map(str, oldest))}" for name, oldest in _OLDEST.items()) + " or later"
