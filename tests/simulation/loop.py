"""An event loop with virtual time and simulated processes.

Unmodified asyncio code (tasks, timeouts, queues, task groups) runs here on virtual time: nothing ever sleeps. While
anything can run, time stands still; when nothing can, it jumps to the next timer. A run of ten minutes takes as long
as its computations do.

**Processes.** Every callback belongs to a `Process`, found through a context variable. asyncio copies the context
whenever it makes a task or a callback, so whatever a process starts belongs to it without knowing. That gives us the
faults of real machines:

- killed: none of its callbacks ever run again. Its tasks stand still for ever in the `await` where they were; no
  `finally`, no `except CancelledError` gets a say, as with ``kill -9``. (We keep the tasks alive until the run is over:
  Python would close an abandoned coroutine and so run its `finally` blocks.)
- paused: its callbacks and timers pile up and run when it is resumed, as with SIGSTOP and SIGCONT.

**Order.** Within a process callbacks run in the order in which they were made ready: asyncio promises that, and its
own locks and queues lean on it. What asyncio leaves open the seed decides: which process runs next (they are different
machines) and which of two timers due at the very same moment comes first.

**Determinism.** The loop draws from its own rng only. asyncio itself keeps tasks in sets (a task group cancels its
children in the order of a set), and sets are ordered by hash, which for objects is their address. Our tasks hash to
their serial number instead, so the order is the same in every run and in every interpreter.

**The end.** With nothing left to run, the loop raises `Deadlock` and names the tasks that
wait. A world that never comes to an end runs into `EndOfTime`, one that never lets time pass into `Livelock`. An
exception that is not caught ends the run. Threads, sockets and signals are refused.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

from simulation.no_io_loop import NoIoLoop, RealIoRefused, SimulationError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: More callbacks than this without any progress of time are a livelock.
MOST_STEPS_AT_ONE_MOMENT: Final = 100_000
#: How often what is left after a run is asked to end before it is ended.
_END_ROUNDS: Final = 4
_CLOSED: Final = "the simulated loop is closed"


class Deadlock(SimulationError):
    """All tasks wait, and nothing is left to wake one."""


class EndOfTime(SimulationError):
    """The world did not come to its end within the time it was given."""


class Livelock(SimulationError):
    """Callbacks run without end while time stands still."""


class Process:
    """A simulated process: its callbacks can be killed and paused as a whole."""

    __slots__ = ("context", "is_alive", "is_paused", "name", "ready", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        #: What callbacks from outside run in, so that they and all they start belong to this process.
        self.context = contextvars.copy_context()
        self.context.run(CURRENT.set, self)
        self.is_alive = True
        self.is_paused = False
        self.ready: deque[SimulatedHandle] = deque()
        self.tasks: list[SimulatedTask[Any]] = []

    def __repr__(self) -> str:
        return f"<Process {self.name}>"


#: The process that the running callback belongs to. Outside of all processes there is the world itself.
CURRENT: Final[contextvars.ContextVar[Process]] = contextvars.ContextVar("simulated_process")


class SimulatedHandle(asyncio.TimerHandle):
    """A callback and the process it belongs to.

    Flat, without its parents' initialisers and bookkeeping: nothing is made as often as this.
    """

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        world: Process,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = owner = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self.process = owner.get(CURRENT, world)

    def cancel(self) -> None:
        """See to it that the callback is not run."""
        self._cancelled = True

    def run(self, loop: SimulatedLoop) -> None:
        """Run the callback; what it does not catch is passed to the loop."""
        try:
            self._context.run(self._callback, *self._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio's own handles do
            loop.call_exception_handler({"message": f"in callback {self._callback!r}: {error!r}", "exception": error})

    def __repr__(self) -> str:
        return f"<SimulatedHandle {self._callback!r} of {self.process.name} at {self._when:.6f}>"


class SimulatedTask(asyncio.Task[T]):
    """A task that hashes to its serial number, so that sets of tasks have the same order in every run."""

    def __init__(
        self,
        coroutine: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        serial: int,
        loop: SimulatedLoop,
        name: str,
        context: contextvars.Context | None = None,
    ) -> None:
        self._serial = serial
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._serial

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedLoop(NoIoLoop):
    """The loop: a heap of timers, a queue per process, and rng."""

    def __init__(self, seed: int | str = 0, *, end: float = float("inf")) -> None:
        self._throw = Random(f"{seed}:loop").random
        self._end = end
        self._time = 0.0
        self._timers: list[tuple[float, float, int, SimulatedHandle]] = []
        self._serial = 0
        self._runnable: list[Process] = []
        self.world = Process("world")
        self.processes: list[Process] = [self.world]
        self._failure: BaseException | None = None
        self._is_running = False
        self._is_stopping = False
        self._is_closed = False
        #: The run is over; what still runs only cleans up.
        self.is_over = False
        self._generators: list[Any] = []
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    # Time and timers

    def time(self) -> float:
        """Say how many virtual seconds have passed since the world began."""
        return self._time

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimulatedHandle:
        """Run a callback at this moment, after what its process has ready already."""
        if self._is_closed:
            raise RuntimeError(_CLOSED)
        handle = SimulatedHandle(self._time, callback, args, context, self.world)
        self._make_ready(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimulatedHandle:
        """Run a callback `delay` virtual seconds from now."""
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimulatedHandle:
        """Run a callback at a moment of virtual time; at once, but not before what is ready, if it has passed."""
        if self._is_closed:
            raise RuntimeError(_CLOSED)
        due = when if when > self._time else self._time  # noqa: FURB136 - asked too often for a call of `max`
        handle = SimulatedHandle(due, callback, args, context, self.world)
        self._serial += 1
        heappush(self._timers, (due, self._throw(), self._serial, handle))
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimulatedHandle:
        """Run a callback at this moment. There is one thread only."""
        return self.call_soon(callback, *args, context=context)

    def _make_ready(self, handle: SimulatedHandle) -> None:
        process = handle.process
        ready = process.ready
        if not ready and process.is_alive and not process.is_paused:
            self._runnable.append(process)
        ready.append(handle)

    # Processes

    def create_process(self, name: str) -> Process:
        """Bring a process into being; what runs in its context belongs to it."""
        process = Process(name)
        self.processes.append(process)
        return process

    def current(self) -> Process:
        """Give the process that the running callback belongs to."""
        return CURRENT.get(self.world)

    def kill(self, process: Process) -> None:
        """End a process at once: none of its callbacks runs again before the end of the world."""
        process.is_alive = False
        self._withdraw(process)

    def pause(self, process: Process) -> None:
        """Stop a process where it is; what comes in for it piles up."""
        process.is_paused = True
        self._withdraw(process)

    def resume(self, process: Process) -> None:
        """Let a paused process go on."""
        if process.is_paused:
            process.is_paused = False
            if process.ready and process.is_alive:
                self._runnable.append(process)

    def _withdraw(self, process: Process) -> None:
        if process in self._runnable:
            self._runnable.remove(process)

    # Tasks and futures

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> SimulatedTask[T]:
        """Make a task of the process whose context it gets."""
        self._serial += 1
        title = f"task {self._serial}" if name is None else str(name)
        task = SimulatedTask(coro, serial=self._serial, loop=self, name=title, context=context)
        process = CURRENT.get(self.world) if context is None else context.get(CURRENT, self.world)
        process.tasks.append(task)
        return task

    # Running

    def run_until_complete(self, future: Generator[Any, None, T] | Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:  # type: ignore[override]
        """Run the world until `future` is done, and give its result."""
        main: asyncio.Future[T] = future if isinstance(future, asyncio.Future) else self.create_task(future)
        main.add_done_callback(self._stop_after)
        self.run_forever()
        if not main.done():
            raise Deadlock("the loop was stopped before its main task was done")
        return main.result()

    def run_forever(self) -> None:
        """Run until `stop`, a failure, or the end of the world."""
        if self._is_running or events._get_running_loop() is not None:
            raise RuntimeError("a loop is running already")
        self._is_running, self._is_stopping = True, False
        events._set_running_loop(self)
        try:
            self._run()
        finally:
            self._is_running = False
            events._set_running_loop(None)

    def _run(self) -> None:
        runnable = self._runnable
        throw = self._throw
        steps = 0
        while not self._is_stopping:
            if runnable:
                steps += 1
                if steps > MOST_STEPS_AT_ONE_MOMENT:
                    raise Livelock(f"{steps} callbacks at {self._time:.6f} s, the last of {runnable[0].name}")
                process = runnable[0] if len(runnable) == 1 else runnable[int(throw() * len(runnable))]
                ready = process.ready
                handle = ready.popleft()
                if not ready:
                    runnable.remove(process)
            else:
                steps = 0
                alone = self._advance()
                if alone is None:
                    continue
                handle = alone
            if not handle._cancelled:
                handle.run(self)
                if self._failure is not None:
                    raise self._failure

    def _advance(self) -> SimulatedHandle | None:
        """Advance time to the next timer of a living process, and make ready all that is due then.

        Nearly always that is one, of a process that can run it: it is returned, to be run at once.
        """
        timers = self._timers
        while timers and (timers[0][3]._cancelled or not timers[0][3].process.is_alive):
            heappop(timers)
        if not timers:
            raise Deadlock("nothing is left to happen; waiting: " + (", ".join(self._waiting()) or "no task"))
        now, _, _, first = timers[0]
        if now > self._end:
            raise EndOfTime(f"after {self._end} s; waiting: " + ", ".join(self._waiting()))
        self._time = now
        heappop(timers)
        if (not timers or timers[0][0] > now) and not first.process.is_paused:
            return first
        self._make_ready(first)
        while timers and timers[0][0] <= now:
            handle = heappop(timers)[3]
            if not handle._cancelled:
                self._make_ready(handle)
        return None

    def _waiting(self) -> list[str]:
        return [
            f"{process.name}: {task.get_name()}"
            for process in self.processes
            for task in process.tasks
            if process.is_alive and not task.done()
        ]

    def _stop_after(self, future: asyncio.Future[Any]) -> None:  # noqa: ARG002 - a done callback is given its future
        self._is_stopping = True

    def stop(self) -> None:
        """Let the loop come to rest after the running callback."""
        self._is_stopping = True

    def is_running(self) -> bool:
        """Whether callbacks are being run."""
        return self._is_running

    def is_closed(self) -> bool:
        """Whether this loop has ended for good."""
        return self._is_closed

    def close(self) -> None:
        """End the world: every task that is left, the killed ones too, is cancelled and given a chance to end.

        Time stands still meanwhile. Nothing that happens now belongs to the run: its history is closed.
        """
        if self._is_closed:
            return
        self.is_over = True
        self._timers.clear()
        self._handler = _ignore
        self._runnable.clear()
        for process in self.processes:
            process.is_alive, process.is_paused = True, False
            if process.ready:
                self._runnable.append(process)
        for _ in range(_END_ROUNDS):
            if not self._end_tasks():
                break
        else:
            self._end_remaining()
        for process in self.processes:
            process.tasks.clear()
        self._generators.clear()
        self._is_closed = True

    def _end_tasks(self) -> bool:
        """Cancel what is left and run what is ready; say whether anything was left."""
        left = [task for process in self.processes for task in process.tasks if not task.done()]
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.cancel()
        events._set_running_loop(self)
        try:
            while self._runnable:
                process = self._runnable[-1]
                handle = process.ready.popleft()
                if not process.ready:
                    self._runnable.remove(process)
                if not handle._cancelled:
                    handle.run(self)
        finally:
            events._set_running_loop(None)
        return bool(left)

    def _end_remaining(self) -> None:
        """Close what takes no cancellation, as Python would when it is collected; its errors are ignored."""
        events._set_running_loop(self)
        try:
            for task in [task for process in self.processes for task in process.tasks if not task.done()]:
                with suppress(Exception):
                    task.get_coro().close()
        finally:
            events._set_running_loop(None)

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: what is left ends with the loop."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's name
        """Nothing to do: there is no executor."""

    # Errors and debugging

    #: Never: asyncio's debug mode measures real time. Every future asks, so the answer is one that costs no frame.
    get_debug: Any = staticmethod(bool)

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001 - asyncio's signature
        """Ignored; see `get_debug`."""

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        """Give the handler that was set, if any."""
        return self._handler

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        """Set a handler for exceptions that were not caught."""
        self._handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """End the run: an exception that was not caught is a bug in what is simulated."""
        exception = context.get("exception")
        failure = SimulationError(str(context.get("message", "unhandled")))
        failure.__cause__ = exception if isinstance(exception, BaseException) else None
        self._failure = self._failure or failure

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an exception that was not caught."""
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def get_task_factory(self) -> None:
        """There is one kind of task in here."""
        return

    def set_task_factory(self, factory: object) -> None:
        """Refused: our tasks are what makes a run repeatable."""
        if factory is not None:
            raise RealIoRefused("set_task_factory: the simulated loop makes its own tasks")


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors after the end of the run."""


def run(main: Coroutine[Any, Any, T], *, seed: int | str = 0, end: float = 3600.0) -> T:
    """Run one coroutine in a world of its own; for tests of code that needs time and nothing else."""
    loop = SimulatedLoop(seed, end=end)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
