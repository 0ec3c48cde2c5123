"""The SQL statements of this store by name, and the interface that runs them.

Two things besides bound parameters are put into the text of a statement: the schema that the store's URL names, and the
range of ids that a statement is restricted to (see `partitions`). A name may be followed by such a range, as in
`insert_one 17 42`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from rota.core.ids import LARGEST, JobId
from rota.stores.rows import Row
from rota.stores.statements import statements_of

#: Gives the suffix of a statement's name for ids from one to another; see `partitions`.
IdRanges: TypeAlias = Callable[[JobId, JobId], str]
#: The suffix of a statement that is valid for all ids.
ALL_IDS: Final = ""

_text_of: Final = statements_of(__package__)


def id_range(first: int, last: int) -> str:
    """Return the suffix of a statement's name that restricts it to ids from one to another."""
    return f" {first:d} {last:d}"


def all_ids(_first: JobId, _last: JobId) -> str:
    """Return the suffix for all ids, whatever the ids are."""
    return ALL_IDS


def qualifier_of(schema: str | None) -> str:
    """Return what is written before a table's name: the schema and a dot, or nothing if no schema was given."""
    return "" if schema is None else f'"{schema}".'


@lru_cache(maxsize=512)
def statement(name: str, qualifier: str = "") -> str:
    """Return a statement by its name, restricted to a range of ids if the name ends with one."""
    base, *ids = name.split()
    first, last = ids or ("0", str(LARGEST))
    return qualified(_text_of(base), qualifier).replace("{first}", first).replace("{last}", last)


def qualified(text: str, qualifier: str) -> str:
    """Put the schema before the tables' names in a text."""
    return text.replace("{schema}", qualifier)


# Cached: there are few outcomes, and nearly always it is the same.
@lru_cache(maxsize=1024)
def changed_by(status: str) -> int:
    """Return how many rows a statement changed, by its command tag such as "INSERT 0 1"."""
    count = status.rpartition(" ")[2]
    return int(count) if count.isdecimal() else 0


class StatementRunner(Protocol):
    """Runs statements by name, in a transaction of the store or of a caller."""

    async def rows(self, name: str, *arguments: object) -> Sequence[Row]:
        """Run a statement and return its rows."""
        ...

    async def values(self, name: str, *arguments: object) -> list[Any]:
        """Run a statement and return the first column of its rows."""
        ...

    async def run(self, name: str, *arguments: object) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    async def execute(self, command: str) -> object:
        """Run a command that is not in the SQL files: a savepoint."""
        ...
