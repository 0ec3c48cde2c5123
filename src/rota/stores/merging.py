"""The most urgent jobs of many lanes, without reading as many from each lane as are wanted in all.

A claim of a hundred jobs by a worker that serves a hundred lanes mostly takes one or two from each. So a few are read
from every lane, in one statement. A lane that gave as many as were asked for may hold more. So what is known is
complete up to the nearest place at which a lane was cut off. Only if that is not enough, more is read, from the lanes
that were cut off too early, and no further than necessary.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

#: A queue and a type.
Lane: TypeAlias = tuple[str, str]
#: A turn and an id, by which a lane is ordered.
Place: TypeAlias = tuple[int, int]
#: Behind every turn.
END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Reading:
    """Asks for the first places of some lanes: so many of each at most, and none with a later turn."""

    lanes: Sequence[Lane]
    count: int
    last_turn: int = END


#: Asks for the first places of lanes, is sent them, and gives those of all lanes in their order.
Asking: TypeAlias = Generator[Reading, Mapping[Lane, Sequence[Place]], list[tuple[Place, Lane]]]


def most_urgent(lanes: Sequence[Lane], limit: int, few: int) -> Asking:
    """Give the first places of all lanes together, in order: the first `limit`, and what else is known behind them.

    First so few are read from each lane.
    """
    found = dict((yield Reading(lanes, few)))
    ordered = _merged(found)
    cuts = {lane: places[-1] for lane, places in found.items() if len(places) == few}
    if not cuts:
        return ordered
    nearest = min(cuts.values())
    known = next((number for number, (place, _) in enumerate(ordered) if place > nearest), len(ordered))
    if known >= limit:
        return ordered[:known]
    last = ordered[limit - 1][0] if len(ordered) >= limit else (END, END)
    found.update((yield Reading([lane for lane, cut in cuts.items() if cut < last], limit, last[0])))
    return _merged(found)[:limit]


def _merged(found: Mapping[Lane, Sequence[Place]]) -> list[tuple[Place, Lane]]:
    return sorted((place, lane) for lane, places in found.items() for place in places)
