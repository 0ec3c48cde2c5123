"""Intake of claimed jobs: counts the free slots, chooses an executor, and holds jobs that were claimed early.

A job that was claimed ahead of its time waits here until its `run_at` by the store's clock, converted to the worker's
monotonic clock. Until then it occupies a slot and its lease is renewed; a drain or a cancel hands it back. One timer is
set for the earliest job. Timers of an event loop are exact to a millisecond, so a handler starts up to that much late
and never early: a timer that fires too soon finds no job that is due, and is set again. If the store's clock is set
back meanwhile, their time has moved away: they are handed back, to wait in the store, since the clock may be corrected
at any moment. If the worker dies, the leases of these jobs lapse, or the lease keeper hands them back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from rota.clock_offset import ClockOffset
from rota.core.envelope import is_encrypted
from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.lease import AHEAD
from rota.core.outcome import Failed, Outcome, Released, Snoozed
from rota.core.settlement import JobError
from rota.ports.client import AttemptReport, InputSource
from rota.ports.clock import Rng
from rota.telemetry.logs import about
from rota.worker.attempt import Executor, RunningAttempt
from rota.worker.deadlines import Watchdog
from rota.worker.executors.group import ExecutorGroup
from rota.worker.handlers import Handlers, isolated
from rota.worker.heartbeat import LeaseHeartbeat
from rota.worker.inputs import InputLoader, has_input
from rota.worker.options import WorkerOptions
from rota.worker.payload_reader import PayloadReader
from rota.worker.reporter import OutcomeReporter
from rota.worker.tracker import AttemptTracker

if TYPE_CHECKING:
    from rota.encryption import Cipher

_log = logging.getLogger("rota.worker")
#: With more unwritten outcomes than this no more jobs are claimed.
MOST_UNWRITTEN: Final = 2000
#: How many suspected jobs run in processes of their own at once; each process costs memory.
MOST_ISOLATED: Final = 4
ISOLATION_DELAY: Final = timedelta(seconds=1)
#: The longest time for which a job is held ahead of its time: much longer than any is claimed ahead.
LONGEST_EARLY_SECONDS: Final = 10 * AHEAD.total_seconds()


class Intake:
    """Starts claimed jobs on the executor of their handler."""

    def __init__(
        self,
        handlers: Handlers,
        executors: ExecutorGroup,
        tracker: AttemptTracker,
        options: WorkerOptions,
        *,
        reporter: OutcomeReporter,
        heartbeat: LeaseHeartbeat,
        watchdog: Watchdog,
        clock: Callable[[], float],
        inputs: InputSource | None = None,
        rng: Rng = random.random,
        cipher: Cipher | None = None,
    ) -> None:
        self._payloads = PayloadReader(cipher, clock)
        self._early_jobs = EarlyJobs(self._start, tracker.hand_back, clock=clock)
        self._input_loader = InputLoader(inputs, tracker, self._put, rng)
        self._handlers = handlers
        self._executors = executors
        self._tracker = tracker
        self._limit = options.concurrency
        self._queues = options.queues
        self._queue_slots = options.queue_slots
        self._lease = options.lease.total_seconds()
        self._reporter = reporter
        self._heartbeat = heartbeat
        self._watchdog = watchdog
        self._all_types = handlers.types
        self._types_off_loop = handlers.types_of("thread", "process")
        self._most_unwritten = max(MOST_UNWRITTEN, 4 * self._limit)

    def free_slots(self) -> int:
        """Count the free slots. Abandoned handlers cost slots once there are more of them than slots."""
        if self._reporter.unwritten > self._most_unwritten:
            return 0
        free = self._limit - len(self._tracker.held) - max(self._executors.abandoned - self._limit, 0)
        # A claim over several queues may return jobs of any of them: no more than the fullest queue can take.
        return min([free, *(n for n in self._free_by_queue().values() if n > 0)]) if self._queue_slots else free

    def queues(self) -> tuple[str, ...]:
        """Return the queues with free slots. `free_slots` jobs find a slot however they are spread over the queues."""
        if not self._queue_slots:
            return self._queues
        free = self._free_by_queue()
        return tuple(queue for queue in self._queues if free.get(queue, 1) > 0)

    def _free_by_queue(self) -> dict[str, int]:
        """Count the free slots of each queue that has a bound of its own."""
        held = Counter(attempt.job.queue for attempt in self._tracker.held.values())
        return {queue: slots - held[queue] for queue, slots in self._queue_slots.items()}

    def types(self) -> tuple[str, ...]:
        """Return the job types that can start now: while the handler loop is blocked, only those that do not use it."""
        return self._types_off_loop if self._executors.is_loop_blocked else self._all_types

    def is_restricted(self) -> bool:
        """Return whether some types or queues are left out for the moment; then claims should wait only briefly."""
        return self._executors.is_loop_blocked or len(self.queues()) < len(self._queues)

    def accept(self, jobs: Sequence[Job], sent: float) -> None:
        """Start these jobs, whose leases count from the moment `sent`."""
        attempts = [attempt for job in jobs if (attempt := self._attempt_of(job, sent)) is not None]
        self._tracker.hold(attempts)
        # Before any handler starts: it may crash the process at once.
        self._heartbeat.hold(attempts)
        self._watchdog.attempts_added()
        # A claim returns either due jobs or early jobs. The last job is the latest: if it is due, all are.
        if jobs[-1].is_ahead:
            self._early_jobs.learn_store_time(jobs[-1].updated_at)
            self._early_jobs.hold(attempts)
        else:
            self._start(attempts)

    def learn_store_time(self, store_time: datetime, asked_at: float) -> None:
        """Note a reading of the store's clock that was requested at `asked_at` of the monotonic clock."""
        self._early_jobs.learn_store_time(store_time, asked_at)

    def close(self) -> None:
        """Start no more early jobs, and none that waits for its input."""
        self._early_jobs.close()
        self._input_loader.close()

    def hand_back(self, jobs: Sequence[Job]) -> None:
        """Return claimed jobs whose handlers were never started."""
        self._tracker.outbox.extend(AttemptReport(job.id, job.fence, Released(started=False)) for job in jobs)
        self._tracker.wake()

    def _start(self, attempts: Sequence[RunningAttempt]) -> None:
        with_input = [attempt for attempt in attempts if attempt.job.meta and has_input(attempt.job)]
        if with_input:
            for attempt in with_input:
                self._input_loader.load(attempt)
            attempts = [attempt for attempt in attempts if not has_input(attempt.job)]
        self._put(attempts)

    def _put(self, attempts: Sequence[RunningAttempt]) -> None:
        by_executor: dict[Executor, list[RunningAttempt]] = {}
        for attempt in attempts:
            by_executor.setdefault(attempt.executor, []).append(attempt)
        for executor, some in by_executor.items():
            executor.put(some)

    def _attempt_of(self, job: Job, sent: float) -> RunningAttempt | None:
        if is_encrypted(job.payload):
            opened = self._payloads.read(job)
            if not isinstance(opened, Job):
                self._refuse(job, opened)
                return None
            job = opened
        handler = self._handlers.lookup(job.type)
        if handler is None:
            # Handed back, it would be claimed here again at once; a failure with backoff lets other workers find it.
            message = "job %s has type %r, for which this worker has no handler"
            _log.error(message, to_text(job.id), job.type, extra=about(job))
            error = JobError("UnknownType", f"the worker has no handler for type {job.type!r}")
            self._refuse(job, Failed(error))
            return None
        is_suspect = job.is_suspect
        alone = isolated(handler) if is_suspect else handler
        if alone is not handler:
            # This job, or one that ran beside it, crashed workers. In a process of its own it can crash only itself.
            if self._isolated >= MOST_ISOLATED:
                self._refuse(job, Snoozed(ISOLATION_DELAY))
                return None
            handler = alone
        attempt = RunningAttempt(job, handler, self._executors.by_name[handler.executor], sent, self._lease)
        attempt.is_isolated = is_suspect
        return attempt

    def _refuse(self, job: Job, outcome: Outcome) -> None:
        self._tracker.outbox.append(AttemptReport(job.id, job.fence, outcome))
        self._tracker.wake()

    @property
    def _isolated(self) -> int:
        return sum(attempt.is_isolated for attempt in self._tracker.held.values())


class EarlyJobs:
    """Attempts that were claimed ahead of their time, in a heap by `run_at`."""

    def __init__(
        self,
        start: Callable[[Sequence[RunningAttempt]], None],
        hand_back: Callable[[RunningAttempt], object],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._start = start
        self._hand_back = hand_back
        self._clock = clock
        self._clock_offset = ClockOffset()
        self._waiting: list[tuple[datetime, int, RunningAttempt]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    def learn_store_time(self, store_time: datetime, asked_at: float | None = None) -> None:
        """Note a reading of the store's clock, and compute again when each attempt is due."""
        self._clock_offset.observe(store_time, self._clock(), asked_at)
        if self._waiting:
            self._start_due()

    def hold(self, attempts: Sequence[RunningAttempt]) -> None:
        """Start each of these attempts when it is due."""
        for attempt in attempts:
            heappush(self._waiting, (attempt.job.run_at, next(self._numbers), attempt))
        self._start_due()

    def close(self) -> None:
        """Start nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()

    def _start_due(self) -> None:
        """Start the attempts that are due, and set the timer for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due: list[RunningAttempt] = []
        now = self._clock()
        while self._waiting and (due_at := self._clock_offset.local_time(self._waiting[0][0])) <= now:
            due.append(heappop(self._waiting)[2])
        if self._waiting and due_at - now > LONGEST_EARLY_SECONDS:
            for _, _, attempt in self._waiting:
                self._hand_back(attempt)
            self._waiting.clear()
        elif self._waiting:
            self._timer = asyncio.get_running_loop().call_later(max(due_at - now, 1e-6), self._start_due)
        if due:
            self._start(due)
