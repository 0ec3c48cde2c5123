"""The executors of one worker, built and closed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rota.ports.clock import Rng
from rota.telemetry.tracing import Spans
from rota.worker.attempt import Executor
from rota.worker.execution import Execution
from rota.worker.executors.coroutines import CoroutineExecutor
from rota.worker.executors.loop_thread import BLOCKED_SECONDS, HandlerLoop, LoopThread, LoopWaker, SharedLoop
from rota.worker.executors.processes import ProcessExecutor
from rota.worker.executors.threads import ThreadExecutor
from rota.worker.handlers import ExecutorName
from rota.worker.options import WorkerOptions
from rota.worker.step_calls import StepCalls
from rota.worker.tracker import AttemptTracker


class ExecutorGroup:
    """The handler loop and the three executors."""

    def __init__(
        self,
        tracker: AttemptTracker,
        options: WorkerOptions,
        step_calls: StepCalls | None,
        spans: Spans | None,
        *,
        watch: Callable[[float], None],
        rng: Rng,
        clock: Callable[[], float],
    ) -> None:
        def execution(wake: Callable[[], None]) -> Execution:
            return Execution(
                tracker,
                wake=wake,
                clock=clock,
                watch=watch,
                rng=rng,
                fail_rate=options.fail_rate,
                result_bytes=options.result_bytes,
                steps_for=None if step_calls is None else step_calls.steps_for,
                spans=spans,
                worker=options.name,
            )

        self.loop: HandlerLoop = LoopThread(options.name) if options.own_loop else SharedLoop()
        on_loop = execution(LoopWaker(self.loop, tracker.wake).wake)
        elsewhere = execution(tracker.wake)
        self.coroutines = CoroutineExecutor(self.loop, on_loop, options.concurrency, tracker.wake)
        self.threads = ThreadExecutor(elsewhere, options.concurrency, options.name, tracker.wake)
        self.processes = ProcessExecutor(elsewhere, tracker, options, step_calls, clock=clock)
        self.by_name: Mapping[ExecutorName, Executor] = {
            "async": self.coroutines,
            "thread": self.threads,
            "process": self.processes,
        }

    @property
    def abandoned(self) -> int:
        """How many abandoned handlers still run."""
        return self.coroutines.abandoned + self.threads.abandoned

    @property
    def is_loop_blocked(self) -> bool:
        return self.loop.blocked_for() >= BLOCKED_SECONDS

    def stop_serving(self) -> None:
        """Let idle coroutines and threads end."""
        self.coroutines.close()
        self.threads.close()

    async def close(self, seconds: float) -> None:
        """Kill the child processes and end the handler loop, waiting for it at most so long."""
        await self.processes.close()
        await self.loop.close(self.coroutines.tasks(), seconds)
