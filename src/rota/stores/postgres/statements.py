"""The SQL of this store, and who runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from rota.stores.rows import Row
from rota.stores.statements import statements_of

statement: Final = statements_of(__package__)


def changed_by(status: str) -> int:
    """Say how many rows a statement changed, by what the server calls its outcome: "INSERT 0 1"."""
    count = status.rpartition(" ")[2]
    return int(count) if count.isdecimal() else 0


class Runner(Protocol):
    """Runs statements by the names of their files, in a transaction that is ours or a caller's."""

    async def rows(self, name: str, *arguments: object) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        ...

    async def values(self, name: str, *arguments: object) -> list[Any]:
        """Run a statement and give the first column of the rows it yields."""
        ...

    async def run(self, name: str, *arguments: object) -> int:
        """Run a statement and say how many rows it changed."""
        ...

    async def say(self, command: str) -> object:
        """Give a command that has no file: where the transaction has a point to go back to."""
        ...
