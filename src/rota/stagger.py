"""Stagger of idle workers: of those that wait for the same single job, one asks the store at once, the others later.

All waiting workers are woken for a new job at the same moment. If all asked for it, one would get it, and the others
would only load the store. So the wake-up carries a number, and each worker derives from it and from its own rank whose
turn it is; the turns rotate. The others ask a few milliseconds later, because the first may be busy or dead. No worker
depends on what another knows: without a rank it asks at once, and if two are wrong about their ranks, both ask at once,
or both later.
"""

from __future__ import annotations

from typing import Final

from rota.core.cluster import Rank

#: How long the second worker waits for the first: as long as it takes to claim a job and start it. Not longer, because
#: the first may have no free slot.
HEAD_START_SECONDS: Final = 0.003
#: The further delay, for groups of workers that double in size: not all ask at once, and yet none waits for long, since
#: of many workers the only one with a free slot may be the last.
STEP_SECONDS: Final = 0.001


def stagger_seconds(rank: Rank | None, number: int | None) -> float:
    """Return how long a worker of this rank waits before it asks for the job of a wake-up with this number."""
    if rank is None or number is None:
        return 0.0
    before = (rank.place - number) % rank.of
    return HEAD_START_SECONDS + (before.bit_length() - 1) * STEP_SECONDS if before else 0.0
