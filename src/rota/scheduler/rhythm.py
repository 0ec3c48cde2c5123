"""The rhythm of one duty: when it is to be done next, as far as is known.

The time is that of the loop's clock, which only goes forward. Whoever learns of an earlier time says so, and a later
one never replaces it: two who ask the store at the same moment may be answered in either order, and a time that is too
early costs a look, where one that is too late would cost the wait for the next.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from math import inf
from typing import Final

from rota.core.patience import Patience
from rota.scheduler.duties import Duty

SHORTEST_SLEEP_SECONDS: Final = 0.005
LONGEST_SLEEP_SECONDS: Final = 5.0
#: How long to rest at most while something due cannot be moved. What is due behind it waits that long, too.
LONGEST_REST_SECONDS: Final = 1.0
#: A loop's timers are as exact as a millisecond, and whoever waits for this moment would have to wait for that too. So
#: the last millisecond is waited for in naps, each too short for a timer: the loop turns and looks at its clock.
FINE_SECONDS: Final = 0.001
NAP_SECONDS: Final = 0.0004


class Rhythm:
    """A duty and its time."""

    def __init__(self, duty: Duty, patience: Patience) -> None:
        self.duty = duty
        self.patience = patience
        self._at = -inf
        self._moved = asyncio.Event()
        self._in_vain = SHORTEST_SLEEP_SECONDS

    def expect(self, wait: timedelta) -> None:
        """Learn that it is to be done in a while, or before."""
        at = asyncio.get_running_loop().time() + wait.total_seconds()
        if at < self._at:
            self._at = at
            self._moved.set()

    async def due(self) -> None:
        """Wait until it is to be done. From then on nothing is known of the next time."""
        loop = asyncio.get_running_loop()
        while (left := self._at - loop.time()) > 0:
            if left - FINE_SECONDS < NAP_SECONDS:
                # Never no time at all: in a simulation it passes only while everyone sleeps.
                await asyncio.sleep(min(max(left, 1e-6), NAP_SECONDS))
                continue
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == inf else left - FINE_SECONDS):
                    await self._moved.wait()
        self._at = inf

    async def rest(self, did: int) -> None:
        """Take a breath after a pass that could move nothing of what is due, and a longer one each time."""
        if did or self._at > asyncio.get_running_loop().time():
            self._in_vain = SHORTEST_SLEEP_SECONDS
            return
        self._in_vain = min(self._in_vain * 2, LONGEST_REST_SECONDS)
        await asyncio.sleep(self._in_vain)
