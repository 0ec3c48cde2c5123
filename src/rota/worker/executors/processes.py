"""The executor of handlers in child processes: for handlers that may block, leak, crash, or have to be killed.

Children are started when they are first needed, up to one for each slot, and run one job at a time. A child gets a
reference to the handler (from the worker's own registry, never from a payload) and the payload as it was stored, and
answers with an outcome. JSON over pipes; nothing is pickled.

An attempt starts when its child is ready for it, so a slow import does not count against the job's time limit. On a
timeout or a lost lease the child is killed, with all it started. On a cancel or a drain it is asked to stop, and killed
if it does not within its grace period. If a child dies by itself, its job is lost, with the exit status and the tail of
its standard error; the core decides how often that may happen. A child is replaced after a number of jobs, or once it
has grown too large. If the worker dies, its children notice that their orders end, and kill themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import astuple
from math import inf
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.core.outcome import Failed, Lost
from rota.core.settlement import JobError
from rota.core.time import to_micros
from rota.worker.attempt import RunningAttempt
from rota.worker.execution import Execution
from rota.worker.executors.child_process import ChildProcess
from rota.worker.executors.child_protocol import decode_outcome
from rota.worker.options import WorkerOptions
from rota.worker.outcomes import StopReason
from rota.worker.step_calls import StepCalls
from rota.worker.steps import StepAnswer, StepVerb, encode_answer
from rota.worker.tracker import AttemptTracker
from rota.worker.waiting import decode_wait

_log = logging.getLogger("rota.worker")
_KILLED_AT_ONCE: Final = frozenset({StopReason.TIMEOUT, StopReason.LAPSED, StopReason.LOST})
_CLOSE_SECONDS: Final = 2.0


class ProcessExecutor:
    """Runs handlers in child processes. Everything here runs on the source loop."""

    def __init__(
        self,
        execution: Execution,
        tracker: AttemptTracker,
        options: WorkerOptions,
        step_calls: StepCalls | None = None,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._step_calls = step_calls
        self._execution = execution
        self._tracker = tracker
        self._options = options
        self._limit = options.concurrency
        self._jobs_each = options.child_jobs
        self._bytes_each = options.child_bytes if options.child_bytes is not None else inf
        self._clock = clock
        self._queue: deque[RunningAttempt] = deque()
        self._idle: list[ChildProcess] = []
        self._children: set[ChildProcess] = set()
        self._retired: set[ChildProcess] = set()

    @property
    def pids(self) -> list[int]:
        """The process groups that are to be killed if the worker dies."""
        return [child.pid for child in (*self._children, *self._retired)]

    def put(self, attempts: Sequence[RunningAttempt]) -> None:
        self._queue.extend(attempts)
        self._distribute()

    def interrupt(self, attempt: RunningAttempt) -> None:
        """Kill the child if the handler must not go on; otherwise ask it to stop."""
        child = attempt.slot
        if isinstance(child, ChildProcess) and child.attempt is attempt:
            if attempt.stop in _KILLED_AT_ONCE:
                child.kill()
            else:
                child.send({"stop": str(attempt.stop)})

    def abandon(self, attempt: RunningAttempt) -> None:
        """Kill the child of a handler that does not stop."""
        child = attempt.slot
        if isinstance(child, ChildProcess) and child.attempt is attempt:
            child.kill()

    async def close(self) -> None:
        """Kill all children and wait for their ends."""
        children = [*self._children, *self._retired]
        for child in children:
            child.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                for child in children:
                    await child.ended.wait()

    def _distribute(self) -> None:
        """Give waiting attempts to idle children, and start children for the rest."""
        while self._queue and self._idle:
            attempt = self._queue.popleft()
            if self._execution.begin(attempt):
                self._run_in(self._idle.pop(), attempt)
        starting = len(self._children) - len(self._idle) - sum(child.attempt is not None for child in self._children)
        while len(self._queue) > starting and len(self._children) < self._limit:
            starting += 1
            self._children.add(self._start_child())

    def _start_child(self) -> ChildProcess:
        child = ChildProcess(self._on_message, self._on_exit)
        if self._options.logs is not None:
            child.send({"logs": [*self._options.logs, self._options.name]})
        if self._options.capture_logs:
            child.send({"capture": True})
        if self._options.caller_tx_config is not None:
            child.send({"caller_tx": astuple(self._options.caller_tx_config)})
        return child

    def _run_in(self, child: ChildProcess, attempt: RunningAttempt) -> None:
        child.attempt, attempt.slot = attempt, child
        child.jobs += 1
        job = attempt.job
        # The span is started here; the child gets only the id of the trace.
        self._execution.handler_context(attempt, copy_context())
        child.send(
            {
                "run": {
                    "id": job.id,
                    "type": job.type,
                    "payload": job.payload,
                    "fence": job.fence,
                    "attempts": job.attempts,
                    "max_attempts": job.max_attempts,
                    "run_at": to_micros(job.run_at),
                    "fire_time": None if job.fire_time is None else to_micros(job.fire_time),
                    "seconds": None if attempt.deadline == inf else attempt.deadline - self._clock(),
                    "reference": attempt.handler.reference,
                    "meta": dict(job.meta),
                }
            }
        )

    def _on_message(self, child: ChildProcess, message: dict[str, Any]) -> None:
        attempt = child.attempt
        context = None if attempt is None else attempt.context
        if context is not None and (message.get("progress") is not None or message.get("log") is not None):
            context.merge_from_child(message.get("progress"), message.get("log"))
        if "step" in message and attempt is not None:
            self._call_step(child, attempt, message["step"])
        elif "outcome" in message and attempt is not None:
            child.attempt = None
            self._execution.finish_remote(attempt, decode_outcome(message["outcome"], attempt.handler))
            if attempt.is_isolated or child.jobs >= self._jobs_each or message.get("bytes", 0) > self._bytes_each:
                self._children.discard(child)
                self._retired.add(child)
                child.retire()
            else:
                self._idle.append(child)
        elif "ready" in message:
            self._idle.append(child)
        self._distribute()

    def _call_step(self, child: ChildProcess, attempt: RunningAttempt, request: dict[str, Any]) -> None:
        number = request["number"]
        if self._step_calls is None:
            child.send({"stepped": {"number": number, "refused": "this worker has no store for steps"}})
            return

        def answer(call: asyncio.Task[StepAnswer]) -> None:
            raised = None if call.cancelled() else call.exception()
            if child.attempt is not attempt:
                return
            match raised:
                case InvalidRequest():
                    message: dict[str, Any] = {"refused": str(raised)}
                case None if not call.cancelled():
                    message = encode_answer(call.result())
                case _:
                    message = {"cancelled": True}
            child.send({"stepped": {"number": number, **message}})

        wait = decode_wait(request["key"], request["wait"])
        call = self._step_calls.call(attempt, StepVerb(request["verb"]), request["key"], request["outcome"], wait)
        self._step_calls.start(call, answer)

    def _on_exit(self, child: ChildProcess) -> None:
        has_served = child in self._retired or child.jobs > 0
        self._children.discard(child)
        self._retired.discard(child)
        if child in self._idle:
            self._idle.remove(child)
            has_served = True
        attempt = child.attempt
        if attempt is not None:
            child.attempt = None
            outcome = Lost(child.death_error()) if attempt.stop is None else attempt.outcome_stopped()
            self._tracker.finish_and_wake(attempt, outcome)
        elif not has_served:
            self._fail_one(child.death_error())
        self._distribute()

    def _fail_one(self, death: JobError) -> None:
        """Fail one attempt for a child that died before it was ready. Otherwise children would be started for ever."""
        _log.error("a child process could not start: %s\n%s", death.message, death.traceback)
        while self._queue:
            attempt = self._queue.popleft()
            if self._tracker.take(attempt):
                error = JobError("ProcessNotStarted", death.message, death.traceback)
                outcome = Failed(error) if attempt.stop is None else attempt.outcome_not_started()
                self._tracker.finish_and_wake(attempt, outcome)
                return
