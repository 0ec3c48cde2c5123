"""The watchdog: one task that sees to every deadline.

It looks whenever something is due (the earliest deadline, the end of a grace, a lease that may run out) and at least
once a second while anything runs; with nothing held it sleeps. When runs come in it looks a moment later: most have
ended by then, and those that begin need not share the interpreter with it. If all have, it does not look: it would be
in the way of whatever begins at that moment. A run that begins with an earlier deadline than the next look wakes it. It
lives on the source's loop, so a blocked handler cannot keep it from noticing.

For each run, by the monotonic clock:

- past its limit: told to stop (`TIMEOUT`).
- past nine tenths of its lease: in doubt; the heart is asked to beat now. Past all of it and past a moment for the
  heart to be answered: told to stop (`LAPSED`). A worker that was paused finds itself here, and asks before it
  judges.
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
from rota.telemetry.logs import about
from rota.worker.floor import BLOCKED_SECONDS
from rota.worker.holding import Holding
from rota.worker.options import WorkerOptions
from rota.worker.run import Run
from rota.worker.slots import Slots
from rota.worker.stopper import Alarm, Stopper
from rota.worker.verdict import Stop

_log = logging.getLogger("rota.worker")
LONGEST_PAUSE: Final = 1.0
#: How long after runs came in to look for the first time.
FIRST_LOOK_SECONDS: Final = 0.05
#: From this part of a lease on it is in doubt.
DOUBT_FROM: Final = 0.9


class Watchdog:
    """Looks after all runs."""

    def __init__(
        self,
        holding: Holding,
        slots: Slots,
        stopper: Stopper,
        alarm: Alarm,
        options: WorkerOptions,
        *,
        clock: Callable[[], float],
        hurry_heart: Callable[[], None],
        unblocked: Callable[[], None],
    ) -> None:
        self._holding = holding
        self._slots = slots
        self._stopper = stopper
        self._alarm = alarm
        self._clock = clock
        self._hurry_heart = hurry_heart
        self._unblocked = unblocked
        self._doubt = options.lease.total_seconds() * (1 - DOUBT_FROM)
        self._is_block_told = False
        self._first_look: asyncio.TimerHandle | None = None

    def nudge(self) -> None:
        """Look before long, since runs came in. To be called on the source's loop."""
        if self._alarm.at == inf:
            self._alarm.at = self._clock() + FIRST_LOOK_SECONDS
            loop = asyncio.get_running_loop()
            self._first_look = loop.call_later(FIRST_LOOK_SECONDS, self._alarm.called.set)

    def rest(self) -> None:
        """Leave out the look at runs that came in if all have ended. To be called on the source's loop.

        Only that loop takes runs on, so none can begin here unseen.
        """
        if self._first_look is not None and not self._holding.runs:
            self._first_look.cancel()
            self._first_look = None
            self._alarm.at = inf

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            self._alarm.called.clear()
            pause = self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if pause == inf else pause):
                    await self._alarm.called.wait()

    def look(self) -> float:
        """Do what is due, and say for how long nothing will be."""
        now = self._clock()
        runs = list(self._holding.runs.values())
        if not runs:
            self._alarm.at = inf
            return inf
        is_blocked = self._check_loop(runs)
        next_at = now + LONGEST_PAUSE
        for run in runs:
            next_at = min(next_at, self._look_at(run, now, is_blocked=is_blocked))
        self._alarm.at = next_at
        return max(next_at - self._clock(), 0.001)

    def _look_at(self, run: Run, now: float, *, is_blocked: bool) -> float:
        if run.stop is not None:
            return self._see_to_stopped(run, now, is_blocked=is_blocked)
        if now >= run.deadline:
            self._stopper.stop(run, Stop.TIMEOUT)
            return run.stopped_at + self._stopper.grace
        doubtful_at = run.lease_until - self._doubt
        if now < doubtful_at:
            return min(run.deadline, doubtful_at)
        if run.doubted_at == inf:
            run.doubted_at = now
            self._hurry_heart()
        lapses_at = max(run.lease_until, run.doubted_at + self._doubt)
        if now < lapses_at:
            return min(run.deadline, lapses_at)
        said = "the lease of job %s ran out and could not be renewed"
        _log.warning(said, to_text(run.job.id), extra=about(run.job))
        self._stopper.stop(run, Stop.LAPSED)
        return run.stopped_at + self._stopper.grace

    def _see_to_stopped(self, run: Run, now: float, *, is_blocked: bool) -> float:
        """Leave a run behind whose grace is over, unless it only waits for one that blocks its loop."""
        left = run.stopped_at + self._stopper.grace - now
        if left > 0:
            return now + left
        if is_blocked and run.executor is self._slots and self._slots.running() is not run:
            return inf
        self._stopper.leave_behind(run)
        return inf

    def _check_loop(self, runs: list[Run]) -> bool:
        """Ask the handlers' loop for a sign of life; report it once if there is none."""
        if not any(run.executor is self._slots for run in runs):
            return False
        self._slots.floor.ping()
        if self._slots.floor.blocked_for() < BLOCKED_SECONDS:
            if self._is_block_told:
                self._is_block_told = False
                self._unblocked()
            return False
        if not self._is_block_told:
            self._is_block_told = True
            culprit = self._slots.running()
            name = f"job {to_text(culprit.job.id)} ({culprit.job.type})" if culprit is not None else "a callback"
            _log.warning(
                "the handlers' loop is blocked by %s; it holds up every async job:\n%s",
                name,
                self._slots.floor.describe(),
                extra=None if culprit is None else about(culprit.job),
            )
        for run in runs:
            if run.executor is self._slots:
                self._holding.hand_back(run)
        return True
