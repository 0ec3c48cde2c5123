"""What a system shows to the harness. Each is a small module with one class `Client`, made in the system's process."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Sequence
from typing import Literal

#: What processes are started for: to submit only, to drain a backlog, to wait for work, to be killed, or, where there
#: is such a thing, everything in one process.
Role = Literal["submit", "drain", "idle", "crash", "alone"]
Commands = list[list[str]]
Done = Awaitable[None] | None


def variable(name: str) -> str:
    """Return what the harness told this process."""
    return os.environ.get(f"BENCH_{name}", "")


def processes() -> int:
    """Return how many worker processes there shall be."""
    return int(variable("PROCESSES") or 2)


def python(*arguments: str) -> list[str]:
    """Return a command of this environment's Python."""
    return [sys.executable, *arguments]


class System:
    """A task queue as its user sees it. What it does may be awaited or not."""

    #: The package whose version is shown.
    package: str
    #: What is left of a job that has ended, in one line.
    keeps: str
    #: What is lost when a machine or a worker dies, in one line.
    loses: str
    can_submit_many = False
    can_submit_at = True
    #: Whether many may submit at once through one client, each awaiting its own.
    is_shared = False
    #: Whether a program without a loop submits in another way, by `submit_plainly`.
    has_plain_way = False

    def prepare(self) -> Done:
        """Bring an empty database into the form that is needed."""

    def open(self) -> Done:
        """Connect."""

    def close(self) -> Done:
        """Let go."""

    def submit(self, number: int) -> Done:
        """Submit one job that marks its start."""
        raise NotImplementedError

    def submit_plainly(self, number: int) -> None:
        """Submit one as a program without a loop does."""
        raise NotImplementedError

    def submit_many(self, numbers: Sequence[int]) -> Done:
        """Submit jobs that mark their start, in one go."""
        raise NotImplementedError

    def submit_at(self, number: int, when: float) -> Done:
        """Submit one for a time, in seconds since 1970."""
        raise NotImplementedError

    def submit_sleeping(self, number: int) -> Done:
        """Submit one that notes its start, sleeps for a second, and notes its end."""
        raise NotImplementedError

    def finished(self) -> Awaitable[int] | int | None:
        """Count the jobs of which the store knows that they have ended; None if it does not know."""
        return None

    def worker_commands(self, role: Role) -> Commands:
        """Return the commands that start the workers; none if there is no such role."""
        raise NotImplementedError

    def service_commands(self, role: Role) -> Commands:  # noqa: ARG002 - most have none, for any role
        """Return the commands of what must run beside the workers and is never killed."""
        return []
