"""The load generator: callers that submit, each waiting for its response before the next request.

With a rate, every request has a time at which it is due. If it is sent late, because the response before took long, its
latency counts from that time (otherwise a server that stops for a second would show one slow response, where its users
would have met a thousand: coordinated omission). A caller that came early and slept counts from when it woke: late
timers of this process are not the server's fault.

At the end running requests may finish; after an interruption they are cancelled, and whether they stored jobs is
unknown.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from rota.bench.plan import BenchPlan
from rota.bench.targets import RequestFailed, Target

#: How long a caller pauses after a failure, so as not to flood a failing server.
PAUSE_SECONDS: Final = 0.05
_SHOW_SECONDS: Final = 0.25


@dataclass(slots=True)
class LoadResult:
    """The jobs, latencies and errors of a load."""

    ids: list[str] = field(default_factory=list)
    #: In seconds, one for each successful request.
    latencies: array[float] = field(default_factory=lambda: array("d"))
    #: Jobs that were not stored, by kind of failure.
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Jobs submitted per second."""
        return len(self.ids) / self.seconds if self.seconds else 0.0


class Load:
    """Runs the callers of a plan on a target."""

    def __init__(self, plan: BenchPlan, target: Target, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._plan = plan
        self._target = target
        self._clock = clock
        self._sent = 0
        self._begun = 0.0
        self._end = 0.0
        self.so_far = LoadResult()

    async def run(self, stop: asyncio.Event, show: Callable[[float, LoadResult], None]) -> LoadResult:
        """Submit until the time is over or `stop` is set; `show` is called now and then with the progress."""
        cpu = time.process_time()
        self._begun = self._clock()
        self._end = self._begun + self._plan.seconds
        callers = [asyncio.create_task(self._call(number)) for number in range(self._plan.connections)]
        working: asyncio.Future[list[None]] = asyncio.gather(*callers)
        stopped = asyncio.ensure_future(stop.wait())
        either: list[asyncio.Future[Any]] = [working, stopped]
        try:
            while not any(one.done() for one in either):
                await asyncio.wait(either, timeout=_SHOW_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                show(min(self._clock() - self._begun, self._plan.seconds), self.so_far)
            if working.done():
                working.result()
        finally:
            for one in either:
                one.cancel()
            await asyncio.gather(*either, return_exceptions=True)
        self.so_far.seconds = self._clock() - self._begun
        self.so_far.cpu_seconds = time.process_time() - cpu
        return self.so_far

    async def _call(self, number: int) -> None:
        plan, result, clock = self._plan, self.so_far, self._clock
        while (due := self._next_due()) is not None:
            if (early := due - clock()) > 0:
                await asyncio.sleep(early)
                due = clock()
            try:
                submitted = await self._target.submit(number, plan.batch)
            except RequestFailed as failure:
                result.errors[failure.kind] += plan.batch
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if submitted.ids:
                result.latencies.append(clock() - due)
                result.ids += submitted.ids
            if submitted.refused:
                result.errors.update(submitted.refused)

    def _next_due(self) -> float | None:
        """Return when the next request is due; None when the time is over."""
        now = self._clock()
        if now >= self._end:
            return None
        if self._plan.interval is None:
            return now
        due = self._begun + self._sent * self._plan.interval
        self._sent += 1
        return due if due < self._end else None
