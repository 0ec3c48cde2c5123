"""Draining: how a worker ends without losing or burning anything.

From the first signal on nothing is claimed and nothing is begun. What runs may finish until shortly before the
deadline; then it is told to stop, and handed back without using an attempt. What does not stop even then is handed
back without being waited for. All reports are written before the worker is gone. A second signal skips the waiting.

The deadline is for everything, the writing and the closing included: a supervisor that kills after its grace finds
nobody to kill. If the store is away all that time, the leases run out by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

from rota.worker.holding import Holding
from rota.worker.options import WorkerOptions
from rota.worker.settler import Settler
from rota.worker.stopper import Stopper
from rota.worker.verdict import Stop

#: The part of the time, and the most seconds, that are kept for handing back; of a short time, half, up to a second.
RESERVE_PART: Final = 0.25
LONGEST_RESERVE: Final = 4.0
SHORTEST_RESERVE: Final = 1.0
#: Kept for closing, when all is written.
TO_CLOSE_SECONDS: Final = 0.25
#: Even with no time at all: what is handed back must be written, or it waits for its lease.
LEAST_TO_WRITE: Final = 0.25
#: How long the question that is still open, and the word that we leave, may take at most.
LONGEST_LAST_WORD: Final = 2.0


class Drain:
    """Ends a worker's runs."""

    def __init__(
        self,
        holding: Holding,
        settler: Settler,
        stopper: Stopper,
        options: WorkerOptions,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._holding = holding
        self._settler = settler
        self._clock = clock
        self._stopper = stopper
        self._seconds = options.drain_timeout.total_seconds()
        least = min(SHORTEST_RESERVE, self._seconds / 2)
        self._reserve = min(max(self._seconds * RESERVE_PART, least), LONGEST_RESERVE)
        self._changed = asyncio.Event()
        self._ends_at = inf

    def begin(self) -> None:
        """Start the time, and hand back what has not begun."""
        self._ends_at = min(self._ends_at, self._clock() + self._seconds)
        self.hand_back()

    def hand_back(self) -> None:
        """Hand back what has not begun."""
        for run in list(self._holding.waiting.values()):
            self._stopper.stop(run, Stop.DRAIN)

    def hurry(self) -> None:
        """Do not wait for handlers any longer."""
        self._ends_at = min(self._ends_at, self._clock() + self._reserve)
        self._changed.set()

    def wake(self) -> None:
        """Something ended: look."""
        self._changed.set()

    async def finish(self) -> None:
        """Wait for the runs while there is time, then hand them back."""
        await self._wait_for_runs(self._reserve)
        for run in list(self._holding.runs.values()):
            self._stopper.stop(run, Stop.DRAIN)
        await self._wait_for_runs(self._reserve / 2)
        for run in list(self._holding.runs.values()):
            self._stopper.leave_behind(run)
        self._settler.close()

    def seconds_to_write(self) -> float:
        """How long to wait for what was yielded to be written."""
        return max(self.seconds_left() - TO_CLOSE_SECONDS, LEAST_TO_WRITE)

    def seconds_for_a_word(self) -> float:
        """How long to wait for an answer that is not needed to end."""
        return min(self.seconds_left() / 4, LONGEST_LAST_WORD)

    def seconds_left(self) -> float:
        """How much time is left for all that is still to be done."""
        return max(self._ends_at - self._clock(), 0.0)

    async def _wait_for_runs(self, ahead: float) -> None:
        """Wait until nothing runs, or until so many seconds before the end."""
        while self._holding.runs and (left := self.seconds_left() - ahead) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
