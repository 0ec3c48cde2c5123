"""The executor of sync handlers: threads that take attempts from one queue.

The round trip of asyncio's own thread pool costs 30 us and more for each job; here a thread takes an attempt, runs it
and reports it by itself, and the source loop is woken once for all that finished meanwhile.

A thread cannot be stopped from outside. A handler that is asked to stop can see it (`current().cancelled()`). If it
does not end within its grace period it is abandoned: its outcome is reported without it, its thread ends whenever the
handler returns, and another thread takes its place. Abandoned threads are counted: once there are more of them than
slots, each costs the worker a slot. Threads are daemons: one that never returns does not keep the process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from rota.worker.attempt import RunningAttempt
from rota.worker.execution import Execution


class ThreadSlot:
    """The attempt of one thread, and whether the thread was abandoned."""

    __slots__ = ("attempt", "is_over")

    def __init__(self) -> None:
        self.attempt: RunningAttempt | None = None
        self.is_over = False


class ThreadExecutor:
    """Runs sync handlers."""

    def __init__(self, execution: Execution, limit: int, name: str, on_return: Callable[[], None]) -> None:
        self._execution = execution
        #: Called when an abandoned handler has returned.
        self._on_return = on_return
        self._limit = limit
        self._name = name
        self._inbox: SimpleQueue[RunningAttempt | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._slots: set[ThreadSlot] = set()
        self._abandoned: set[ThreadSlot] = set()
        self._load = 0
        self._context = copy_context()

    @property
    def abandoned(self) -> int:
        """How many abandoned handlers still run."""
        return len(self._abandoned)

    def put(self, attempts: Sequence[RunningAttempt]) -> None:
        """Queue attempts, and start threads if all others are busy."""
        with self._lock:
            self._load += len(attempts)
            missing = min(self._load, self._limit) - len(self._slots)
            slots = [ThreadSlot() for _ in range(missing)]
            self._slots.update(slots)
        for attempt in attempts:
            self._inbox.put(attempt)
        for slot in slots:
            threading.Thread(target=self._serve, args=(slot,), name=f"rota-thread-{self._name}", daemon=True).start()

    def interrupt(self, attempt: RunningAttempt) -> None:
        """Do nothing: a thread cannot be interrupted."""

    def abandon(self, attempt: RunningAttempt) -> None:
        """Let another thread take the place of one whose handler does not stop."""
        slot = attempt.slot
        with self._lock:
            if isinstance(slot, ThreadSlot) and slot.attempt is attempt and not slot.is_over:
                slot.is_over = True
                self._slots.discard(slot)
                self._abandoned.add(slot)
                self._load -= 1

    def close(self) -> None:
        """Let every thread end whose handler does not block it."""
        with self._lock:
            slots = len(self._slots)
        for _ in range(slots):
            self._inbox.put(None)

    def _serve(self, slot: ThreadSlot) -> None:
        while (attempt := self._inbox.get()) is not None:
            # Before `begin`: from then on `abandon` must find the slot of an attempt that has started.
            slot.attempt, attempt.slot = attempt, slot
            if self._execution.begin(attempt):
                self._perform(attempt)
            with self._lock:
                slot.attempt = None
                if not slot.is_over:
                    self._load -= 1
                    continue
                self._abandoned.discard(slot)
            self._on_return()
            return

    def _perform(self, attempt: RunningAttempt) -> None:
        try:
            arguments, named = attempt.handler.decode(attempt.job.payload)
            context = self._execution.handler_context(attempt, self._context)
            result = _call(context, attempt.handler.function, arguments, named)
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
            self._execution.fail(attempt, raised)
        else:
            self._execution.succeed(attempt, result)


def _call(context: Context, function: Any, arguments: Any, named: Any) -> Any:  # noqa: ANN401 - the handler's
    return context.run(function, *arguments, **named)
