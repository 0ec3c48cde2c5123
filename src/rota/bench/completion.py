"""Waits until the workers have finished the jobs, and reads when jobs started and finished."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from rota.bench.percentiles import Latencies
from rota.bench.plan import BenchPlan
from rota.bench.targets import QueueCounts, RequestFailed, Target

_POLL_SECONDS: Final = 0.25
#: An API that does not answer for so long is given up.
SILENCE_SECONDS: Final = 10.0
#: How many jobs are read: enough for a p99, and few enough not to be a load of their own.
SAMPLE: Final = 2_000


@dataclass(slots=True)
class BenchCompletion:
    """When the jobs started and finished, by the store's clock."""

    start: Latencies = field(default_factory=lambda: Latencies(()))
    finish: Latencies = field(default_factory=lambda: Latencies(()))
    #: Jobs finished per second, from the first submission to the last end.
    rate: float = 0.0
    #: How many were not finished at the last look.
    left: int = 0
    #: The average share of busy slots while jobs waited; None if none waited.
    busy: float | None = None
    is_timed_out: bool = False


@dataclass(slots=True)
class QueueWatch:
    """Counts waiting and running jobs, during the load and after it. `before` are the jobs that were there already."""

    target: Target
    slots: int
    before: QueueCounts
    shares: list[float] = field(default_factory=list)

    async def unfinished(self) -> int:
        """Return how many jobs are not finished. Jobs of others in this queue with the same type count too."""
        counts = await self.target.counts()
        if counts.waiting > self.before.waiting and self.slots:
            self.shares.append(min(counts.running / self.slots, 1.0))
        return max(counts.waiting + counts.running - self.before.waiting - self.before.running, 0)

    async def keep_counting(self) -> None:
        """Count until cancelled."""
        while True:
            with suppress(RequestFailed):
                await self.unfinished()
            await asyncio.sleep(_POLL_SECONDS)


async def wait_until_finished(
    plan: BenchPlan, watch: QueueWatch, ids: Sequence[str], stop: asyncio.Event, show: Callable[[int], None]
) -> BenchCompletion:
    """Wait until all are finished, the time is over, or `stop` is set; `show` is called with the number finished."""
    completion = BenchCompletion()
    give_up_at = float("inf") if plan.wait_seconds is None else time.monotonic() + plan.wait_seconds
    answered_at = time.monotonic()
    completion.left = len(ids)
    while True:
        try:
            completion.left = min(await watch.unfinished(), len(ids))
            has_worker = (await watch.target.capacity()).workers > 0
            answered_at = time.monotonic()
        except RequestFailed:
            has_worker = time.monotonic() - answered_at < SILENCE_SECONDS
        show(len(ids) - completion.left)
        if not completion.left or stop.is_set():
            break
        if time.monotonic() >= give_up_at or not has_worker:
            completion.is_timed_out = True
            break
        await asyncio.sleep(_POLL_SECONDS)
    completion.busy = sum(watch.shares) / len(watch.shares) if watch.shares else None
    with suppress(RequestFailed):
        await _read_times(completion, watch.target, ids)
    return completion


async def _read_times(completion: BenchCompletion, target: Target, ids: Sequence[str]) -> None:
    """Read a sample of the jobs, evenly from the first to the last."""
    step = -(-len(ids) // SAMPLE) or 1
    times = await target.times(ids[::step])
    completion.start = Latencies((one.started - one.created).total_seconds() for one in times if one.started)
    completion.finish = Latencies((one.finished - one.created).total_seconds() for one in times if one.finished)
    ends = [one.finished for one in times if one.finished]
    if ends:
        span = (max(ends) - min(one.created for one in times)).total_seconds()
        completion.rate = (len(ids) - completion.left) / span if span > 0 else 0.0
