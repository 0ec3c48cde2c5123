"""Draining: how a worker ends without losing or burning anything.

From the first signal on nothing is claimed and nothing is begun. What runs may finish until shortly before the
deadline; then it is told to stop, and handed back without using an attempt. What does not stop even then is handed
back without being waited for. All reports are written before the worker is gone. A second signal skips the waiting.

The deadline is for everything, the writing included (which gets two seconds in any case): a supervisor that kills
after its grace finds nobody to kill. If the store is away all that time, the leases run out by themselves.
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

#: The part of the time, and the most seconds, that are kept for handing back.
RESERVE_PART: Final = 0.25
LONGEST_RESERVE: Final = 4.0
#: Even in the greatest hurry: what is handed back must be written, or it waits for its lease.
LEAST_TO_WRITE: Final = 2.0


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
        self._reserve = min(self._seconds * RESERVE_PART, LONGEST_RESERVE)
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
        return max(self.seconds_left(), LEAST_TO_WRITE)

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
