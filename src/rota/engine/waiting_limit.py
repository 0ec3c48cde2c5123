"""The limit of jobs that wait in a namespace, kept by the API without a statement for each submission.

The waiting jobs are counted at most once a second, and less often if a count takes long; in between, what this process
has admitted is added. So one process never exceeds the limit, several can by what the others submit between two counts,
and a place that a worker frees is noticed with the next count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

from rota.core.errors import NamespaceFull
from rota.core.lifecycle import WAITING
from rota.ports.store import CompletedCount, Store

#: How long a count is used: at least `FRESH_SECONDS`, and this many times as long as it took.
FRESH_SECONDS: Final = 1.0
_COUNT_TIMES: Final = 10


class WaitingLimit:
    """Admits submissions while fewer than `most` jobs wait; None admits all."""

    def __init__(self, store: Store, clock: Callable[[], float] = monotonic) -> None:
        self.most: int | None = None
        self._store = store
        self._clock = clock
        self._counted = 0
        #: The history does not matter here; with it, the next count does not read it.
        self._completed: CompletedCount | None = None
        self._stale_at = 0.0
        #: Jobs of submissions that are under way, and all that were admitted since the last count began.
        self._under_way = 0
        self._admitted = 0
        self._one_at_a_time = asyncio.Lock()

    async def admit(self, count: int) -> None:
        """Count a submission in, or refuse it. `finish` must follow, unless it was refused."""
        if self.most is not None and self._clock() >= self._stale_at:
            await self._recount()
        if self.most is not None and self._counted + self._admitted + count > self.most:
            raise NamespaceFull(f"{self.most} jobs may wait in this namespace, and there is no place for {count} more")
        self._under_way += count
        self._admitted += count

    def finish(self, count: int) -> None:
        """Note that an admitted submission is stored or has failed."""
        self._under_way -= count

    async def _recount(self) -> None:
        async with self._one_at_a_time:
            if self._clock() < self._stale_at:
                return
            begun = self._clock()
            # What is being stored right now may or may not be in the count.
            before, under_way = self._admitted, self._under_way
            census = await self._store.census(self._completed)
            self._counted, self._completed = census.total(*WAITING), census.completed
            self._admitted += under_way - before
            ended = self._clock()
            self._stale_at = ended + max(FRESH_SECONDS, (ended - begun) * _COUNT_TIMES)
