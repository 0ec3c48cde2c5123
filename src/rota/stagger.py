"""Stagger of idle workers: when a single job is announced, one waiting worker claims at once, the others later.

All waiting workers are woken for a new job at the same moment. If all claimed, one would get it, and the others would
only load the store. So the wake-up carries a number, and each worker computes its delay from that number and its own
rank; the first worker rotates. The others claim a few milliseconds later, because the first may be busy or dead.
Correctness does not depend on ranks: a worker without one claims at once, and two workers with the same rank have the
same delay.
"""

from __future__ import annotations

from typing import Final

from rota.core.cluster import Rank

#: The delay of the second worker: as long as it takes to claim a job and start it. Not longer, because the first may
#: have no free slot.
HEAD_START_SECONDS: Final = 0.003
#: The further delay, for groups of workers that double in size: not all claim at once, and yet none waits for long,
#: since the only worker with a free slot may be the last.
STEP_SECONDS: Final = 0.001


def stagger_seconds(rank: Rank | None, number: int | None) -> float:
    """Return how long a worker of this rank waits before it claims the job of a wake-up with this number."""
    if rank is None or number is None:
        return 0.0
    before = (rank.place - number) % rank.of
    return HEAD_START_SECONDS + (before.bit_length() - 1) * STEP_SECONDS if before else 0.0
