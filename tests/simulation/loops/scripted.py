"""Handlers for the real worker that do what their job's script says, and write it down.

They are ordinary async handlers: they end by returning or raising, hear of a stop by being cancelled, and the deaf ones
do not listen. One of them takes the whole process down with it.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from rota.core.job import Job
from rota.worker import Cancelled, GiveUp, Handler, Handlers, RetryLater, current
from simulation.models.behaviour import SNOOZE, Ending, Step, step_of
from simulation.models.stage import Stage


class Scripted(Exception):
    """A handler failed, as its script says."""


#: How the end of a handler is called in the history: by what the worker is to make of it.
_CAME_TO: Final[dict[type[BaseException], str]] = {
    Scripted: "failed",
    GiveUp: "failed",
    RetryLater: "snoozed",
    Cancelled: "stopped",
    asyncio.CancelledError: "released",
}


class Performer:
    """Performs scripts on one host."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def perform(self) -> str:
        """Do what this attempt is to do."""
        # What `current` knows of the job is the job itself, as it was claimed; handlers need no fence, we do.
        job = cast("Job", current()._facts)
        self._note("start", job)
        await self._stage.reach("worker.started")
        step = step_of(job)
        outcome = "succeeded"
        try:
            return await self._act(step)
        except BaseException as raised:
            outcome = _CAME_TO.get(type(raised), "aborted")
            raise
        finally:
            self._note("end", job, outcome=outcome, deaf=step.is_deaf)
            await self._stage.reach("worker.ended")

    async def _act(self, step: Step) -> str:
        await self._work(step)
        match step.ending:
            case Ending.SUCCEED:
                return "done"
            case Ending.SNOOZE:
                raise RetryLater(SNOOZE)
            case Ending.DOUBT:
                raise Cancelled
            case Ending.GIVE_UP:
                raise GiveUp("as the script says")
            case Ending.CRASH if self._stage.can_poison:
                self._stage.poison()
                await asyncio.Event().wait()  # never: the process is dead
        raise Scripted("as the script says")

    async def _work(self, step: Step) -> None:
        """Let the time of the step pass. A deaf handler works on when it is told to stop."""
        done_at = self._stage.now() + step.seconds
        while (left := done_at - self._stage.now()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not step.is_deaf or self._stage.is_over():
                    raise

    def _note(self, kind: str, job: Job, **more: object) -> None:
        host = self._stage.host
        self._stage.history.note(kind, host=host.name, boot=host.boot, job=job.id, fence=job.fence, **more)


def handlers_for(stage: Stage, types: tuple[str, ...]) -> Handlers:
    """Give the handlers of a worker: one for each type, all of them performing scripts."""
    performer = Performer(stage)

    # A function that no other process can find: there are none in here, not even for a suspect.
    async def perform() -> str:
        return await performer.perform()

    return Handlers(Handler(name, perform, "async", decode=_nothing) for name in types)


def _nothing(payload: str) -> tuple[tuple[()], dict[str, object]]:  # noqa: ARG001 - the job itself is at hand
    return (), {}
