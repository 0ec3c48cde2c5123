"""The attempts a worker holds, and the reports it has not yet written to the store.

Several threads share this object: the source loop (claims, renews, settles), the handler loop and the handler threads.
They share two dictionaries and a queue, without a lock: each step that must happen once is the removal of one key,
which only one thread can do. The thread that removes an attempt from `waiting` starts it or hands it back; the thread
that removes it from `held` decides its outcome. So a handler that returns while the watchdog abandons it yields one
report, not two.

The source loop is woken once for all attempts that finished since it last looked. A wake-up costs a system call, during
which the other thread takes the GIL and finds a single attempt to settle. So executors call `wake` themselves, when
they have finished all they can do without waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from rota.core.job import Job
from rota.core.outcome import Failed, Outcome
from rota.core.settlement import JobError
from rota.ports.client import AttemptReport
from rota.worker.attempt import RunningAttempt
from rota.worker.lease_keeper.protocol import LeaseKey


class AttemptTracker:
    """Held attempts and unsent reports."""

    def __init__(self, wake_loop: Callable[[], None], log_failure: Callable[[Job, JobError], None]) -> None:
        self.held: dict[LeaseKey, RunningAttempt] = {}
        self.waiting: dict[LeaseKey, RunningAttempt] = {}
        self.outbox: deque[AttemptReport] = deque()
        self._wake_loop = wake_loop
        self._log_failure = log_failure
        self._is_waking = False

    def hold(self, attempts: Iterable[RunningAttempt]) -> None:
        """Add attempts whose handlers have not started."""
        for attempt in attempts:
            self.held[attempt.key] = attempt
            self.waiting[attempt.key] = attempt

    def take(self, attempt: RunningAttempt) -> bool:
        """Take an attempt out of `waiting`, to start it or to hand it back; False if another thread took it."""
        return self.waiting.pop(attempt.key, None) is not None

    def finish_and_wake(self, attempt: RunningAttempt, outcome: Outcome | None) -> bool:
        """Finish an attempt and wake the source loop; False if it had already finished."""
        if not self.finish(attempt, outcome):
            return False
        self.wake()
        return True

    def finish(self, attempt: RunningAttempt, outcome: Outcome | None) -> bool:
        """Finish an attempt and queue its report, if any; False if it had already finished. The caller wakes the loop.

        An outcome of None is not reported: the job belongs to another worker.
        """
        if self.held.pop(attempt.key, None) is None:
            return False
        # Attempt and context refer to each other. Without this they would wait for the garbage collector.
        context, attempt.context = attempt.context, None
        if type(outcome) is Failed:
            self._log_failure(attempt.job, outcome.error)
        if outcome is not None:
            log_tail, progress = (None, None) if context is None else context.take_last()
            # A job with a key may have a breaker of its own.
            breaker = attempt.handler.breaker if attempt.job.concurrency_key is None else attempt.breaker
            self.outbox.append(AttemptReport(*attempt.key, outcome, log_tail, progress, breaker))
        return True

    def hand_back(self, attempt: RunningAttempt) -> bool:
        """Finish an attempt whose handler has not started; False if it has."""
        return self.take(attempt) and self.finish_and_wake(attempt, attempt.outcome_not_started())

    def wake(self) -> None:
        """Wake the source loop, once until it calls `woken`. Called from any thread."""
        if not self._is_waking:
            self._is_waking = True
            self._wake_loop()

    def woken(self) -> None:
        """Record that the source loop is awake: the next `wake` wakes it again."""
        self._is_waking = False
