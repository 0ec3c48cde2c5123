"""The load: callers that submit, each waiting for its answer before it asks again.

With a rate, every request has a moment at which it is due, and a caller that comes too late, because the answer before
took long, counts its time from that moment. Otherwise a server that stands still for a second would show one slow
answer, where its users would have met a thousand. A caller that came early and slept counts from when it woke: how well
this process sleeps is not the server's doing.

At the end requests under way may finish; when a person interrupts, they may not, and whether they made jobs is unknown.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from rota.cli.bench.plan import Plan
from rota.cli.bench.targets import Target, Trouble

#: How long a caller stays away after a failure: a server in trouble is not hammered, and we do not spin.
PAUSE_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.25


@dataclass(slots=True)
class Yield:
    """What came of a load."""

    ids: list[str] = field(default_factory=list)
    #: Seconds, one for each request that was answered well.
    latencies: array[float] = field(default_factory=lambda: array("d"))
    #: Jobs that were not made, by what went wrong.
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Jobs made a second."""
        return len(self.ids) / self.seconds if self.seconds else 0.0


class Load:
    """Callers on a target."""

    def __init__(self, plan: Plan, target: Target, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._plan = plan
        self._target = target
        self._clock = clock
        self._sent = 0
        self._begun = 0.0
        self._end = 0.0
        self.so_far = Yield()

    async def run(self, stop: asyncio.Event, show: Callable[[float, Yield], None]) -> Yield:
        """Submit until the time is over or `stop` is set; `show` is told now and then how far it has come."""
        cpu = time.process_time()
        self._begun = self._clock()
        self._end = self._begun + self._plan.seconds
        callers = [asyncio.create_task(self._call(number)) for number in range(self._plan.connections)]
        working: asyncio.Future[list[None]] = asyncio.gather(*callers)
        stopped = asyncio.ensure_future(stop.wait())
        either: list[asyncio.Future[Any]] = [working, stopped]
        try:
            while not any(one.done() for one in either):
                await asyncio.wait(either, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
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
        plan, found, clock = self._plan, self.so_far, self._clock
        while (due := self._next_due()) is not None:
            if (early := due - clock()) > 0:
                await asyncio.sleep(early)
                due = clock()
            try:
                made = await self._target.submit(number, plan.batch)
            except Trouble as trouble:
                found.errors[trouble.kind] += plan.batch
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if made.ids:
                found.latencies.append(clock() - due)
                found.ids += made.ids
            if made.refused:
                found.errors.update(made.refused)

    def _next_due(self) -> float | None:
        """Say when the next request is due; None when the time is over."""
        now = self._clock()
        if now >= self._end:
            return None
        if self._plan.interval is None:
            return now
        due = self._begun + self._sent * self._plan.interval
        self._sent += 1
        return due if due < self._end else None
