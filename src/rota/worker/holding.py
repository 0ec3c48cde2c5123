"""What a worker holds: the runs it answers for, and the reports it has not yet sent.

Three threads and more meet here: the source's loop (claims, renews, settles), the handlers' loop and the handlers'
threads. They share two dictionaries and a queue, and no lock: each step that must happen once is the removal of one
key, which only one thread can do. Who takes a run out of `waiting` begins it or hands it back; who takes it out of
`runs` has the word about how it ended. So a handler that returns while the watchdog leaves it behind yields one
report, not two.

The source's loop is rung once for all that ended since it last looked. When to ring is up to whoever ends runs: to
ring costs a system call, during which the other thread takes the GIL and finds a single run to settle. So the slots
ring when they have come to the end of what they can do at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from rota.core.job import Job
from rota.core.outcome import Failed, Outcome
from rota.core.settlement import JobError
from rota.ports.faces import Report
from rota.worker.leases import Key
from rota.worker.run import Run

Ring = Callable[[], None]
NoteFailure = Callable[[Job, JobError], None]


def _nobody(_: Job, __: JobError) -> None:
    """Note nothing."""


class Holding:
    """Runs and reports."""

    def __init__(self, ring: Ring, note_failure: NoteFailure = _nobody) -> None:
        self.runs: dict[Key, Run] = {}
        self.waiting: dict[Key, Run] = {}
        self.outbox: deque[Report] = deque()
        self._ring = ring
        self._note_failure = note_failure
        self._is_rung = False

    def hold(self, runs: Iterable[Run]) -> None:
        """Answer for these runs from now on."""
        for run in runs:
            self.runs[run.key] = run
            self.waiting[run.key] = run

    def take(self, run: Run) -> bool:
        """Take a run that waits, to begin it or to hand it back; False if someone else took it."""
        return self.waiting.pop(run.key, None) is not None

    def end(self, run: Run, outcome: Outcome | None) -> bool:
        """End a run and wake the source's loop; False if it had already ended."""
        if not self.finish(run, outcome):
            return False
        self.ring()
        return True

    def finish(self, run: Run, outcome: Outcome | None) -> bool:
        """End a run with what is to be reported, if anything; False if it had already ended. Whoever calls rings."""
        if self.runs.pop(run.key, None) is None:
            return False
        # The two know each other. Parted, both go at once; else they wait for the collector, with all that they hold.
        context, run.context = run.context, None
        if type(outcome) is Failed:
            self._note_failure(run.job, outcome.error)
        if outcome is not None:
            self.outbox.append(Report(*run.key, outcome, None if context is None else context.log_tail()))
        return True

    def hand_back(self, run: Run) -> bool:
        """End a run that was not begun; False if it was."""
        return self.take(run) and self.end(run, run.outcome_unbegun())

    def ring(self) -> None:
        """Wake the source's loop, once until it answers."""
        if not self._is_rung:
            self._is_rung = True
            self._ring()

    def answer(self) -> None:
        """Note that the source's loop is awake: whatever ends from now on rings again."""
        self._is_rung = False
