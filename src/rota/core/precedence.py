"""Who goes first: of those who wait for the same work, one or two at once, and the others a little later.

All who wait hear of a job at the same moment. Were all to ask for it, one would get it, and the others would be in its
way, on the machine and in the store. So whoever tells of a job tells a number with it, and each who hears it reckons
from that and from its own rank who goes first: everyone in its turn, so that all get as much. The others go as well, a
few milliseconds later: the first may be busy, or dead, or gone. So nothing depends on what anybody knows of the others:
who knows nothing goes at once, and if two are wrong about their ranks, both go at once, or both later.
"""

from __future__ import annotations

from typing import Final

from rota.core.value import value

#: How long the next waits for the first: as long as it takes to claim a job and begin it. No longer, for it may be that
#: the first has no room.
HEAD_START_SECONDS: Final = 0.003
#: By how much longer those wait who come after them. Each time they are twice as many, so that not all come at once and
#: yet none waits for long: of many workers nearly all may be full, and the only one with room be the last.
STEP_SECONDS: Final = 0.001


@value
class Rank:
    """Which of those who take the same jobs a worker is, counted from 0, and how many they are."""

    place: int
    of: int


@value
class Draw:
    """What a job is told of with: a number that all hear alike, and how many should go first."""

    number: int
    first: int = 1


def seconds_behind(rank: Rank | None, draw: Draw | None) -> float:
    """Say how long after a job was told of one of this rank should ask for it."""
    if rank is None or draw is None:
        return 0.0
    behind = (rank.place - draw.number) % rank.of - draw.first
    if behind < 0:
        return 0.0
    waves = (behind + 1).bit_length() - 1
    return HEAD_START_SECONDS + waves * STEP_SECONDS
