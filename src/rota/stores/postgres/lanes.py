"""Which lanes (queue and type) a claim has to look at.

Workers mostly name their types, and then queues and types make the lanes. One that takes every type, or a great many,
has to learn which types there are: by leaping from type to type over the claim index, once. Types seen are remembered,
and later claims look only into the gaps between them, where nothing is until a new type comes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rota.core.lease import Claim
from rota.stores.postgres.session import Session

#: Up to this many lanes are looked at without asking first which of them have work.
FEW_LANES: Final = 128
#: More types than this in memory are a sign that someone makes them up: start anew.
MANY_TYPES: Final = 10_000
#: Before every turn.
LOWEST: Final = -(2**63)
#: The text behind a given one in the order of bytes: PostgreSQL's texts cannot hold NUL.
_NEXT: Final = "\1"
#: Behind every type: they are shorter.
_BEYOND: Final = "\U0010ffff" * 201


#: Where a job has been stored: queue, type and priority.
Place = tuple[str, str, int]


class Lane(NamedTuple):
    """A lane, and the turn before which nothing waits in it."""

    queue: str
    type: str
    floor: int = LOWEST


@lru_cache
def _named(queues: tuple[str, ...], types: tuple[str, ...]) -> tuple[Lane, ...] | None:
    """Give the lanes of some queues and types, unless they are many. A worker asks for the same again and again."""
    named, known = dict.fromkeys(queues), dict.fromkeys(types)
    if len(named) * len(known) > FEW_LANES:
        return None
    return tuple(Lane(queue, type_) for queue in named for type_ in known)


class Lanes:
    """The types that have been seen in each queue."""

    def __init__(self) -> None:
        self._types: dict[str, list[str]] = {}

    def named(self, wanted: Claim) -> Sequence[Lane] | None:
        """Give the lanes that a claim names, unless it takes every type or too many to try them all."""
        return None if wanted.types is None else _named(wanted.queues, wanted.types)

    async def discovered(self, session: Session, wanted: Claim) -> list[Lane]:
        """Find out which lanes there are, and give those that a claim has to look at."""
        queues = list(dict.fromkeys(wanted.queues))
        await self._discover(session, queues)
        known = None if wanted.types is None else set(wanted.types)
        return [
            Lane(queue, type_)
            for queue in queues
            for type_ in self._types.get(queue, ())
            if known is None or type_ in known
        ]

    async def _discover(self, session: Session, queues: Sequence[str]) -> None:
        """Look into the gaps between the types we know, until nothing new is found."""
        if sum(map(len, self._types.values())) > MANY_TYPES:
            self._types.clear()
        gaps = [gap for queue in queues for gap in self._gaps(queue, "", _BEYOND)]
        while gaps:
            columns = zip(*gaps, strict=True)
            found = await session.rows("next_types", *map(list, columns))
            for queue, type_ in found:
                self._remember(queue, type_)
            # Behind each type that was new there may be another.
            gaps = [(queue, type_ + _NEXT, self._following(queue, type_)) for queue, type_ in found]

    def _gaps(self, queue: str, first: str, beyond: str) -> Iterator[tuple[str, str, str]]:
        for type_ in self._types.get(queue, ()):
            yield queue, first, type_
            first = type_ + _NEXT
        yield queue, first, beyond

    def _following(self, queue: str, type_: str) -> str:
        types = self._types.get(queue, [])
        place = bisect_left(types, type_) + 1
        return types[place] if place < len(types) else _BEYOND

    def _remember(self, queue: str, type_: str) -> None:
        types = self._types.setdefault(queue, [])
        place = bisect_left(types, type_)
        if place == len(types) or types[place] != type_:
            insort(types, type_)
