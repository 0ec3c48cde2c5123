"""The SQL of this store, and who runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from rota.core.identity import LARGEST, JobId
from rota.stores.rows import Row
from rota.stores.statements import statements_of

#: Says for ids from one to another how the names of statements end that are made for them; see `archive`.
Endings: TypeAlias = Callable[[JobId, JobId], str]
#: The end of a name that is made for all ids.
ANYWHERE: Final = ""

_text_of: Final = statements_of(__package__)


def among(first: int, last: int) -> str:
    """Give the end of a statement's name that is made for ids from one to another."""
    return f" {first:d} {last:d}"


def anywhere(_first: JobId, _last: JobId) -> str:
    """Have statements made for all ids."""
    return ANYWHERE


@lru_cache(maxsize=512)
def statement(name: str) -> str:
    """Give a statement by the name of its file; what follows that says for which ids it is made."""
    file, *ids = name.split()
    first, last = ids or ("0", str(LARGEST))
    return _text_of(file).replace("{first}", first).replace("{last}", last)


# Remembered: there are few outcomes, and nearly always it is this one.
@lru_cache(maxsize=1024)
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
