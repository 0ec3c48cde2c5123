"""Slots: a fixed number of coroutines that take async runs from a deque, one after the other.

A Task and a timer for each job would cost ten times all the rest (PERFORMANCE.md 3), so a slot is one Task for as
long as the worker lives. A woken slot wakes the next one only while runs wait: handlers that never suspend are all
served by one slot, handlers that do spread over as many slots as there are runs.

What a job must not feel of the one before it in its slot: context variables (each run has a context of its own, in
which every step of its coroutine is taken), and a cancellation that arrived late (taken off the Task between two
runs).

Everything here happens on the handlers' loop, except `put`, `interrupt` and `abandon`, which only leave a word there.
A run that ignores its cancellation is abandoned: its slot ends when the handler does, and a new slot takes its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from types import coroutine
from typing import Any, Final, TypeVar

from rota.worker.floor import Floor
from rota.worker.gate import Gate
from rota.worker.run import Run

T = TypeVar("T")
#: After so many runs without a pause a slot lets others have the loop: handlers that never suspend must not own it.
TURN: Final = 64


@coroutine
def _in_context(context: Context, handler: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Take every step of a coroutine within a context, so that what it sets stays there."""
    step: Any = handler.send
    word: Any = None
    while True:
        try:
            awaited = context.run(step, word)
        except StopIteration as end:
            value: T = end.value
            return value
        try:
            word = yield awaited
            step = handler.send
        except BaseException as thrown:  # noqa: BLE001 - it is the handler's to catch
            step, word = handler.throw, thrown


class Slot:
    """One place: its task, and the run that is in it."""

    __slots__ = ("is_over", "run", "task")

    def __init__(self) -> None:
        self.run: Run | None = None
        self.is_over = False
        self.task: asyncio.Task[None] | None = None


class Slots:
    """Runs async handlers."""

    def __init__(self, floor: Floor, gate: Gate, limit: int, came_back: Callable[[], None]) -> None:
        self.floor = floor
        self._came_back = came_back
        self._gate = gate
        self._limit = limit
        self._queue: deque[Run] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        # Dictionaries, for their order: a simulation must be the same each time.
        self._slots: dict[Slot, None] = {}
        self._left: dict[Slot, None] = {}
        self._is_called = False
        #: A slot was woken and has not come to it yet: one at a time, it wakes the next if there is still need.
        self._is_rousing = False
        self._context = copy_context()

    @property
    def left_behind(self) -> int:
        """How many abandoned handlers still run."""
        return len(self._left)

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Give all tasks, to be cancelled at the end."""
        return [slot.task for slot in (*self._slots, *self._left) if slot.task is not None]

    def close(self) -> None:
        """Let the slots end once they are cancelled."""
        for slot in (*self._slots, *self._left):
            slot.is_over = True

    def put(self, runs: Sequence[Run]) -> None:
        """Take runs on. Crosses to the handlers' loop once for all that is put before it gets there."""
        self._queue.extend(runs)
        if not self._is_called:
            self._is_called = True
            self.floor.tell(self._called)

    def interrupt(self, run: Run) -> None:
        """Cancel a run's coroutine."""
        self.floor.tell(self._cancel, run)

    def abandon(self, run: Run) -> None:
        """Let another slot take the place of one whose handler does not stop."""
        self.floor.tell(self._replace, run)

    def running(self) -> Run | None:
        """Give the run that has the loop at this moment, from any thread."""
        task = self.floor.task()
        return next((slot.run for slot in tuple(self._slots) if slot.task is task), None) if task is not None else None

    def _called(self) -> None:
        self._is_called = False
        self._rouse()

    def _rouse(self) -> None:
        """Wake one slot, or make one, if a run waits."""
        if self._is_rousing or not self._queue:
            return
        while self._idle:
            future = self._idle.pop()
            if not future.done():
                self._is_rousing = True
                future.set_result(None)
                return
        if len(self._slots) < self._limit:
            self._is_rousing = True
            slot = Slot()
            self._slots[slot] = None
            slot.task = asyncio.get_running_loop().create_task(self._serve(slot), name="rota-slot")

    def _cancel(self, run: Run) -> None:
        slot = run.place
        if isinstance(slot, Slot) and slot.run is run and slot.task is not None:
            slot.task.cancel()

    def _replace(self, run: Run) -> None:
        slot = run.place
        if isinstance(slot, Slot) and slot.run is run:
            slot.is_over = True
            self._slots.pop(slot, None)
            self._left[slot] = None
            self._rouse()

    async def _serve(self, slot: Slot) -> None:
        turns = 0
        queue, gate = self._queue, self._gate
        self._is_rousing = False
        while not slot.is_over:
            if not queue or turns >= TURN:
                await self._rest(slot, is_tired=turns >= TURN)
                turns = 0
                continue
            turns += 1
            run = queue.popleft()
            if queue and not self._is_rousing:
                self._rouse()
            if gate.begin(run):
                run.place, slot.run = slot, run
                await self._perform(run)
                slot.run = None
                if slot.task is not None and slot.task.cancelling():
                    await self._shake_off(slot)
        self._slots.pop(slot, None)
        if slot in self._left:
            del self._left[slot]
            self._came_back()

    async def _perform(self, run: Run) -> None:
        try:
            handler = run.handler
            arguments, named = handler.decode(run.job.payload)
            context = self._gate.surround(run, self._context)
            result = await _in_context(context, handler.function(*arguments, **named))
        except GeneratorExit:
            raise
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
            self._gate.fail(run, raised)
        else:
            self._gate.succeed(run, result)

    async def _rest(self, slot: Slot, *, is_tired: bool) -> None:
        """Wait for work, or only for the others to have their turn."""
        try:
            if is_tired:
                await asyncio.sleep(0)
            else:
                future = asyncio.get_running_loop().create_future()
                self._idle.append(future)
                await future
                self._is_rousing = False
        except asyncio.CancelledError:
            self._is_rousing = False
            self._absorb(slot)

    async def _shake_off(self, slot: Slot) -> None:
        """Take a cancellation that was meant for the last run off the task."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        finally:
            self._absorb(slot)

    @staticmethod
    def _absorb(slot: Slot) -> None:
        while slot.task is not None and slot.task.cancelling():
            slot.task.uncancel()
