"""Threads: sync handlers on threads of our own, fed through one queue.

An executor's round trip through the loop for each job costs 30 us and more; here a thread takes a run, performs it
and reports it by itself, and the source's loop is rung once for all that ended meanwhile.

A thread cannot be stopped from outside. A run that is told to stop sees it (`current().cancelled()`), and if it does
not end within its grace it is abandoned: its report is written without it, its thread ends whenever the handler
returns, and another thread takes its place. Abandoned threads are counted: a worker takes no more than one more set
of them before they cost it slots. Threads are daemons: one that never returns does not keep the process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from rota.worker.gate import Gate
from rota.worker.run import Run


class Seat:
    """One thread's place: the run that is in it, and whether it was abandoned."""

    __slots__ = ("is_over", "run")

    def __init__(self) -> None:
        self.run: Run | None = None
        self.is_over = False


class Threads:
    """Runs sync handlers."""

    def __init__(self, gate: Gate, limit: int, name: str, came_back: Callable[[], None]) -> None:
        self._gate = gate
        self._came_back = came_back
        self._limit = limit
        self._name = name
        self._inbox: SimpleQueue[Run | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._seats: set[Seat] = set()
        self._left: set[Seat] = set()
        self._load = 0
        self._context = copy_context()

    @property
    def left_behind(self) -> int:
        """How many abandoned handlers still run."""
        return len(self._left)

    def put(self, runs: Sequence[Run]) -> None:
        """Take runs on, with new threads if all others have one."""
        with self._guard:
            self._load += len(runs)
            missing = min(self._load, self._limit) - len(self._seats)
            seats = [Seat() for _ in range(missing)]
            self._seats.update(seats)
        for run in runs:
            self._inbox.put(run)
        for seat in seats:
            threading.Thread(target=self._serve, args=(seat,), name=f"rota-thread-{self._name}", daemon=True).start()

    def interrupt(self, run: Run) -> None:
        """Nothing to be done: the run has been told."""

    def abandon(self, run: Run) -> None:
        """Let another thread take the place of one whose handler does not stop."""
        seat = run.place
        with self._guard:
            if isinstance(seat, Seat) and seat.run is run and not seat.is_over:
                seat.is_over = True
                self._seats.discard(seat)
                self._left.add(seat)
                self._load -= 1

    def close(self) -> None:
        """Let every thread end that is not held up by its handler."""
        with self._guard:
            seats = len(self._seats)
        for _ in range(seats):
            self._inbox.put(None)

    def _serve(self, seat: Seat) -> None:
        while (run := self._inbox.get()) is not None:
            # Set before the gate: whoever stops a run that has begun must find where it is.
            seat.run, run.place = run, seat
            if self._gate.begin(run):
                self._perform(run)
            with self._guard:
                seat.run = None
                if not seat.is_over:
                    self._load -= 1
                    continue
                self._left.discard(seat)
            self._came_back()
            return

    def _perform(self, run: Run) -> None:
        try:
            arguments, named = run.handler.decode(run.job.payload)
            context = self._gate.surround(run, self._context)
            result = _call(context, run.handler.function, arguments, named)
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
            self._gate.fail(run, raised)
        else:
            self._gate.succeed(run, result)


def _call(context: Context, function: Any, arguments: Any, named: Any) -> Any:  # noqa: ANN401 - the handler's
    return context.run(function, *arguments, **named)
