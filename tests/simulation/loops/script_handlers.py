"""Handlers for the real worker that follow the script of their job, and record it.

They are ordinary async handlers: they end by returning or raising, and are stopped by being cancelled, which the deaf
ones ignore. Some crash the process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from rota.core.errors import InvalidRequest
from rota.core.job import Job, JobFailed
from rota.core.step import StepKind
from rota.core.submission import Template
from rota.core.waiting import Wait
from rota.worker import Cancelled, GiveUp, Handler, Handlers, RetryLater, current
from rota.worker.exceptions import Suspend
from simulation.models.environment import Environment
from simulation.models.scripts import SNOOZE, Ending, Step, input_in, result_of, step_of, waits_of


class Scripted(Exception):
    """A handler failed, as its script says."""


#: The outcome of a handler in the history, by what it raised.
_OUTCOMES: Final[dict[type[BaseException], str]] = {
    Scripted: "failed",
    # The child of a call was pruned before an operator had the job run again.
    InvalidRequest: "failed",
    GiveUp: "failed",
    RetryLater: "snoozed",
    Suspend: "suspended",
    Cancelled: "stopped",
    asyncio.CancelledError: "released",
}


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call of a child as the SDK makes it."""

    child: Template
    traceparent: None = None

    @property
    def decode(self) -> Callable[[str], Any]:
        """How its result is read."""
        return json.loads

    @property
    def options(self) -> Mapping[str, Any]:
        """What was said about it, other than in its template."""
        return {}

    def template(self) -> Template:
        """Give the child job."""
        return self.child


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task as a handler calls it."""

    child: Template

    def call(self) -> PlannedCall:
        """Make the call."""
        return PlannedCall(self.child)


class ScriptRunner:
    """Follows scripts on one host."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def run_script(self) -> Any:  # noqa: ANN401 - any JSON
        """Do what this attempt has to do."""
        # What `current` knows of the job is the job itself, as it was claimed; only the history needs its fence.
        job = cast("Job", current()._facts)
        self._note("start", job, **input_in(job))
        await self._environment.failpoint("worker.started")
        step = step_of(job)
        outcome = "succeeded"
        try:
            for wait in waits_of(job):
                self._note("waited", job, key=wait.key, value=await self._wait(wait))
            return await self._act(step, job)
        except BaseException as raised:
            outcome = _OUTCOMES.get(type(raised), "aborted")
            raise
        finally:
            self._note("end", job, outcome=outcome, deaf=step.is_deaf)
            await self._environment.failpoint("worker.ended")

    async def _wait(self, wait: Wait) -> Any:  # noqa: ANN401 - any JSON
        """Wait as a handler does; of a child that failed, tell that it did."""
        context = current()
        match wait.kind:
            case StepKind.SLEEP:
                assert wait.span is not None
                await context.asleep(wait.key, wait.span)
                return None
            case StepKind.EVENT:
                assert wait.event is not None
                return await context.await_event(wait.key, event=wait.event, timeout=wait.span)
            case _:
                assert wait.child is not None
                call = await context.acall(wait.key, PlannedTask(wait.child))
                try:
                    return {"result": await call.aresult()}
                except JobFailed:
                    return {"failed": None}

    async def _act(self, step: Step, job: Job) -> Any:  # noqa: ANN401 - any JSON
        await self._work(step)
        match step.ending:
            case Ending.SUCCEED:
                return result_of(job)
            case Ending.SNOOZE:
                raise RetryLater(SNOOZE)
            case Ending.DOUBT:
                raise Cancelled
            case Ending.GIVE_UP:
                raise GiveUp("as the script says")
            case Ending.CRASH if self._environment.can_poison:
                self._environment.poison()
                await asyncio.Event().wait()  # never: the process is dead
        raise Scripted("as the script says")

    async def _work(self, step: Step) -> None:
        """Let the time of the step pass. A deaf handler works on when it is told to stop."""
        done_at = self._environment.now() + step.seconds
        while (left := done_at - self._environment.now()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not step.is_deaf or self._environment.is_over():
                    raise

    def _note(self, kind: str, job: Job, **more: object) -> None:
        host = self._environment.host
        self._environment.history.note(kind, host=host.name, boot=host.boot, job=job.id, fence=job.fence, **more)


def handlers_for(environment: Environment, types: tuple[str, ...]) -> Handlers:
    """Give the handlers of a worker: one for each type, all of which follow scripts."""
    script_runner = ScriptRunner(environment)

    # A local function, so that the worker does not run it in a child process.
    async def run_script() -> Any:  # noqa: ANN401 - any JSON
        return await script_runner.run_script()

    return Handlers(Handler(name, run_script, "async", decode=_nothing) for name in types)


def _nothing(payload: str) -> tuple[tuple[()], dict[str, object]]:  # noqa: ARG001 - the job itself is at hand
    return (), {}
