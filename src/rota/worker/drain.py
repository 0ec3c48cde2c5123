"""Draining: how a worker ends without losing a job or wasting an attempt.

From the first signal on nothing is claimed and no handler is started. Running handlers may finish until shortly before
the deadline; then they are asked to stop, and their jobs are handed back without using an attempt. The jobs of handlers
that do not stop even then are handed back without waiting. All reports are written before the worker ends. A second
signal skips the waiting.

The deadline covers everything, writing and closing included, so that a supervisor that kills after its grace period
finds no process to kill. If the store is unavailable all that time, the leases lapse by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

from rota.worker.deadlines import Stopper
from rota.worker.options import WorkerOptions
from rota.worker.outcomes import StopReason
from rota.worker.reporter import OutcomeReporter
from rota.worker.tracker import AttemptTracker

#: The part of the time, and the most seconds, reserved for handing back; of a short time, half, up to a second.
RESERVE_PART: Final = 0.25
LONGEST_RESERVE: Final = 4.0
SHORTEST_RESERVE: Final = 1.0
#: Reserved for closing, when all is written.
TO_CLOSE_SECONDS: Final = 0.25
#: Even with no time left, for the open claim and for writing: otherwise jobs wait until their leases lapse.
LEAST_TO_WRITE: Final = 0.25
#: How long the open claim and the last announcement may take at most.
LONGEST_LAST_REQUEST: Final = 2.0


class Drain:
    """Ends a worker's attempts within the drain timeout."""

    def __init__(
        self,
        tracker: AttemptTracker,
        reporter: OutcomeReporter,
        stopper: Stopper,
        options: WorkerOptions,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._tracker = tracker
        self._reporter = reporter
        self._clock = clock
        self._stopper = stopper
        self._seconds = options.drain_timeout.total_seconds()
        least = min(SHORTEST_RESERVE, self._seconds / 2)
        self._reserve = min(max(self._seconds * RESERVE_PART, least), LONGEST_RESERVE)
        self._changed = asyncio.Event()
        self._ends_at = inf

    def begin(self) -> None:
        """Start the timeout, and hand back the jobs whose handlers have not started."""
        self._ends_at = min(self._ends_at, self._clock() + self._seconds)
        self.hand_back()

    def hand_back(self) -> None:
        """Hand back the jobs whose handlers have not started."""
        for attempt in list(self._tracker.waiting.values()):
            self._stopper.stop(attempt, StopReason.DRAIN)

    def stop_waiting(self) -> None:
        """Do not wait for handlers any longer."""
        self._ends_at = min(self._ends_at, self._clock() + self._reserve)
        self._changed.set()

    def wake(self) -> None:
        """Check again: an attempt has finished."""
        self._changed.set()

    async def finish(self) -> None:
        """Wait for the handlers while there is time, then hand their jobs back."""
        await self._wait_for_attempts(self._reserve)
        for attempt in list(self._tracker.held.values()):
            self._stopper.stop(attempt, StopReason.DRAIN)
        await self._wait_for_attempts(self._reserve / 2)
        for attempt in list(self._tracker.held.values()):
            self._stopper.abandon(attempt)
        self._reporter.close()

    def seconds_to_write(self) -> float:
        """How long to wait for outcomes to be written."""
        return max(self.seconds_left() - TO_CLOSE_SECONDS, LEAST_TO_WRITE)

    def seconds_for_request(self) -> float:
        """How long to wait for an answer that is not needed to end."""
        return min(self.seconds_left() / 4, LONGEST_LAST_REQUEST)

    def seconds_for_claim(self) -> float:
        """How long to wait for the jobs of the open claim, which otherwise wait for their leases to lapse."""
        return max(self.seconds_for_request(), LEAST_TO_WRITE)

    def seconds_left(self) -> float:
        return max(self._ends_at - self._clock(), 0.0)

    async def _wait_for_attempts(self, reserve: float) -> None:
        """Wait until nothing runs, or until `reserve` seconds before the end."""
        while self._tracker.held and (left := self.seconds_left() - reserve) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
