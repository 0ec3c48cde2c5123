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
#: By how much longer each one waits than the one before it, so that they do not come all at once; and the longest.
STEP_SECONDS: Final = 0.001
LONGEST_SECONDS: Final = 0.02


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
    return min(HEAD_START_SECONDS + behind * STEP_SECONDS, LONGEST_SECONDS) if behind >= 0 else 0.0
