"""Many rows for one statement: how they are cut into packets, and what is said of them only once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

from rota.stores.rows import Row

#: Rows of this many characters go in one packet; well below the 16 MiB that servers take unless told otherwise.
LARGEST_PACKET: Final = 2_000_000
#: In a flight, of this many: even the smallest server takes them. What it finds too large it answers by hanging up, and
#: the reason is lost among what was sent behind it.
LARGEST_IN_FLIGHT: Final = 200_000
#: And no more rows than this, for numbers take room too.
MOST_ROWS: Final = 1_000


#: Ids, and a text for each of them if there are any.
Load = tuple[Sequence[int], Sequence[str] | None]


def packets(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Cut rows into such as fit into one packet."""
    for start in range(0, len(rows), MOST_ROWS):
        some = rows[start : start + MOST_ROWS] if len(rows) > MOST_ROWS else rows
        # Column by column is a tenth of the work of value by value, and nearly always all fits.
        if sum(_characters_of_column(some, place) for place in range(len(some[0]))) <= LARGEST_PACKET:
            yield some
        else:
            yield from _small_packets(some)


def loads(ids: Sequence[int], texts: Sequence[str] | None) -> Iterator[Load]:
    """Cut ids and texts into such as fit into one packet of a flight."""
    if texts is None:
        for start in range(0, len(ids), MOST_ROWS):
            yield ids[start : start + MOST_ROWS], None
    elif len(ids) <= MOST_ROWS and sum(map(len, texts)) <= LARGEST_IN_FLIGHT:
        yield ids, texts
    else:
        for start, end in pairwise([0, *_cuts(texts), len(texts)]):
            yield ids[start:end], texts[start:end]


def most_alike(common: Row) -> int:
    """Say how many rows that have so much in common fit into one packet of a flight."""
    return max(1, min(MOST_ROWS, LARGEST_IN_FLIGHT // max(_characters(common), 1)))


def without_nulls(sql: str, rows: Sequence[Row]) -> tuple[str, Sequence[Row]]:
    """Write NULL into the statement for what is NULL in every row: the server must be told a type for the rest."""
    if None not in rows[0]:
        return sql, rows
    columns = list(zip(*rows, strict=True))
    nulls = tuple(place for place, column in enumerate(columns) if column.count(None) == len(rows))
    if not nulls:
        return sql, rows
    kept = [column for place, column in enumerate(columns) if place not in nulls]
    return _with_nulls(sql, nulls), list(zip(*kept, strict=True))


def _cuts(texts: Sequence[str]) -> Iterator[int]:
    """Say before which texts a new packet begins."""
    start = size = 0
    for position, text in enumerate(texts):
        if position > start and (size + len(text) > LARGEST_IN_FLIGHT or position - start == MOST_ROWS):
            yield position
            start, size = position, 0
        size += len(text)


def _small_packets(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = size = 0
    for position, row in enumerate(rows):
        length = _characters(row)
        if position > start and size + length > LARGEST_PACKET:
            yield rows[start:position]
            start, size = position, 0
        size += length
    yield rows[start:]


def _characters_of_column(rows: Sequence[Row], place: int) -> int:
    """Count the characters in a column, which is all of one kind, or NULL."""
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
