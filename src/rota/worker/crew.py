"""The crew: all executors together, and how many more jobs they could take."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from rota.core.identity import to_text
from rota.core.job import Job
from rota.core.outcome import Failed, Released, Snoozed
from rota.core.settlement import JobError
from rota.ports.faces import Report
from rota.telemetry.logs import about
from rota.worker import handlers as known
from rota.worker.anteroom import Anteroom
from rota.worker.floor import BLOCKED_SECONDS, Floor
from rota.worker.handlers import Handlers, isolated
from rota.worker.holding import Holding
from rota.worker.options import WorkerOptions
from rota.worker.run import Executor, Run

_log = logging.getLogger("rota.worker")
#: More unwritten outcomes than this, and no more work is taken on: the store must hear of what was done first.
MOST_UNSETTLED: Final = 2000


#: How many suspects have a process of their own at once; a process costs memory, and suspects may come in crowds.
MOST_ISOLATED: Final = 4
COME_BACK: Final = timedelta(seconds=1)


class Crew:
    """Takes jobs on and gives them to the executor their handler asks for."""

    def __init__(
        self,
        handlers: Handlers,
        executors: Mapping[known.Executor, Executor],
        holding: Holding,
        floor: Floor,
        options: WorkerOptions,
        *,
        unsettled: Callable[[], int],
        left_behind: Callable[[], int],
        hold: Callable[[Iterable[Run]], None],
        clock: Callable[[], float],
    ) -> None:
        self._anteroom = Anteroom(self._admit, clock=clock)
        self._handlers = handlers
        self._executors = executors
        self._holding = holding
        self._floor = floor
        self._limit = options.concurrency
        self._queues = options.queues
        self._queue_slots = options.queue_slots
        self._lease = options.lease.total_seconds()
        self._unsettled = unsettled
        self._left_behind = left_behind
        self._hold = hold
        self._all = handlers.types
        self._unblockable = handlers.types_of("thread", "process")
        self._most_unsettled = max(MOST_UNSETTLED, 4 * self._limit)

    def free(self) -> int:
        """Count the free slots. Handlers left behind cost slots once there are as many of them as there are slots."""
        if self._unsettled() > self._most_unsettled:
            return 0
        free = self._limit - len(self._holding.runs) - max(self._left_behind() - self._limit, 0)
        # A claim over several queues may bring jobs of any of them: no more than the fullest can take.
        return min([free, *(room for room in self._rooms().values() if room > 0)]) if self._queue_slots else free

    def queues(self) -> tuple[str, ...]:
        """Give the queues that have slots left."""
        if not self._queue_slots:
            return self._queues
        rooms = self._rooms()
        return tuple(queue for queue in self._queues if rooms.get(queue, 1) > 0)

    def _rooms(self) -> dict[str, int]:
        """Count the free slots of each queue that has a bound of its own."""
        held = Counter(run.job.queue for run in self._holding.runs.values())
        return {queue: slots - held[queue] for queue, slots in self._queue_slots.items()}

    def types(self) -> tuple[str, ...]:
        """Give the types that can run now: while the handlers' loop is blocked, only those that do not need it."""
        return self._unblockable if self._is_blocked() else self._all

    def is_hampered(self) -> bool:
        """Say whether some types or queues are left out now: then it is worth asking again soon."""
        return self._is_blocked() or len(self.queues()) < len(self._queues)

    def _is_blocked(self) -> bool:
        return self._floor.blocked_for() >= BLOCKED_SECONDS

    def take_on(self, jobs: Sequence[Job], sent: float) -> None:
        """Run these jobs."""
        runs = [run for job in jobs if (run := self._run_of(job, sent)) is not None]
        self._holding.hold(runs)
        # The heart first: a handler may take the process down with it as soon as it begins.
        self._hold(runs)
        # What is due and what comes up never come together. The last has its time last: if that has come, all have.
        if jobs[-1].is_ahead:
            self._anteroom.hear(jobs[-1].updated_at)
            self._anteroom.seat(runs)
        else:
            self._admit(runs)

    def hear_time(self, told: datetime, asked_at: float) -> None:
        """Learn what time it has just been by the store's clock, and when we had asked for it."""
        self._anteroom.hear(told, asked_at)

    def leave(self) -> None:
        """Let nobody begin any more who waits for its moment."""
        self._anteroom.close()

    def _admit(self, runs: Sequence[Run]) -> None:
        by_executor: dict[Executor, list[Run]] = {}
        for run in runs:
            by_executor.setdefault(run.executor, []).append(run)
        for executor, some in by_executor.items():
            executor.put(some)

    @property
    def _isolated(self) -> int:
        return sum(run.is_alone for run in self._holding.runs.values())

    def turn_away(self, jobs: Sequence[Job]) -> None:
        """Hand these jobs back untouched."""
        self._holding.outbox.extend(Report(job.id, job.fence, Released(started=False)) for job in jobs)
        self._holding.ring()

    def _run_of(self, job: Job, sent: float) -> Run | None:
        handler = self._handlers.lookup(job.type)
        if handler is None:
            # It was not asked for. To hand it back would bring it here again at once; in backoff others find it.
            said = "job %s has type %r, which this worker did not ask for"
            _log.error(said, to_text(job.id), job.type, extra=about(job))
            told = JobError("UnknownType", f"the worker knows no type {job.type!r}")
            self._holding.outbox.append(Report(job.id, job.fence, Failed(told)))
            self._holding.ring()
            return None
        is_suspect = job.is_suspect
        alone = isolated(handler) if is_suspect else handler
        if alone is not handler:
            # It, or a neighbour of its, takes workers down. Alone, it can only blame itself, and harms nobody.
            if self._isolated >= MOST_ISOLATED:
                self._holding.outbox.append(Report(job.id, job.fence, Snoozed(COME_BACK)))
                self._holding.ring()
                return None
            handler = alone
        run = Run(job, handler, self._executors[handler.executor], sent, self._lease)
        run.is_alone = is_suspect
        return run
