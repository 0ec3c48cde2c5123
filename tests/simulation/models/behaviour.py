"""What simulated handlers do: a script in the payload, one step for each time the job is claimed.

The real worker's handlers can follow the same scripts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final

from rota.core.job import Job
from rota.core.outcome import Failed, Outcome, Snoozed, Succeeded, Unknown
from rota.core.settlement import JobError

#: What kinds of jobs there are in a world.
TYPES: Final = ("mail", "report", "sync")
SNOOZE: Final = timedelta(seconds=2)
_ERROR: Final = JobError("Scripted", "as the script says")


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

    def outcome(self) -> Outcome:
        """Give what the attempt yields."""
        match self.ending:
            case Ending.SUCCEED:
                return Succeeded('"done"')
            case Ending.SNOOZE:
                return Snoozed(SNOOZE)
            case Ending.DOUBT:
                return Unknown(_ERROR)
            case Ending.FAIL | Ending.CRASH:
                return Failed(_ERROR)
            case Ending.GIVE_UP:
                return Failed(_ERROR, permanent=True)


def payload_of(steps: Sequence[Step]) -> str:
    """Write a script down as a payload."""
    return json.dumps([[step.ending, step.seconds, step.is_deaf] for step in steps])


@lru_cache(maxsize=512)
def _script(payload: str) -> tuple[Step, ...]:
    return tuple(Step(Ending(ending), seconds, is_deaf) for ending, seconds, is_deaf in json.loads(payload))


def step_of(job: Job) -> Step:
    """Find what this attempt is to do; the last step repeats."""
    script = _script(job.payload)
    return script[min(job.fence, len(script)) - 1]
