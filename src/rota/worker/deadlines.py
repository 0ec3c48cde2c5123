"""Deadlines: one task (the watchdog) that stops attempts past their time, and the stopping itself.

The watchdog checks whenever something is due (the earliest deadline, the end of a grace period, a lease that may lapse)
and at least once a second while anything runs; with nothing held it sleeps. After new attempts it checks a moment
later: most have finished by then, and the handlers that start need not share the interpreter with it. If all have
finished, that check is left out. An attempt that starts with an earlier deadline than the next check wakes it. The
watchdog runs on the source loop, so a blocked handler cannot delay it.

For each attempt, by the monotonic clock:

- past its time limit: asked to stop (`TIMEOUT`).
- past nine tenths of its lease: doubtful; the heartbeat renews now. Past the whole lease, and past a short time for the
  renewal to be answered: asked to stop (`LAPSED`). So a worker that was paused tries to renew before it stops anything.
- asked to stop, and its grace period over: abandoned; its outcome is reported without waiting for the handler.

While the handler loop does not respond, the watchdog logs that once, with the stack that blocks it, and hands back the
coroutine attempts that have not started. Of those that have, only the one that blocks the loop is abandoned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

from rota.core.ids import to_text
from rota.telemetry.logs import about
from rota.worker.attempt import RunningAttempt
from rota.worker.executors.coroutines import CoroutineExecutor
from rota.worker.executors.loop_thread import BLOCKED_SECONDS
from rota.worker.heartbeat import LeaseHeartbeat
from rota.worker.options import WorkerOptions
from rota.worker.outcomes import StopReason
from rota.worker.tracker import AttemptTracker

_log = logging.getLogger("rota.worker")
LONGEST_PAUSE: Final = 1.0
#: How long after new attempts to check for the first time.
FIRST_CHECK_SECONDS: Final = 0.05
#: From this part of a lease on it is doubtful.
DOUBT_FROM: Final = 0.9


class WatchdogAlarm:
    """The time of the watchdog's next check. Set from any thread, by every attempt that starts with a time limit."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self.called = asyncio.Event()
        self.at = inf
        self._call_soon = call_soon

    def set(self, moment: float) -> None:
        """Check no later than at a moment of the monotonic clock."""
        if moment < self.at:
            self.at = moment
            self._call_soon(self.called.set)


class Stopper:
    """Stops attempts: asks the handler first, then interrupts it, in the end abandons it."""

    def __init__(self, tracker: AttemptTracker, alarm: WatchdogAlarm, grace: float, clock: Callable[[], float]) -> None:
        self.grace = grace
        self._tracker = tracker
        self._alarm = alarm
        self._clock = clock

    def stop(self, attempt: RunningAttempt, reason: StopReason) -> None:
        """Ask a handler to stop and interrupt it; hand the job back if the handler has not started."""
        is_first = attempt.request_stop(reason, self._clock())
        if self._tracker.hand_back(attempt) or not is_first:
            return
        attempt.executor.interrupt(attempt)
        self._alarm.set(attempt.stopped_at + self.grace)

    def abandon(self, attempt: RunningAttempt) -> None:
        """Finish an attempt that was asked to stop, without waiting for its handler."""
        if attempt.key not in self._tracker.held:
            return
        _log.warning(
            "the handler of job %s (%s) did not stop (reason: %s) within %.1f s; the worker abandons it",
            to_text(attempt.job.id),
            attempt.job.type,
            attempt.stop,
            self._clock() - attempt.stopped_at,
            extra=about(attempt.job),
        )
        attempt.executor.abandon(attempt)
        self._tracker.finish_and_wake(attempt, attempt.outcome_stopped())


class Watchdog:
    """Checks the deadlines of all held attempts."""

    def __init__(
        self,
        tracker: AttemptTracker,
        coroutines: CoroutineExecutor,
        stopper: Stopper,
        alarm: WatchdogAlarm,
        options: WorkerOptions,
        *,
        heartbeat: LeaseHeartbeat,
        clock: Callable[[], float],
    ) -> None:
        self._tracker = tracker
        self._coroutines = coroutines
        self._stopper = stopper
        self._alarm = alarm
        self._clock = clock
        self._heartbeat = heartbeat
        self._doubt = options.lease.total_seconds() * (1 - DOUBT_FROM)
        self._is_block_logged = False
        self._first_check: asyncio.TimerHandle | None = None

    def attempts_added(self) -> None:
        """Check a moment later. To be called on the source loop."""
        if self._alarm.at == inf:
            self._alarm.at = self._clock() + FIRST_CHECK_SECONDS
            loop = asyncio.get_running_loop()
            self._first_check = loop.call_later(FIRST_CHECK_SECONDS, self._alarm.called.set)

    def attempts_finished(self) -> None:
        """Leave out the first check if nothing is held any more. To be called on the source loop.

        Only that loop adds attempts, so none can be added meanwhile.
        """
        if self._first_check is not None and not self._tracker.held:
            self._first_check.cancel()
            self._first_check = None
            self._alarm.at = inf

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            self._alarm.called.clear()
            pause = self.check()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if pause == inf else pause):
                    await self._alarm.called.wait()

    def check(self) -> float:
        """Do what is due; return the seconds until the next check."""
        now = self._clock()
        attempts = list(self._tracker.held.values())
        if not attempts:
            self._alarm.at = inf
            return inf
        is_blocked = self._check_loop(attempts)
        next_at = now + LONGEST_PAUSE
        for attempt in attempts:
            next_at = min(next_at, self._check_attempt(attempt, now, is_blocked=is_blocked))
        self._alarm.at = next_at
        return max(next_at - self._clock(), 0.001)

    def _check_attempt(self, attempt: RunningAttempt, now: float, *, is_blocked: bool) -> float:
        if attempt.stop is not None:
            return self._check_stopped(attempt, now, is_blocked=is_blocked)
        if now >= attempt.deadline:
            self._stopper.stop(attempt, StopReason.TIMEOUT)
            return attempt.stopped_at + self._stopper.grace
        doubtful_at = attempt.lease_until - self._doubt
        if now < doubtful_at:
            return min(attempt.deadline, doubtful_at)
        if attempt.doubtful_since == inf:
            attempt.doubtful_since = now
            self._heartbeat.renew_now()
        lapses_at = max(attempt.lease_until, attempt.doubtful_since + self._doubt)
        if now < lapses_at:
            return min(attempt.deadline, lapses_at)
        message = "the lease of job %s lapsed and could not be renewed"
        _log.warning(message, to_text(attempt.job.id), extra=about(attempt.job))
        self._stopper.stop(attempt, StopReason.LAPSED)
        return attempt.stopped_at + self._stopper.grace

    def _check_stopped(self, attempt: RunningAttempt, now: float, *, is_blocked: bool) -> float:
        """Abandon an attempt whose grace period is over, unless another one blocks its loop."""
        left = attempt.stopped_at + self._stopper.grace - now
        if left > 0:
            return now + left
        if is_blocked and attempt.executor is self._coroutines and self._coroutines.current_attempt() is not attempt:
            return inf
        self._stopper.abandon(attempt)
        return inf

    def _check_loop(self, attempts: list[RunningAttempt]) -> bool:
        """Return whether the handler loop is blocked; log that once."""
        if not any(attempt.executor is self._coroutines for attempt in attempts):
            return False
        self._coroutines.loop.ping()
        if self._coroutines.loop.blocked_for() < BLOCKED_SECONDS:
            if self._is_block_logged:
                self._is_block_logged = False
                self._tracker.wake()
            return False
        if not self._is_block_logged:
            self._is_block_logged = True
            self._log_block()
        for attempt in attempts:
            if attempt.executor is self._coroutines:
                self._tracker.hand_back(attempt)
        return True

    def _log_block(self) -> None:
        blocking_attempt = self._coroutines.current_attempt()
        name = (
            f"job {to_text(blocking_attempt.job.id)} ({blocking_attempt.job.type})"
            if blocking_attempt is not None
            else "a callback"
        )
        _log.warning(
            "the event loop of the async handlers is blocked by %s; it delays every async job:\n%s",
            name,
            self._coroutines.loop.stack_text(),
            extra=None if blocking_attempt is None else about(blocking_attempt.job),
        )
