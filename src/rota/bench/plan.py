"""The plan of a bench run: how much load, for how long, and whether to wait for the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: A built-in type that every worker knows. It returns its payload and does nothing else.
TYPE: Final = "echo"
#: A queue that no other client uses, so that its jobs delay no others.
QUEUE: Final = "rota-bench"
MOST_CONNECTIONS: Final = 1_000
#: The limits of the API for one request.
LARGEST_BATCH: Final = 1_000
LARGEST_BODY: Final = 1_048_576
#: Bytes of a job in a request besides its payload: type, queue and tag.
JOB_OVERHEAD: Final = 120
LONGEST_SECONDS: Final = 86_400.0


class BenchRefused(Exception):
    """A run that cannot be done on this target: the cause, and the remedy in `fix`."""

    def __init__(self, cause: str, fix: str) -> None:
        super().__init__(cause)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """The load, and what to do afterwards. Without a rate, callers submit as fast as they can."""

    seconds: float
    connections: int
    batch: int
    payload: str
    queue: str
    tag: str
    rate: float | None = None
    is_to_run: bool = False
    #: How long to wait for the jobs to run; None for no limit.
    wait_seconds: float | None = None
    is_kept: bool = False

    @property
    def interval(self) -> float | None:
        """The seconds between two requests of all callers together."""
        return None if self.rate is None else self.batch / self.rate
