"""What simulated handlers do: a script in the payload, one step for each time the job is claimed.

The real worker's handlers can follow the same scripts. A script may have durable waits: an attempt that performs the
last step of its script passes through all of them first, in order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from rota.core.dependencies import takes_of
from rota.core.ids import to_number
from rota.core.job import Job
from rota.core.outcome import Failed, Outcome, Snoozed, Succeeded, Unknown
from rota.core.settlement import JobError
from rota.core.step import StepKind
from rota.core.submission import Takes, Template
from rota.core.waiting import Wait, signal_name

#: What kinds of jobs there are in a world.
TYPES: Final = ("mail", "report", "sync")
SNOOZE: Final = timedelta(seconds=2)
#: The name of a signal in a script: which event it is depends on the job.
SIGNAL: Final = "signal"
_ERROR: Final = JobError("Scripted", "as the script says")
_DONE: Final = "done"


class Ending(StrEnum):
    """How a step of a script ends."""

    SUCCEED = "succeed"
    FAIL = "fail"
    GIVE_UP = "give_up"
    SNOOZE = "snooze"
    DOUBT = "doubt"
    #: The process dies with it.
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Step:
    """What one attempt does: work for a while, then end in a certain way. A deaf one does not stop when asked to."""

    ending: Ending
    seconds: float
    is_deaf: bool = False

    def outcome(self, result: str = '"done"') -> Outcome:
        """Give what the attempt yields."""
        match self.ending:
            case Ending.SUCCEED:
                return Succeeded(result)
            case Ending.SNOOZE:
                return Snoozed(SNOOZE)
            case Ending.DOUBT:
                return Unknown(_ERROR)
            case Ending.FAIL | Ending.CRASH:
                return Failed(_ERROR)
            case Ending.GIVE_UP:
                return Failed(_ERROR, permanent=True)


@dataclass(frozen=True, slots=True)
class PlannedWait:
    """A durable wait of a script. `seconds` is the length of a sleep, or the timeout of an event."""

    key: str
    kind: StepKind
    seconds: float | None = None
    event: str | None = None
    child: Template | None = None

    def to_plain(self) -> list[Any]:
        """Write it as JSON can hold it."""
        return [self.key, self.kind, self.seconds, self.event, None if self.child is None else self.child.to_text()]


@dataclass(frozen=True, slots=True)
class Script:
    """The steps of a job, the waits before the last of them, and whether its result names the attempt."""

    steps: tuple[Step, ...]
    waits: tuple[PlannedWait, ...] = ()
    names_attempt: bool = False


def payload_of(steps: Sequence[Step]) -> str:
    """Write a script down as a payload."""
    return json.dumps(_plain_steps(steps))


def payload_with_waits(steps: Sequence[Step], waits: Sequence[PlannedWait]) -> str:
    """Write a script with waits down as a payload; the job's result names the attempt that returned it."""
    return json.dumps({"steps": _plain_steps(steps), "waits": [wait.to_plain() for wait in waits]})


def _plain_steps(steps: Sequence[Step]) -> list[list[Any]]:
    return [[step.ending, step.seconds, step.is_deaf] for step in steps]


@lru_cache(maxsize=512)
def script_of(payload: str) -> Script:
    """Read a script; the worker may have put an input before it."""
    plain = json.loads(payload)
    if isinstance(plain, list):
        return Script(_steps_of(plain))
    if "args" in plain:
        plain = plain["kwargs"] or plain["args"][1]
        if isinstance(plain, list):
            return Script(_steps_of(plain))
    return Script(_steps_of(plain["steps"]), tuple(_wait_of(*one) for one in plain["waits"]), names_attempt=True)


def _steps_of(plain: Sequence[Any]) -> tuple[Step, ...]:
    return tuple(Step(Ending(ending), seconds, is_deaf) for ending, seconds, is_deaf in plain)


def _wait_of(key: str, kind: str, seconds: float | None, event: str | None, child: str | None) -> PlannedWait:
    return PlannedWait(key, StepKind(kind), seconds, event, None if child is None else Template.from_text(child))


def step_of(job: Job) -> Step:
    """Find what this attempt is to do; the last step repeats."""
    steps = script_of(job.payload).steps
    return steps[min(job.fence, len(steps)) - 1]


def waits_of(job: Job) -> Sequence[Wait]:
    """Find the waits that this attempt passes through."""
    script = script_of(job.payload)
    if job.fence < len(script.steps):
        return ()
    return [
        Wait(
            one.key,
            one.kind,
            None if one.seconds is None else timedelta(seconds=one.seconds),
            signal_name(job.id, "") if one.event == SIGNAL else one.event,
            one.child,
        )
        for one in script.waits
    ]


def waited_value(wait: Wait, outcome: str | None) -> Any:  # noqa: ANN401 - any JSON
    """Return what the history tells of a wait that is over; of a child that failed, only that it did."""
    value = json.loads(outcome or "null")
    return {"failed": None} if wait.child is not None and "failed" in value else value


def result_of(job: Job) -> Any:  # noqa: ANN401 - any JSON
    """Return the result of an attempt: some name the attempt, so that a checker can tell whose result it is."""
    return {"by": [job.id, job.fence]} if script_of(job.payload).names_attempt else _DONE


def input_in(job: Job) -> dict[str, Any]:
    """Return what the history tells of the input of an attempt: nothing if the job takes none."""
    if takes_of(job) is Takes.NOTHING:
        return {}
    value = json.loads(job.payload)["args"][0]
    if takes_of(job) is Takes.FAILURE and value is not None:
        value = to_number(value["id"])
    return {"input": value}
