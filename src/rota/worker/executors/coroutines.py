"""The executor of async handlers: a fixed number of slots (tasks) that take attempts from a queue.

A Task and a timer for each job would cost ten times all the rest (docs/explanation/performance-design.md), so a slot is
one Task for as long as the worker lives. A woken slot wakes the next one only while attempts wait: handlers that never
suspend are all served by one slot, handlers that do are spread over as many slots as there are attempts.

Two things must not leak from a job to the next one in its slot: context variables (each attempt has a context of its
own, in which every step of its coroutine runs), and a cancellation that arrived late (removed from the Task between
two attempts).

Everything here runs on the handler loop, except `put`, `interrupt` and `abandon`, which only schedule a call there. An
attempt that ignores its cancellation is abandoned: its slot ends when the handler does, and a new slot takes its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from types import coroutine
from typing import Any, Final, TypeVar

from rota.worker.attempt import RunningAttempt
from rota.worker.execution import Execution
from rota.worker.executors.loop_thread import HandlerLoop

T = TypeVar("T")
#: After this many attempts without a pause a slot yields to the loop: handlers that never suspend must not block it.
MOST_WITHOUT_PAUSE: Final = 64


@coroutine
def _in_context(context: Context, handler: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run every step of a coroutine within a context, so that what it sets stays there."""
    step: Any = handler.send
    value: Any = None
    while True:
        try:
            awaited = context.run(step, value)
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            value = yield awaited
            step = handler.send
        except BaseException as thrown:  # noqa: BLE001 - the handler may catch it
            step, value = handler.throw, thrown


class Slot:
    """One slot: its task, and the attempt in it."""

    __slots__ = ("attempt", "is_over", "task")

    def __init__(self) -> None:
        self.attempt: RunningAttempt | None = None
        self.is_over = False
        self.task: asyncio.Task[None] | None = None


class CoroutineExecutor:
    """Runs async handlers on the handler loop."""

    def __init__(self, loop: HandlerLoop, execution: Execution, limit: int, on_return: Callable[[], None]) -> None:
        self.loop = loop
        #: Called when an abandoned handler has returned.
        self._on_return = on_return
        self._execution = execution
        self._limit = limit
        self._queue: deque[RunningAttempt] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        # Dictionaries, for their order: a simulation must be the same each time.
        self._slots: dict[Slot, None] = {}
        self._abandoned: dict[Slot, None] = {}
        self._is_scheduled = False
        #: A slot was woken and has not run yet. One at a time: it wakes the next one if attempts still wait.
        self._is_waking = False
        self._context = copy_context()

    @property
    def abandoned(self) -> int:
        """How many abandoned handlers still run."""
        return len(self._abandoned)

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return all tasks, to be cancelled at the end."""
        return [slot.task for slot in (*self._slots, *self._abandoned) if slot.task is not None]

    def close(self) -> None:
        """Let the slots end once they are cancelled."""
        for slot in (*self._slots, *self._abandoned):
            slot.is_over = True

    def put(self, attempts: Sequence[RunningAttempt]) -> None:
        """Queue attempts. Wakes the handler loop once for all that is queued before it runs."""
        self._queue.extend(attempts)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_threadsafe(self._serve_queue)

    def interrupt(self, attempt: RunningAttempt) -> None:
        """Cancel the handler's coroutine."""
        self.loop.call_threadsafe(self._cancel, attempt)

    def abandon(self, attempt: RunningAttempt) -> None:
        """Replace the slot of a handler that does not stop."""
        self.loop.call_threadsafe(self._replace, attempt)

    def current_attempt(self) -> RunningAttempt | None:
        """Return the attempt that occupies the loop at this moment. Called from any thread."""
        task = self.loop.current_task()
        if task is None:
            return None
        return next((slot.attempt for slot in tuple(self._slots) if slot.task is task), None)

    def _serve_queue(self) -> None:
        self._is_scheduled = False
        self._wake_slot()

    def _wake_slot(self) -> None:
        """Wake one slot, or make one, if an attempt waits."""
        if self._is_waking or not self._queue:
            return
        while self._idle:
            future = self._idle.pop()
            if not future.done():
                self._is_waking = True
                future.set_result(None)
                return
        if len(self._slots) < self._limit:
            self._is_waking = True
            slot = Slot()
            self._slots[slot] = None
            slot.task = asyncio.get_running_loop().create_task(self._serve(slot), name="rota-slot")

    def _cancel(self, attempt: RunningAttempt) -> None:
        slot = attempt.slot
        if isinstance(slot, Slot) and slot.attempt is attempt and slot.task is not None:
            slot.task.cancel()

    def _replace(self, attempt: RunningAttempt) -> None:
        slot = attempt.slot
        if isinstance(slot, Slot) and slot.attempt is attempt:
            slot.is_over = True
            self._slots.pop(slot, None)
            self._abandoned[slot] = None
            self._wake_slot()

    async def _serve(self, slot: Slot) -> None:
        served = 0
        queue, execution = self._queue, self._execution
        self._is_waking = False
        while not slot.is_over:
            if not queue or served >= MOST_WITHOUT_PAUSE:
                await self._pause(slot, only_yield=served >= MOST_WITHOUT_PAUSE)
                served = 0
                continue
            served += 1
            attempt = queue.popleft()
            if queue and not self._is_waking:
                self._wake_slot()
            if execution.begin(attempt):
                attempt.slot, slot.attempt = slot, attempt
                await self._perform(attempt)
                slot.attempt = None
                if slot.task is not None and slot.task.cancelling():
                    await self._clear_cancellation(slot)
        self._slots.pop(slot, None)
        if slot in self._abandoned:
            del self._abandoned[slot]
            self._on_return()

    async def _perform(self, attempt: RunningAttempt) -> None:
        try:
            handler = attempt.handler
            arguments, named = handler.decode(attempt.job.payload)
            context = self._execution.handler_context(attempt, self._context)
            result = await _in_context(context, handler.function(*arguments, **named))
        except GeneratorExit:
            raise
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
            self._execution.fail(attempt, raised)
        else:
            self._execution.succeed(attempt, result)

    async def _pause(self, slot: Slot, *, only_yield: bool) -> None:
        """Wait for work, or only let other tasks run."""
        try:
            if only_yield:
                await asyncio.sleep(0)
            else:
                future = asyncio.get_running_loop().create_future()
                self._idle.append(future)
                await future
                self._is_waking = False
        except asyncio.CancelledError:
            self._is_waking = False
            self._uncancel(slot)

    async def _clear_cancellation(self, slot: Slot) -> None:
        """Remove a cancellation from the task that was meant for the last attempt."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        finally:
            self._uncancel(slot)

    @staticmethod
    def _uncancel(slot: Slot) -> None:
        while slot.task is not None and slot.task.cancelling():
            slot.task.uncancel()
