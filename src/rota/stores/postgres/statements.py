"""The SQL statements of this store by name, and the interface that runs them.

A parameter is written as a number (`$1`), or as a name (`:key`) in statements of verbs that all stores share; names are
numbered in the order in which they first appear.

Two things besides bound parameters are put into the text of a statement: the schema that the store's URL names, and the
range of ids that a statement is restricted to (see `partitions`). A name may be followed by such a range, as in
`insert_one 17 42`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from rota.core.ids import LARGEST, JobId
from rota.stores.rows import Row
from rota.stores.statements import statements_of
from rota.stores.text_codec import decode_row, encode_text

#: Gives the suffix of a statement's name for ids from one to another; see `partitions`.
IdRanges: TypeAlias = Callable[[JobId, JobId], str]
#: The suffix of a statement that is valid for all ids.
ALL_IDS: Final = ""

#: A named parameter; not a cast.
_NAMED: Final = re.compile(r"(?<![:\w]):([a-z_]+)")

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
    text = _text_of(base).replace("{first}", first).replace("{last}", last)
    numbers = {key: f"${number}" for number, key in enumerate(parameter_names(name), start=1)}
    return qualified(_NAMED.sub(lambda found: numbers[found[1]], text), qualifier)


@cache
def parameter_names(name: str) -> tuple[str, ...]:
    """Return the names of a statement's parameters, in the order of their numbers."""
    return tuple(dict.fromkeys(_NAMED.findall(_text_of(name.partition(" ")[0]))))


def qualified(text: str, qualifier: str) -> str:
    """Put the schema before the tables' names in a text."""
    return text.replace("{schema}", qualifier)


# Cached: there are few outcomes, and nearly always it is the same.
@lru_cache(maxsize=1024)
def changed_by(status: str) -> int:
    """Return how many rows a statement changed, by its command tag such as "INSERT 0 1"."""
    count = status.rpartition(" ")[2]
    return int(count) if count.isdecimal() else 0


class StatementRunner(ABC):
    """Runs statements by name, in a transaction of the store or of a caller.

    The verbs of this store number their parameters (`$1`). Those that all stores share name them (`:key`), and see a
    `StoreSession`; their texts are escaped, because PostgreSQL refuses some characters.
    """

    __slots__ = ()

    @abstractmethod
    async def rows(self, name: str, *arguments: object) -> Sequence[Row]:
        """Run a statement and return its rows."""

    @abstractmethod
    async def run(self, name: str, *arguments: object) -> int:
        """Run a statement and return how many rows it changed."""

    @abstractmethod
    async def execute(self, command: str) -> object:
        """Run a command that is not in the SQL files: a savepoint."""

    async def values(self, name: str, *arguments: object) -> list[Any]:
        """Run a statement and return the first column of its rows."""
        return [row[0] for row in await self.rows(name, *arguments)]

    async def select(self, name: str, /, **parameters: object) -> Sequence[Row]:
        return [decode_row(row) for row in await self.rows(name, *_ordered(name, parameters))]

    async def select_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> Sequence[Row]:
        return await self.select(name, keys=list(keys), **parameters)

    async def change(self, name: str, /, **parameters: object) -> int:
        return await self.run(name, *_ordered(name, parameters))

    async def change_by(self, name: str, keys: Sequence[int] | Sequence[str], /, **parameters: object) -> int:
        return await self.change(name, keys=list(keys), **parameters)

    async def put(self, name: str, /, **parameters: object) -> bool:
        return bool(await self.change(name, **parameters))

    async def append(self, name: str, /, **parameters: object) -> None:
        await self.change(name, **parameters)

    async def change_rows(self, name: str, rows: Sequence[Mapping[str, object]], /, **parameters: object) -> None:
        """Run a statement for all rows at once: it gets a list for each of their parameters."""
        columns = {key: [row[key] for row in rows] for key in (rows[0] if rows else ())}
        if columns:
            await self.change(name, **columns, **parameters)

    async def lock(self, name: str, /, **parameters: object) -> None:
        await self.change(name, **parameters)

    def note_work(self) -> None:  # noqa: B027 - not every runner has to do anything
        """Do nothing: the store notifies by itself, after the commit."""

    def note_times(self) -> None:  # noqa: B027 - not every runner has to do anything
        """Do nothing, as `note_work`."""


def _ordered(name: str, parameters: Mapping[str, object]) -> list[object]:
    """Return named parameters in the order of their numbers."""
    values = [parameters[key] for key in parameter_names(name)]
    return [encode_text(value) if isinstance(value, str) else value for value in values]
