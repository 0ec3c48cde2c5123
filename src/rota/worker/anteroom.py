"""The anteroom: where runs wait that were claimed ahead of their time, each until its moment and not a moment less.

The moment is the store's, reckoned on our steady clock; see `rota.core.reckoning`. Until then a run is held as one that
waits for its executor: its lease is kept, a drain or a cancel hands it back, and it has a slot. One timer is set for
the earliest of them. A loop's timers are as exact as a millisecond, so a run begins that much late, and never early:
a timer that fires too soon finds nobody whose moment has come, and is set again.

If the worker dies, the leases of those who wait here run out, or its companion says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from heapq import heappop, heappush
from itertools import count

from rota.core.reckoning import Reckoning
from rota.worker.run import Run


class Anteroom:
    """Lets runs in when their moment has come."""

    def __init__(self, admit: Callable[[Sequence[Run]], None], *, clock: Callable[[], float]) -> None:
        self._admit = admit
        self._clock = clock
        self._reckoning = Reckoning()
        self._waiting: list[tuple[datetime, int, Run]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, told: datetime, asked_at: float | None = None) -> None:
        """Learn what time it has just been by the store's clock, and reckon anew when each moment comes."""
        self._reckoning.hear(told, self._clock(), asked_at)
        if self._waiting:
            self._look()

    def seat(self, runs: Sequence[Run]) -> None:
        """Let runs wait for their moment."""
        for run in runs:
            heappush(self._waiting, (run.job.run_at, next(self._numbers), run))
        self._look()

    def close(self) -> None:
        """Let nobody in any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()

    def _look(self) -> None:
        """Let in whose moment has come, and set the timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        come: list[Run] = []
        now = self._clock()
        while self._waiting and (moment := self._reckoning.here(self._waiting[0][0])) <= now:
            come.append(heappop(self._waiting)[2])
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(max(moment - now, 1e-6), self._look)
        if come:
            self._admit(come)
