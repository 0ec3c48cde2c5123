"""Statements with many rows: splitting them into packets, and writing common NULLs into the statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

from rota.stores.rows import Row

#: Characters of the rows in one packet; well below the default limit of servers, 16 MiB.
MAX_PACKET_CHARACTERS: Final = 2_000_000
#: The same in a pipeline: small enough for every server. A server hangs up on a packet that is too large, and the
#: reason is lost behind the commands in flight.
MAX_BATCH_CHARACTERS: Final = 200_000
#: The most rows of a packet, since numbers take room too.
MAX_ROWS: Final = 1_000


#: Ids, and a text for each of them if there are any.
IdsAndTexts = tuple[Sequence[int], Sequence[str] | None]


def split_rows(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), MAX_ROWS):
        part = rows[start : start + MAX_ROWS] if len(rows) > MAX_ROWS else rows
        # Column by column takes a tenth of the time of value by value, and nearly always all fits.
        if sum(_characters_of_column(part, column) for column in range(len(part[0]))) <= MAX_PACKET_CHARACTERS:
            yield part
        else:
            yield from _split_by_row(part)


def split_batch(ids: Sequence[int], texts: Sequence[str] | None) -> Iterator[IdsAndTexts]:
    if texts is None:
        for start in range(0, len(ids), MAX_ROWS):
            yield ids[start : start + MAX_ROWS], None
    elif len(ids) <= MAX_ROWS and sum(map(len, texts)) <= MAX_BATCH_CHARACTERS:
        yield ids, texts
    else:
        for start, end in pairwise([0, *_cuts(texts), len(texts)]):
            yield ids[start:end], texts[start:end]


def rows_per_command(common: Row) -> int:
    """Return how many rows with these common columns fit into one pipelined packet."""
    return max(1, min(MAX_ROWS, MAX_BATCH_CHARACTERS // max(_characters(common), 1)))


def inline_nulls(sql: str, rows: Sequence[Row]) -> tuple[str, Sequence[Row]]:
    """Write NULL into the statement for columns that are NULL in every row: bulk rows need a type for each column."""
    if None not in rows[0]:
        return sql, rows
    columns = list(zip(*rows, strict=True))
    nulls = tuple(place for place, column in enumerate(columns) if column.count(None) == len(rows))
    if not nulls:
        return sql, rows
    kept = [column for place, column in enumerate(columns) if place not in nulls]
    return _with_nulls(sql, nulls), list(zip(*kept, strict=True))


def _cuts(texts: Sequence[str]) -> Iterator[int]:
    """Yield the positions at which a new packet begins."""
    start = size = 0
    for position, text in enumerate(texts):
        if position > start and (size + len(text) > MAX_BATCH_CHARACTERS or position - start == MAX_ROWS):
            yield position
            start, size = position, 0
        size += len(text)


def _split_by_row(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = size = 0
    for position, row in enumerate(rows):
        length = _characters(row)
        if position > start and size + length > MAX_PACKET_CHARACTERS:
            yield rows[start:position]
            start, size = position, 0
        size += length
    yield rows[start:]


def _characters_of_column(rows: Sequence[Row], place: int) -> int:
    """Count the characters in a column, whose values are of one type or NULL."""
    if type(rows[0][place]) is int:
        return 0
    try:
        return sum(map(len, map(itemgetter(place), rows)))
    except TypeError:
        return _characters([row[place] for row in rows])


def _characters(values: Sequence[Any]) -> int:
    """Count the characters of all texts among some values."""
    return sum(len(value) for value in values if isinstance(value, str | bytes))


@lru_cache(maxsize=1024)
def _with_nulls(sql: str, places: tuple[int, ...]) -> str:
    parts = sql.split("%s")
    marks = ("NULL" if place in places else "%s" for place in range(len(parts) - 1))
    return "".join(part + mark for part, mark in zip(parts, (*marks, ""), strict=True))
