"""Lanes (queue and type) that a claim has to read.

Most workers name their types, and queues times types are the lanes. A worker that takes every type, or a great many,
first discovers which types there are, by a loose scan over the claim index. Types are remembered, and later claims
search only the gaps between them, which are empty until there is a new type.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rota.core.lease import Claim
from rota.stores.postgres.session import Session

#: Up to this many lanes are read without a query for those that have work.
FEW_LANES: Final = 128
#: With more types in memory than this, something generates them: start anew.
MANY_TYPES: Final = 10_000
#: Before every turn and every time.
LOWEST: Final = -(2**63)
#: Appended to a text, gives the next one in the order of bytes: texts of PostgreSQL cannot hold NUL.
_NEXT: Final = "\1"
#: Behind every type: types are shorter.
_BEYOND: Final = "\U0010ffff" * 201


#: Where a job was stored: queue, type and priority.
Place = tuple[str, str, int]


class LaneStart(NamedTuple):
    """A lane, and the turn from which a claim reads it: its low-water mark."""

    queue: str
    type: str
    turn: int = LOWEST


@lru_cache
def _lanes_of(queues: tuple[str, ...], types: tuple[str, ...]) -> tuple[LaneStart, ...] | None:
    """Return the lanes of some queues and types, unless they are many. A worker sends the same ones each time."""
    known_queues, known_types = dict.fromkeys(queues), dict.fromkeys(types)
    if len(known_queues) * len(known_types) > FEW_LANES:
        return None
    return tuple(LaneStart(queue, type_) for queue in known_queues for type_ in known_types)


class KnownTypes:
    """The types that have been seen in each queue."""

    def __init__(self) -> None:
        self._types: dict[str, list[str]] = {}

    def named_lanes(self, claim: Claim) -> Sequence[LaneStart] | None:
        """Return the lanes that a claim names; None if it takes every type or too many to read them all."""
        return None if claim.types is None else _lanes_of(claim.queues, claim.types)

    async def discover_lanes(self, session: Session, claim: Claim) -> list[LaneStart]:
        """Find out which types have pending jobs, and return the lanes that a claim has to read."""
        queues = list(dict.fromkeys(claim.queues))
        await self._discover(session, queues)
        types = None if claim.types is None else set(claim.types)
        return [
            LaneStart(queue, type_)
            for queue in queues
            for type_ in self._types.get(queue, ())
            if types is None or type_ in types
        ]

    async def _discover(self, session: Session, queues: Sequence[str]) -> None:
        """Search the gaps between the known types, until nothing new is found."""
        if sum(map(len, self._types.values())) > MANY_TYPES:
            self._types.clear()
        gaps = [gap for queue in queues for gap in self._gaps(queue, "", _BEYOND)]
        while gaps:
            columns = zip(*gaps, strict=True)
            rows = await session.rows("next_types", *map(list, columns))
            for queue, type_ in rows:
                self._remember(queue, type_)
            # Behind each new type there may be another.
            gaps = [(queue, type_ + _NEXT, self._following(queue, type_)) for queue, type_ in rows]

    def _gaps(self, queue: str, first: str, beyond: str) -> Iterator[tuple[str, str, str]]:
        for type_ in self._types.get(queue, ()):
            yield queue, first, type_
            first = type_ + _NEXT
        yield queue, first, beyond

    def _following(self, queue: str, type_: str) -> str:
        types = self._types.get(queue, [])
        index = bisect_left(types, type_) + 1
        return types[index] if index < len(types) else _BEYOND

    def _remember(self, queue: str, type_: str) -> None:
        types = self._types.setdefault(queue, [])
        index = bisect_left(types, type_)
        if index == len(types) or types[index] != type_:
            insort(types, type_)
