"""Who goes first: of those who wait for the same work, one at once, and the others a little later.

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


def seconds_behind(rank: Rank | None, number: int | None) -> float:
    """Say how long after a job was told of with a number one of this rank should ask for it."""
    if rank is None or number is None:
        return 0.0
    before = (rank.place - number) % rank.of
    return HEAD_START_SECONDS + (before.bit_length() - 1) * STEP_SECONDS if before else 0.0
