"""Backlogs of queues: what a submitter is told whose job finds a full queue, and a waiting job about its start."""

from __future__ import annotations

import time
from typing import Final

from rota.core.backlog import RATE_WINDOW, Backlog, start_rate
from rota.core.errors import QueueFull
from rota.core.history import BucketLength, HistoryQuery
from rota.engine.deps import EngineDeps

#: How long an estimate is used again: many submitters may be refused at once, and each refusal must stay cheap.
KEPT_SECONDS: Final = 1.0
#: How many queues' rates are kept.
_MOST_QUEUES: Final = 1_000


class Backlogs:
    """Reads the rate at which jobs of a queue start, and estimates from it."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._rates: dict[str, tuple[float, float]] = {}

    async def of(self, queue: str, waiting: int) -> Backlog:
        """Return the backlog of a queue in which so many jobs wait."""
        settings = {one.name: one for one in await self._deps.store.queues()}.get(queue)
        paused = settings is not None and settings.paused_at is not None
        resume_at = None if settings is None else settings.resume_at
        return Backlog(waiting, await self.rate(queue), resume_at, paused)

    async def rate(self, queue: str) -> float:
        """Return how many jobs of a queue started in a second lately."""
        now_seconds = time.monotonic()
        kept = self._rates.get(queue)
        if kept is not None and now_seconds - kept[0] < KEPT_SECONDS:
            return kept[1]
        now = self._deps.clock()
        query = HistoryQuery(BucketLength.MINUTE, now - RATE_WINDOW, now + RATE_WINDOW, by_lane=True)
        rate = start_rate(await self._deps.store.history(query), queue, now)
        if len(self._rates) >= _MOST_QUEUES:
            self._rates.clear()
        self._rates[queue] = now_seconds, rate
        return rate

    async def full(self, queue: str) -> QueueFull:
        """Make the error for a queue that has reached its bound, with an estimate of when there is a place."""
        settings = {one.name: one for one in await self._deps.store.queues()}.get(queue)
        bound = None if settings is None else settings.max_depth
        waiting = bound if bound is not None else self._deps.queue_bound or 0
        backlog, now = await self.of(queue, waiting), self._deps.clock()
        error = full(queue)
        error.retry_after = backlog.retry_after(now)
        error.position = backlog.position
        error.expected_start = backlog.expected_start(now, waiting)
        return error


def full(queue: str) -> QueueFull:
    """Make the error for a queue that has reached its bound."""
    return QueueFull(f"queue {queue!r} is full: as many jobs wait in it as may")
