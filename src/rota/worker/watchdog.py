"""The watchdog: one task that sees to every deadline.

It looks whenever something is due (the earliest deadline, the end of a grace, a lease that may run out) and at least
once a second while anything runs; with nothing held it sleeps. A run that begins with an earlier deadline than the next
look wakes it. It lives on the source's loop, so a blocked handler cannot keep it from noticing.

For each run, by the monotonic clock:

- past its limit: told to stop (`TIMEOUT`).
- past nine tenths of its lease: in doubt; the heart is asked to beat now. Past all of it and past a moment for the heart
  to be answered: told to stop (`LAPSED`). A worker that was paused finds itself here, and asks before it judges.
- told to stop, and its grace over: left behind, and reported without being waited for.

While the handlers' loop gives no sign of life, the watchdog says so once, with the stack that holds it up, and hands
back the async runs that have not begun; those that have are innocent, except the one that has the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

from rota.core.identity import to_text
from rota.worker.floor import BLOCKED_SECONDS, Floor
from rota.worker.holding import Holding
from rota.worker.options import WorkerOptions
from rota.worker.run import Run
from rota.worker.slots import Slots
from rota.worker.verdict import Stop

_log = logging.getLogger("rota.worker")
LONGEST_PAUSE: Final = 1.0
#: From this part of a lease on it is in doubt.
DOUBT_FROM: Final = 0.9


class Watchdog:
    """Looks after all runs."""

    def __init__(
        self,
        holding: Holding,
        floor: Floor,
        slots: Slots,
        options: WorkerOptions,
        *,
        clock: Callable[[], float],
        wake: Callable[[Callable[[], None]], None],
        hurry_heart: Callable[[], None],
    ) -> None:
        self._holding = holding
        self._floor = floor
        self._slots = slots
        self._clock = clock
        self._wake = wake
        self._hurry_heart = hurry_heart
        self._grace = options.stop_grace.total_seconds()
        lease = options.lease.total_seconds()
        self._doubt = lease * (1 - DOUBT_FROM)
        self._called = asyncio.Event()
        self._looks_at = inf
        self._is_block_told = False

    def watch(self, deadline: float) -> None:
        """Look no later than at a deadline. Called from every thread, for every run."""
        if deadline < self._looks_at:
            self._looks_at = deadline
            self._wake(self._called.set)

    def nudge(self) -> None:
        """Runs came in: look."""
        if self._looks_at == inf:
            self._called.set()

    def stop(self, run: Run, why: Stop) -> None:
        """Tell a run to stop, and make it, or hand it back if it has not begun."""
        is_news = run.tell(why, self._clock())
        if self._holding.hand_back(run) or not is_news:
            return
        run.executor.interrupt(run)
        self.watch(run.stopped_at + self._grace)

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            self._called.clear()
            pause = self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if pause == inf else pause):
                    await self._called.wait()

    def look(self) -> float:
        """Do what is due, and say for how long nothing will be."""
        now = self._clock()
        runs = list(self._holding.runs.values())
        if not runs:
            self._looks_at = inf
            return inf
        is_blocked = self._check_loop(runs)
        next_at = now + LONGEST_PAUSE
        for run in runs:
            next_at = min(next_at, self._look_at(run, now, is_blocked=is_blocked))
        self._looks_at = next_at
        return max(next_at - self._clock(), 0.001)

    def _look_at(self, run: Run, now: float, *, is_blocked: bool) -> float:
        if run.stop is not None:
            return self._see_to_stopped(run, now, is_blocked=is_blocked)
        if now >= run.deadline:
            self.stop(run, Stop.TIMEOUT)
            return run.stopped_at + self._grace
        doubtful_at = run.lease_until - self._doubt
        if now < doubtful_at:
            return min(run.deadline, doubtful_at)
        if run.doubted_at == inf:
            run.doubted_at = now
            self._hurry_heart()
        lapses_at = max(run.lease_until, run.doubted_at + self._doubt)
        if now < lapses_at:
            return min(run.deadline, lapses_at)
        _log.warning("the lease of job %s ran out and could not be renewed", to_text(run.job.id))
        self.stop(run, Stop.LAPSED)
        return run.stopped_at + self._grace

    def _see_to_stopped(self, run: Run, now: float, *, is_blocked: bool) -> float:
        """Leave a run behind whose grace is over, unless it only waits for one that blocks its loop."""
        left = run.stopped_at + self._grace - now
        if left > 0:
            return now + left
        if is_blocked and run.executor is self._slots and self._slots.running() is not run:
            return inf
        self.leave_behind(run)
        return inf

    def leave_behind(self, run: Run) -> None:
        """End a run without its handler."""
        if run.key not in self._holding.runs:
            return
        seconds = self._clock() - run.stopped_at
        _log.warning(
            "the handler of job %s (%s) was told to stop (%s) and did not within %.1f s: it is left behind",
            to_text(run.job.id), run.job.type, run.stop, seconds,
        )  # fmt: skip
        run.executor.abandon(run)
        self._holding.finish(run, run.outcome_stopped())

    def _check_loop(self, runs: list[Run]) -> bool:
        """Ask the handlers' loop for a sign of life; report it once if there is none."""
        if not any(run.executor is self._slots for run in runs):
            return False
        self._floor.ping()
        if self._floor.blocked_for() < BLOCKED_SECONDS:
            self._is_block_told = False
            return False
        if not self._is_block_told:
            self._is_block_told = True
            culprit = self._slots.running()
            name = f"job {to_text(culprit.job.id)} ({culprit.job.type})" if culprit is not None else "a callback"
            _log.warning(
                "the handlers' loop is blocked by %s; it holds up every async job:\n%s", name, self._floor.describe()
            )
        for run in runs:
            if run.executor is self._slots:
                self._holding.hand_back(run)
        return True
