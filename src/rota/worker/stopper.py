"""Stopping runs: telling them, making them, and in the end leaving them behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf

from rota.core.identity import to_text
from rota.telemetry.logs import about
from rota.worker.holding import Holding
from rota.worker.run import Run
from rota.worker.verdict import Stop

_log = logging.getLogger("rota.worker")


class Alarm:
    """When the watchdog looks next. Set earlier from every thread, for every run that begins with a limit."""

    def __init__(self, wake: Callable[[Callable[[], None]], None]) -> None:
        self.called = asyncio.Event()
        self.at = inf
        self._wake = wake

    def set(self, moment: float) -> None:
        """Look no later than at a moment of the monotonic clock."""
        if moment < self.at:
            self.at = moment
            self._wake(self.called.set)


class Stopper:
    """Stops runs, for whatever reason."""

    def __init__(self, holding: Holding, alarm: Alarm, grace: float, *, clock: Callable[[], float]) -> None:
        self.grace = grace
        self._holding = holding
        self._alarm = alarm
        self._clock = clock

    def stop(self, run: Run, why: Stop) -> None:
        """Tell a run to stop, and make it, or hand it back if it has not begun."""
        is_news = run.tell(why, self._clock())
        if self._holding.hand_back(run) or not is_news:
            return
        run.executor.interrupt(run)
        self._alarm.set(run.stopped_at + self.grace)

    def leave_behind(self, run: Run) -> None:
        """End a run that was told to stop, without its handler."""
        if run.key not in self._holding.runs:
            return
        _log.warning(
            "the handler of job %s (%s) was told to stop (%s) and did not within %.1f s: it is left behind",
            to_text(run.job.id),
            run.job.type,
            run.stop,
            self._clock() - run.stopped_at,
            extra=about(run.job),
        )
        run.executor.abandon(run)
        self._holding.end(run, run.outcome_stopped())
