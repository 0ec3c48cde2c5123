"""Merge of lanes: find the most urgent jobs of many lanes without reading `limit` jobs from each.

A claim of a hundred jobs over a hundred lanes mostly takes one or two from each. So a few are read from every lane, in
one statement. A lane that gave as many as were requested may have more, so the merged order is complete only up to the
first position at which a lane was cut off. If that is not enough, more is read from the lanes that were cut off too
early, and no further than needed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

#: A queue and a type.
LaneKey: TypeAlias = tuple[str, str]
#: A turn and an id, by which a lane is ordered.
Place: TypeAlias = tuple[int, int]
#: Behind every turn.
END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LaneRead:
    """A request for the first places of some lanes: at most `count` of each, and none with a later turn."""

    lanes: Sequence[LaneKey]
    count: int
    last_turn: int = END


#: Yields requests for places of lanes, is sent the places, and returns those of all lanes in order.
LaneReader: TypeAlias = Generator[LaneRead, Mapping[LaneKey, Sequence[Place]], list[tuple[Place, LaneKey]]]


def most_urgent(lanes: Sequence[LaneKey], limit: int, few: int) -> LaneReader:
    """Return the first places of all lanes in order: the first `limit`, and what else is known after them.

    At first only `few` are read from each lane.
    """
    found = dict((yield LaneRead(lanes, few)))
    ordered = _merged(found)
    cuts = {lane: places[-1] for lane, places in found.items() if len(places) == few}
    if not cuts:
        return ordered
    nearest = min(cuts.values())
    known = next((number for number, (place, _) in enumerate(ordered) if place > nearest), len(ordered))
    if known >= limit:
        return ordered[:known]
    last = ordered[limit - 1][0] if len(ordered) >= limit else (END, END)
    found.update((yield LaneRead([lane for lane, cut in cuts.items() if cut < last], limit, last[0])))
    return _merged(found)[:limit]


def _merged(found: Mapping[LaneKey, Sequence[Place]]) -> list[tuple[Place, LaneKey]]:
    return sorted((place, lane) for lane, places in found.items() for place in places)
